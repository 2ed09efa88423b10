"""A log in memory: what replication sees of a log, and nothing else.

Its records are strings, each a batch of its own.  The same tests hold it and the log on disk
against the rules that replication relies on.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple, Protocol

from kafka_common.errors import OffsetOutOfRange, OffsetsOutOfOrder, UnexpectedAppendOffset
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.replica_log import ReplicaLog


class Record(NamedTuple):
    """One record; its value has no spaces."""

    offset: int
    leader_epoch: int
    value: str


def encoded(records: list[Record]) -> bytes:
    """The records as they travel."""
    return "".join(f"{offset} {epoch} {value}\n" for offset, epoch, value in records).encode()


def decoded(batches: bytes | memoryview) -> list[Record]:
    """The records of a fetch."""
    lines = (line.split() for line in bytes(batches).decode().splitlines())
    return [Record(int(offset), int(epoch), value) for offset, epoch, value in lines]


class SimulatedLog(ReplicaLog, Protocol):
    """A log as the simulator uses it: what replication sees, and what the simulator does to it."""

    @property
    def records(self) -> list[Record]:
        """Everything in the log."""

    @property
    def changes(self) -> int:
        """How often it was written to."""

    def record_at(self, offset: int, /) -> Record | None:
        """The record at ``offset``, if the log has one there."""

    def read(self, offset: int, most: int, /) -> bytes:
        """About ``most`` records from ``offset`` on."""

    def append_as_leader(self, value: str, leader_epoch: int, /) -> int:
        """Appends a record; its offset."""

    def checkpoint_high_watermark(self) -> None:
        """What the broker does every five seconds."""

    def restart(self) -> None:
        """The process was killed and the log is loaded again: every record is still there."""


class Appended(NamedTuple):
    """What a log took."""

    last_offset: int
    valid_bytes: int
    last_leader_epoch: int | None
    is_flush_due: bool = False


class InMemoryLog:
    """Records, an epoch cache and a high watermark that outlives a restart only as checkpointed."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.epochs: list[tuple[int, int]] = []
        """Leader epochs and their start offsets, both rising."""
        self.log_start_offset = 0
        self._next_offset = 0
        self.high_watermark = 0
        self.checkpointed_high_watermark = 0
        self.changes = 0
        """How often it was written to."""

    @property
    def log_end_offset(self) -> int:
        return self._next_offset

    @property
    def last_stable_offset(self) -> int:
        return self.high_watermark

    @property
    def latest_epoch(self) -> int | None:
        return self.epochs[-1][0] if self.epochs else None

    def record_at(self, offset: int) -> Record | None:
        """The record at ``offset``, if the log has one there."""
        place = offset - self.log_start_offset
        return self.records[place] if 0 <= place < len(self.records) else None

    def read(self, offset: int, most: int) -> bytes:
        """At most ``most`` records from ``offset`` on."""
        place = offset - self.log_start_offset
        return encoded(self.records[place : place + most])

    def append_as_leader(self, value: str, leader_epoch: int) -> int:
        """Appends a record; its offset."""
        self.changes += 1
        record = Record(self._next_offset, leader_epoch, value)
        self.assign_epoch_start_offset(leader_epoch, record.offset)
        self.records.append(record)
        self._next_offset += 1
        return record.offset

    def append_as_follower(self, records: bytes | memoryview) -> Appended:
        taken = decoded(records)
        self.changes += bool(taken)
        if not taken:
            return Appended(-1, 0, None)
        if taken[0].offset < self._next_offset:
            raise UnexpectedAppendOffset(
                "offsets that are here already", taken[0].offset, taken[-1].offset
            )
        for record in taken:
            if record.offset != self._next_offset:
                raise OffsetsOutOfOrder(f"{record.offset} after {self._next_offset - 1}")
            self.assign_epoch_start_offset(record.leader_epoch, record.offset)
            self.records.append(record)
            self._next_offset += 1
        return Appended(taken[-1].offset, len(records), taken[-1].leader_epoch)

    def assign_epoch_start_offset(self, leader_epoch: int, start_offset: int) -> None:
        self.changes += 1
        if self.latest_epoch is None or leader_epoch > self.latest_epoch:
            self.epochs = [entry for entry in self.epochs if entry[1] < start_offset]
            self.epochs.append((leader_epoch, start_offset))

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEndOffset | None:
        if leader_epoch == self.latest_epoch:
            return EpochEndOffset(leader_epoch, self.log_end_offset)
        higher = [start for epoch, start in self.epochs if epoch > leader_epoch]
        if leader_epoch < 0 or not higher:
            return None
        lower = [epoch for epoch, _ in self.epochs if epoch <= leader_epoch]
        return EpochEndOffset(lower[-1] if lower else leader_epoch, higher[0])

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        assert offset <= self.log_end_offset
        return offset > self.high_watermark and self.update_high_watermark(offset)

    def update_high_watermark(self, offset: int) -> bool:
        old = self.high_watermark
        self.high_watermark = max(self.log_start_offset, min(offset, self.log_end_offset))
        has_moved = self.high_watermark != old
        self.changes += has_moved
        return has_moved

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        self.changes += 1
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"{reason}: {offset} is above the high watermark")
        if offset <= self.log_start_offset:
            return False
        self.records = self.records[offset - self.log_start_offset :]
        self.epochs = [
            (epoch, max(start, offset))
            for (epoch, start), (_, end) in pairwise([*self.epochs, (0, self._next_offset + 1)])
            if end > offset
        ]
        self.log_start_offset = offset
        return True

    def plan_truncation(self, _: int) -> None:
        """None: it reads nothing again."""

    def truncate_to(self, offset: int) -> bool:
        self.changes += 1
        is_cut = offset < self._next_offset
        end = min(offset, self._next_offset)
        self.records = self.records[: max(0, end - self.log_start_offset)]
        self.epochs = [entry for entry in self.epochs if entry[1] < end]
        self._next_offset = end
        self.log_start_offset = min(self.log_start_offset, end)
        self.high_watermark = min(self.high_watermark, end)
        return is_cut

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.changes += 1
        self.records, self.epochs = [], []
        self.log_start_offset = self._next_offset = self.high_watermark = offset

    def checkpoint_high_watermark(self) -> None:
        """What the broker does every five seconds."""
        self.checkpointed_high_watermark = self.high_watermark

    def restart(self) -> None:
        """The process was killed and the log is loaded again: every record is still there."""
        self.changes += 1
        self.epochs = [entry for entry in self.epochs if entry[1] < self._next_offset]
        self.high_watermark = 0
        self.update_high_watermark(self.checkpointed_high_watermark)
