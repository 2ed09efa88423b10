"""The production metadata log in the simulator: real files, compared with the model in memory.

Every call goes to both, and both must return the same.  A loss of power changes the files: bytes
that were not flushed are cut off at any place, also within a batch, or become zeros.  Indexes and
the leader epoch checkpoint are not changed, so they may be ahead of the records or behind them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from typing_extensions import override

from kafka_common.errors import RecordsRefused
from kafka_common.protocol.record_batch import iterate_batches
from kraft.node.metadata_log import KafkaMetadataLog
from kraft.node.metadata_log_config import MetadataLogConfig
from kraft.raft.values import OffsetAndEpoch
from zkcontroller_simulation.raft_log_model import InMemoryRaftLog, NumberBatch, whole_batches

SEGMENT_BYTES: Final = 600
"""A few batches, so that logs grow, are truncated and are cleaned over several segments."""

T = TypeVar("T")


class MirroredRaftLog(InMemoryRaftLog):
    """The model, and the production log in a folder."""

    def __init__(
        self,
        directory: Path,
        now_ms: Callable[[], int],
        random: Random,
        *,
        retention_bytes: int,
        chunk_bytes: int,
    ) -> None:
        """``random`` decides only how much of a batch a loss of power leaves."""
        super().__init__(retention_bytes=retention_bytes, chunk_bytes=chunk_bytes)
        self._directory = directory
        self._now_ms = now_ms
        self._random = random
        self._config = MetadataLogConfig(
            segment_bytes=SEGMENT_BYTES,
            segment_min_bytes=SEGMENT_BYTES,
            retention_max_bytes=retention_bytes,
            retention_ms=-1,
        )
        self._files = self._open()
        self._killed: list[KafkaMetadataLog] = []

    def _open(self) -> KafkaMetadataLog:
        return KafkaMetadataLog.open(self._directory, self._config, self._now_ms)

    # ------------------------------------------------------------------ both alike

    @staticmethod
    def _alike(what: str, model: T, files: T) -> T:
        assert model == files, f"{what}: {model} in the model, {files} in the files"
        return files

    def _compare(self, after: str) -> None:
        self._alike(f"start after {after}", self.start_offset, self._files.start_offset)
        self._alike(f"end after {after}", self.end_offset, self._files.end_offset)
        self._alike(f"last epoch after {after}", self.last_epoch, self._files.last_epoch)
        known = self._files.high_watermark
        self._alike(f"high watermark after {after}", self.high_watermark, known)
        earliest, latest = self._files.earliest_snapshot_id, self._files.latest_snapshot_id
        self._alike(f"first snapshot after {after}", self.earliest_snapshot_id, earliest)
        self._alike(f"last snapshot after {after}", self.latest_snapshot_id, latest)

    @override
    def append_as_leader(self, batches: bytes, epoch: int) -> None:
        self.refuse_at_limit()
        self._files.append_as_leader(batches, epoch)
        super().append_as_leader(batches, epoch)
        self._compare("a leader's append")

    @override
    def append_as_follower(self, batches: bytes, epoch: int) -> int:
        self.refuse_at_limit()
        try:
            taken = self._files.append_as_follower(batches, epoch)
        except RecordsRefused as refused:
            try:
                super().append_as_follower(batches, epoch)
            except type(refused):
                raise refused from None
            raise AssertionError(f"the files refuse what the model takes: {refused}") from refused
        self._alike("bytes taken", super().append_as_follower(batches, epoch), taken)
        self._compare("a follower's append")
        return taken

    @override
    def initialize_leader_epoch(self, epoch: int) -> None:
        super().initialize_leader_epoch(epoch)
        self._files.initialize_leader_epoch(epoch)

    @override
    def end_offset_for_epoch(self, epoch: int) -> OffsetAndEpoch:
        model = super().end_offset_for_epoch(epoch)
        return self._alike(
            f"the end of epoch {epoch}", model, self._files.end_offset_for_epoch(epoch)
        )

    @override
    def truncate_to(self, offset: int) -> None:
        super().truncate_to(offset)
        self._files.truncate_to(offset)
        self._compare(f"a truncation to {offset}")

    @override
    def update_high_watermark(self, offset: int) -> None:
        super().update_high_watermark(offset)
        self._files.update_high_watermark(offset)

    @override
    def read(self, offset: int, max_bytes: int) -> bytes:
        model, files = super().read(offset, max_bytes), self._files.read(offset, max_bytes)
        # The files return records of one segment only, and may end within a batch.
        assert model.startswith(files[: len(model)]), f"other records from {offset} on"
        assert files or not model, f"no records from {offset} on"
        return files

    # ------------------------------------------------------------------ snapshots

    @override
    def snapshot_bytes(self, snapshot_id: OffsetAndEpoch) -> int | None:
        model = super().snapshot_bytes(snapshot_id)
        return self._alike(f"{snapshot_id}", model, self._files.snapshot_bytes(snapshot_id))

    @override
    def read_snapshot(self, snapshot_id: OffsetAndEpoch, position: int, max_bytes: int) -> bytes:
        model = super().read_snapshot(snapshot_id, position, max_bytes)
        files = self._files.read_snapshot(snapshot_id, position, len(model))
        return self._alike(f"{snapshot_id} from {position}", model, files)

    @override
    def create_snapshot(self, snapshot_id: OffsetAndEpoch, data: bytes) -> bool:
        is_needed = super().create_snapshot(snapshot_id, data)
        writer = self._files.create_snapshot(snapshot_id)
        self._alike(f"the need of {snapshot_id}", is_needed, writer is not None)
        if writer is not None:
            writer.append(data)
            writer.freeze()
            self._files.add_snapshot(writer)
        return is_needed

    @override
    def begin_download(self, snapshot_id: OffsetAndEpoch) -> None:
        super().begin_download(snapshot_id)
        self._files.begin_download(snapshot_id)

    @override
    def append_download(self, data: bytes) -> int:
        size = super().append_download(data)
        return self._alike("the size of a download", size, self._files.append_download(data))

    @override
    def finish_download(self) -> None:
        super().finish_download()
        self._files.finish_download()
        self._compare("a download")

    @override
    def restart_at(self, snapshot_id: OffsetAndEpoch) -> None:
        super().restart_at(snapshot_id)
        self._files.restart_at(snapshot_id)
        self._compare(f"a restart at {snapshot_id}")

    @override
    def drop_download(self) -> None:
        super().drop_download()
        self._files.drop_download()

    @override
    def clean(self, now_ms: int) -> bool:
        """Cleans the files, which drop whole segments only, and the model in the same way."""
        has_cleaned = self._files.clean(now_ms)
        earliest = self._files.earliest_snapshot_id
        if earliest is not None:
            self.snapshots = {
                known: data for known, data in self.snapshots.items() if known >= earliest
            }
        if self._files.start_offset > self.start_offset:
            self._move_start(self._files.start_offset)
        self._compare("a cleaning")
        return has_cleaned

    # ------------------------------------------------------------------ disk

    @override
    def flush(self) -> None:
        super().flush()
        plan = self._files.plan_flush()
        if plan is not None:
            # The plan is not run, because only the simulator causes losses of power.
            self._files.finish_flush(plan)
        for task in self._files.deferred_tasks.take_due(self._now_ms()):
            task.action()
            if task.after is not None:
                task.after()

    @override
    def crash(self, random: Random, *, is_process_alone: bool = False) -> None:
        self._killed.append(self._files)
        super().crash(random, is_process_alone=is_process_alone)
        self._files = self._open()
        if self._files.start_offset < self.start_offset:
            self._bring_back(self._files.start_offset)
        self._compare("a restart")
        self._compare_epochs()

    def _compare_epochs(self) -> None:
        """Compares the epochs of both logs, except those that a cleaning removed."""
        earliest = self.earliest_snapshot_id
        if earliest is not None and self._epochs:
            first, _ = self._epochs[0]
            if self._files.end_offset_for_epoch(first) != super().end_offset_for_epoch(first):
                self._forget_epochs_before(earliest.offset)
        for epoch, _ in self._epochs:
            self.end_offset_for_epoch(epoch)

    def _bring_back(self, start_offset: int) -> None:
        """Adds the records of the first segment again, whose deletion a crash undid."""
        assert start_offset == 0, f"a log that begins at {start_offset}, where no snapshot ends"
        before: list[NumberBatch] = []
        while (offset := before[-1].next_offset if before else 0) < self.start_offset:
            batches = whole_batches(self._files.read(offset, 2**20))
            assert batches, f"no records at {offset}, in a log that begins at {start_offset}"
            before += [batch for batch in batches if batch.base_offset < self.start_offset]
        self.batches[:0] = before
        if self._durable is not None:
            self._durable[:0] = before
        self._flushed_batches += len(before)
        self.start_offset = self.high_watermark = 0
        self._build_epochs()

    @override
    def _found_after_power_loss(self, random: Random) -> list[NumberBatch]:
        found = super()._found_after_power_loss(random)
        self._leave_in_files(found)
        return found

    def _leave_in_files(self, kept: Sequence[NumberBatch]) -> None:
        """Cuts the files to these records and, possibly, a part of the next batch."""
        left = list(kept)
        segments = sorted(self._files.directory.glob("*.log"))
        for place, segment in enumerate(segments):
            position = self._same_bytes(segment, left)
            if position < segment.stat().st_size:
                self._cut(segment, position, left)
                for later in segments[place + 1 :]:
                    for file in later.parent.glob(f"{later.stem}.*"):
                        file.unlink()
                return
        if left:
            _append(segments[-1], left)

    def _same_bytes(self, segment: Path, left: list[NumberBatch]) -> int:
        """The position up to which the segment matches ``left``; removes those batches there."""
        content = segment.read_bytes()
        position = 0
        for at, header in iterate_batches(content):
            data = content[at : at + header.size]
            if header.base_offset >= self.start_offset:
                if not left or left[0].data != data:
                    break
                del left[0]
            position = at + header.size
        return position

    def _cut(self, segment: Path, position: int, left: Sequence[NumberBatch]) -> None:
        """Truncates a segment at ``position``, leaving perhaps a part of the next batch."""
        lost = whole_batches(segment.read_bytes()[position:])
        torn_at = zeros_from = ends_at = position
        if lost and not left:
            # The bytes that are cut must not all be zeros, or the loss could not be detected.
            torn_at += self._random.randrange(len(lost[0].data) - 2)
            whole = position + len(lost[0].data)
            zeros_from, ends_at = self._random.choice(
                ((position, position), (torn_at, torn_at), (position, torn_at), (torn_at, whole))
            )
        with segment.open("r+b") as file:
            file.truncate(zeros_from)
            file.truncate(ends_at)
        _append(segment, left)

    def close(self) -> None:
        """Closes the files, also those of killed processes."""
        for killed in self._killed:
            killed.drop_download()
        self._files.close()


def _append(segment: Path, batches: Sequence[NumberBatch]) -> None:
    with segment.open("ab") as file:
        for batch in batches:
            file.write(batch.data)
