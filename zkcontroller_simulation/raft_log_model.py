"""The metadata log of a simulated node: real record batches in memory, and crashes that lose some.

A log has two contents: what its process reads (the page cache), and what is on disk after a loss of
power.  Here both are lists of batches.  A snapshot is durable as soon as it is stored.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache
from itertools import islice, pairwise
from random import Random
from typing import Final, NamedTuple

from kafka_common.errors import CorruptRecord, LimitReached, UnexpectedAppendOffset
from kafka_common.protocol.record_batch import BatchHeader, is_intact, iterate_batches
from kraft.raft.raft_log import LogPosition, validate_position
from kraft.raft.values import OffsetAndEpoch

WITHOUT_LIMIT: Final = 2**31 - 1


READ_BATCHES: Final = 512
"""Entries of the cache of decoded batches, which all replicas share."""


class NumberBatch(NamedTuple):
    """One batch of the log."""

    base_offset: int
    next_offset: int
    epoch: int
    header: BatchHeader
    data: bytes


def _base_offset(batch: NumberBatch) -> int:
    return batch.base_offset


@lru_cache(READ_BATCHES)
def whole_batches(data: bytes) -> tuple[NumberBatch, ...]:
    """The complete batches in these bytes; CorruptRecord if one is damaged or none is complete."""
    batches = tuple(
        NumberBatch(
            header.base_offset,
            header.next_offset,
            header.partition_leader_epoch,
            header,
            data[position : position + header.size],
        )
        for position, header in iterate_batches(data)
    )
    if any(not is_intact(batch.data, 0, batch.header) for batch in batches):
        raise CorruptRecord("a batch whose checksum is not its own")
    if data and not batches:
        raise CorruptRecord(f"{len(data)} bytes without a whole batch")
    return batches


class InMemoryRaftLog:
    """A ``RaftLog`` in memory, with the faults that the simulator causes."""

    def __init__(
        self, *, retention_bytes: int = WITHOUT_LIMIT, chunk_bytes: int = WITHOUT_LIMIT
    ) -> None:
        """``retention_bytes``: cleaned above it; ``chunk_bytes``: size of a snapshot part."""
        self._retention_bytes = retention_bytes
        self._chunk_bytes = chunk_bytes
        self.batches: list[NumberBatch] = []
        self.snapshots: dict[OffsetAndEpoch, bytes] = {}
        """Snapshots by id, in the order of their ids."""
        self.start_offset = 0
        self.high_watermark = 0
        self.changes = 0
        """The number of changes of the log or its snapshots that were not appends."""
        self.cuts = 0
        """The number of times that a truncation or snapshot removed records at the end."""
        self.on_high_watermark: Callable[[int], None] | None = None
        """Called with every new high watermark of the log."""
        self.on_append: Callable[[NumberBatch, int], None] | None = None
        """Called with each appended batch and the epoch of the record before it."""
        self.is_at_limit = False
        """Whether no file can be opened, so that appends and truncations fail."""
        self._epochs: list[tuple[int, int]] = []
        self._durable: list[NumberBatch] | None = None
        """The batches that a loss of power leaves; None: the first ``_flushed_batches``."""
        self._flushed_batches = 0
        self._download: tuple[OffsetAndEpoch, bytearray] | None = None

    # ------------------------------------------------------------------ what raft needs

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    @property
    def last_epoch(self) -> int:
        if self._epochs:
            return self._epochs[-1][0]
        latest = self.latest_snapshot_id
        assert latest is None or latest.offset in (0, self.start_offset), "a gap behind a snapshot"
        return 0 if latest is None else latest.epoch

    def refuse_at_limit(self) -> None:
        if self.is_at_limit:
            raise LimitReached("the process may open 100 files (ulimit -n)")

    def append_as_leader(self, batches: bytes, epoch: int) -> None:
        self.refuse_at_limit()
        taken = whole_batches(batches)
        assert taken, "a leader that appends nothing"
        for batch in taken:
            assert batch.epoch == epoch, f"a batch of epoch {batch.epoch} in {epoch}"
            self._append(batch)

    def append_as_follower(self, batches: bytes, epoch: int) -> int:
        self.refuse_at_limit()
        offered = whole_batches(batches)
        if offered and offered[0].base_offset < self.end_offset:
            first, last = offered[0].base_offset, offered[-1].next_offset - 1
            raise UnexpectedAppendOffset("offsets that are here already", first, last)
        taken = 0
        for batch in offered:
            if batch.epoch > epoch:
                break
            self._append(batch)
            taken += len(batch.data)
        return taken

    def initialize_leader_epoch(self, epoch: int) -> None:
        self._note_epoch(epoch, self.end_offset)

    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        if not self._epochs or epoch >= self._epochs[-1][0]:
            return OffsetAndEpoch(self.end_offset, self.last_epoch)
        place = bisect_right(self._epochs, epoch, key=lambda entry: entry[0])
        end = self._epochs[place][1]
        if place:
            return OffsetAndEpoch(end, self._epochs[place - 1][0])
        earliest = self.earliest_snapshot_id
        if earliest is not None and earliest.offset == end:
            return earliest
        return OffsetAndEpoch(end, epoch)

    def truncate_to(self, offset: int) -> None:
        self.refuse_at_limit()
        assert offset >= self.high_watermark, f"S8: {offset} is below {self.high_watermark}"
        assert offset <= self.end_offset, f"nothing to cut at {offset}"
        if self._durable is None:
            self._durable = self.batches[: self._flushed_batches]
        self.cuts += offset < self.end_offset
        self.changes += 1
        while self.batches and self.batches[-1].next_offset > offset:
            dropped = self.batches.pop()
            assert dropped.base_offset >= offset, f"{offset} is within a batch"
        self._flushed_batches = min(self._flushed_batches, len(self.batches))
        self._epochs = [entry for entry in self._epochs if entry[1] < offset]

    def update_high_watermark(self, offset: int) -> None:
        assert offset >= self.high_watermark, f"S7: {offset} after {self.high_watermark}"
        assert offset <= self.end_offset, f"S7: {offset} of {self.end_offset}"
        if self.on_high_watermark is not None:
            self.on_high_watermark(offset)
        self.high_watermark = offset

    def read(self, offset: int, max_bytes: int) -> bytes:
        place = self._place_of(offset)
        pieces: list[bytes] = []
        for batch in islice(self.batches, place, None):
            max_bytes -= len(batch.data)
            if pieces and max_bytes < 0:
                break
            pieces.append(batch.data)
        return b"".join(pieces)

    # ------------------------------------------------------------------ snapshots

    @property
    def latest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(reversed(self.snapshots), None)

    @property
    def earliest_snapshot_id(self) -> OffsetAndEpoch | None:
        return next(iter(self.snapshots), None)

    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        data = self.snapshots.get(snapshot_id)
        return None if data is None else len(data)

    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        size = min(max_bytes, self._chunk_bytes)
        return self.snapshots[snapshot_id][position : position + size]

    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        self._download = (snapshot_id, bytearray())

    def append_download(self, data: bytes) -> int:
        assert self._download is not None
        self._download[1].extend(data)
        return len(self._download[1])

    def finish_download(self) -> None:
        assert self._download is not None
        snapshot_id, data = self._download
        self._download = None
        self._keep_snapshot(snapshot_id, bytes(data))
        self._restart_behind(snapshot_id)

    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        self._restart_behind(snapshot_id)

    def drop_download(self) -> None:
        self._download = None

    def clean(self, now_ms: int) -> bool:  # noqa: ARG002 - this retention is one of size
        has_cleaned = False
        while len(self.snapshots) > 1 and self.size > self._retention_bytes:
            oldest, following = list(self.snapshots)[:2]
            if following.offset > self.high_watermark:
                break
            del self.snapshots[oldest]
            self._move_start(following.offset)
            has_cleaned = True
        return has_cleaned

    # ------------------------------------------------------------------ what others do to it

    @property
    def size(self) -> int:
        """Bytes of the log and of its snapshots."""
        return sum(len(batch.data) for batch in self.batches) + sum(
            len(data) for data in self.snapshots.values()
        )

    @property
    def flushed_offset(self) -> int:
        """The offset below which every record survives any crash."""
        if self._flushed_batches:
            return self.batches[self._flushed_batches - 1].next_offset
        return self.start_offset

    def epoch_at(self, offset: int) -> int | None:
        """The epoch of the record at ``offset``, None if it is not in the log."""
        batch = self.batch_at(offset)
        return None if batch is None else batch.epoch

    def batch_at(self, offset: int) -> NumberBatch | None:
        """The batch with that offset, if the log has it."""
        if not self.start_offset <= offset < self.end_offset:
            return None
        return self.batches[self._place_of(offset)]

    def batches_from(self, offset: int, most: int) -> list[NumberBatch]:
        """At most ``most`` batches, beginning with the one that has ``offset``."""
        place = self._place_of(offset)
        return self.batches[place : place + most]

    def flush(self) -> None:
        """Makes all records durable."""
        self._durable = None
        self._flushed_batches = len(self.batches)

    def create_snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes) -> bool:
        """Stores a snapshot of the state machine; False if it lies before the log start or exists.

        Source: Kafka ``KafkaMetadataLog.createNewSnapshot``.
        """
        if snapshot_id.offset < self.start_offset or snapshot_id in self.snapshots:
            return False
        assert snapshot_id.offset <= self.high_watermark, f"{snapshot_id} is not committed"
        verdict = validate_position(self, *snapshot_id)
        assert verdict.verdict is LogPosition.VALID, f"{snapshot_id} in this log: {verdict}"
        self._keep_snapshot(snapshot_id, data)
        return True

    def crash(self, random: Random, *, is_process_alone: bool = False) -> None:
        """Ends the process; unless ``is_process_alone``, some records not flushed are lost, too.

        A truncation that was not flushed may be undone, so that its records return.
        """
        self._download = None
        self.high_watermark = self.start_offset
        if not is_process_alone:
            self.batches = self._found_after_power_loss(random)
            self._durable = None
            self._flushed_batches = len(self.batches)
        self._build_epochs()
        self._truncate_to_latest_snapshot()

    def _found_after_power_loss(self, random: Random) -> list[NumberBatch]:
        if random.random() < 0.3:
            if self._durable is None:
                return self.batches[: self._flushed_batches]
            kept = [b for b in self._durable if b.base_offset >= self.start_offset]
            return kept if not kept or kept[0].base_offset == self.start_offset else []
        return self.batches[: random.randint(self._flushed_batches, len(self.batches))]

    # ------------------------------------------------------------------ within

    def _append(self, batch: NumberBatch) -> None:
        if self.on_append is not None:
            self.on_append(batch, self.last_record_epoch)
        self._note_epoch(batch.epoch, batch.base_offset)
        self.batches.append(batch)

    @property
    def last_record_epoch(self) -> int:
        """The epoch of the last record, or of the latest snapshot if there is no record."""
        if self.batches:
            return self.batches[-1].epoch
        latest = self.latest_snapshot_id
        return 0 if latest is None else latest.epoch

    def _note_epoch(self, epoch: int, offset: int) -> None:
        """Sets the start offset of an epoch, and drops earlier entries that contradict it.

        So does the epoch of a leader that died before it wrote a record: at offset 0 a log without
        any is sent what the next leader has, older records among it.  Source: Kafka
        ``LeaderEpochFileCache.assign``, ``ReplicatedLog.validateOffsetAndEpoch``.
        """
        if not self._epochs or epoch != self._epochs[-1][0] or offset < self._epochs[-1][1]:
            kept = [entry for entry in self._epochs if entry[0] < epoch and entry[1] < offset]
            self._epochs = [*kept, (epoch, offset)]

    def _build_epochs(self) -> None:
        self.changes += 1
        self._epochs = []
        for batch in self.batches:
            self._note_epoch(batch.epoch, batch.base_offset)

    def _place_of(self, offset: int) -> int:
        if offset >= self.end_offset:
            return len(self.batches)
        place = bisect_right(self.batches, offset, key=_base_offset)
        if place and self.batches[place - 1].next_offset > offset:
            return place - 1
        return place

    def _keep_snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes) -> None:
        self.changes += 1
        latest = self.latest_snapshot_id
        self.snapshots[snapshot_id] = data
        if latest is not None and snapshot_id < latest:
            self.snapshots = dict(sorted(self.snapshots.items()))

    def _truncate_to_latest_snapshot(self) -> bool:
        latest = self.latest_snapshot_id
        if latest is None or (latest.epoch, latest.offset) <= (
            self._epochs[-1][0] if self._epochs else 0,
            self.end_offset,
        ):
            return False
        self._restart_behind(latest)
        return True

    def _restart_behind(self, snapshot_id: OffsetAndEpoch) -> None:
        assert snapshot_id == self.latest_snapshot_id, f"{snapshot_id} is not the latest snapshot"
        assert snapshot_id.offset >= self.high_watermark, f"S8: a restart at {snapshot_id}"
        self.changes += 1
        self.cuts += bool(self.batches)
        self.batches, self._epochs, self._durable = [], [], None
        self._flushed_batches = 0
        self.start_offset = self.high_watermark = snapshot_id.offset
        self.snapshots = {snapshot_id: self.snapshots[snapshot_id]}

    def _move_start(self, offset: int) -> None:
        self.changes += 1
        dropped = sum(batch.next_offset <= offset for batch in self.batches)
        self.batches = self.batches[dropped:]
        if self._durable is not None:
            self._durable = [b for b in self._durable if b.base_offset >= offset]
        self._flushed_batches = max(0, self._flushed_batches - dropped)
        self._forget_epochs_before(offset)
        self.start_offset = offset

    def _forget_epochs_before(self, offset: int) -> None:
        self._epochs = [
            (epoch, max(start, offset))
            for (epoch, start), (_, end) in pairwise([*self._epochs, (0, self.end_offset + 1)])
            if end > offset
        ]
