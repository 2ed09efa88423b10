"""Gathers records into batches before they are appended to the leader's log.

The records of one append are in one batch.  They are not drained between
:meth:`BatchAccumulator.prepare` and :meth:`BatchAccumulator.allow_drain`, because the controller
replays them in between.

Source: Kafka ``BatchAccumulator``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_common.errors import BufferAllocation, NotLeader, RecordListTooLarge
from kafka_common.protocol.record_batch import HEADER_BYTES, encode_batch
from kafka_common.protocol.records import Record
from kraft.raft.config import MAX_BATCH_BYTES, MAX_COMPLETED_BATCHES, NEVER_MS

_RECORD_OVERHEAD_BYTES: Final = 22
"""The most that a record adds to its value: five lengths and deltas as varints, and attributes."""


class CompletedBatch(NamedTuple):
    """A batch that waits to be appended."""

    data: bytes
    last_offset: int


@dataclass(slots=True)
class _OpenBatch:
    """A batch that still takes records."""

    base_offset: int
    timestamp: int
    values: list[bytes] = field(default_factory=list)
    size: int = HEADER_BYTES


def check_batch_size(values: Sequence[bytes]) -> int:
    """The most bytes that these records take; RecordListTooLarge for more than a batch holds.

    Source: Kafka ``BatchAccumulator.maybeAllocateBatch``.
    """
    size = sum(len(value) + _RECORD_OVERHEAD_BYTES for value in values)
    if HEADER_BYTES + size > MAX_BATCH_BYTES:
        raise RecordListTooLarge(
            f"The total record(s) size of {size} exceeds the maximum allowed batch size of "
            f"{MAX_BATCH_BYTES}"
        )
    return size


class BatchAccumulator:
    """Collects records of one leader epoch into batches, until they are drained to the log."""

    def __init__(self, epoch: int, base_offset: int, linger_ms: int) -> None:
        self.epoch = epoch
        self.next_offset = base_offset
        self._linger_ms = linger_ms
        self._linger_deadline_ms = NEVER_MS
        self._drain_limit: int | None = None
        self._open: _OpenBatch | None = None
        self._completed: deque[CompletedBatch] = deque()

    def prepare(self, epoch: int, values: Sequence[bytes], now_ms: int) -> int:
        """Adds records as one unit; returns the offset of the last one.

        NotLeader if ``epoch`` has ended; RecordListTooLarge for more than a batch ever holds;
        BufferAllocation while too many batches wait.  In all three cases nothing is added.
        """
        if epoch < self.epoch:
            raise NotLeader(
                f"Append failed because the given epoch {epoch} is stale. "
                f"Current leader epoch = {self.epoch}"
            )
        if epoch > self.epoch:
            raise ValueError(f"epoch {epoch} has not begun: this is {self.epoch}")
        if not values:
            raise ValueError("an append without records")
        size = check_batch_size(values)
        if len(self._completed) >= MAX_COMPLETED_BATCHES:
            raise BufferAllocation(f"{len(self._completed)} batches already wait to be appended")
        if self._drain_limit is None:
            self._drain_limit = self.next_offset
        batch = self._room_for(size, now_ms)
        batch.values += values
        batch.size += size
        self.next_offset += len(values)
        if self._linger_deadline_ms == NEVER_MS:
            self._linger_deadline_ms = now_ms + self._linger_ms
        return self.next_offset - 1

    def allow_drain(self) -> None:
        """Allows prepared records to be drained."""
        self._drain_limit = None

    def append_control(self, records: Sequence[tuple[bytes, bytes]], now_ms: int) -> None:
        """Adds control records (keys and values) as a separate batch that is drained at once."""
        self._complete()
        base = self.next_offset
        numbered = [Record(base + at, now_ms, *record) for at, record in enumerate(records)]
        data = encode_batch(numbered, partition_leader_epoch=self.epoch, is_control=True)
        self._completed.append(CompletedBatch(data, numbered[-1].offset))
        self.next_offset = base + len(records)
        self._linger_deadline_ms = now_ms

    def deadline_ms(self) -> int:
        """The time from which :meth:`drain` returns batches: 0 for at once, NEVER_MS for never."""
        if self._completed and self._is_drainable(self._completed[0].last_offset):
            return 0
        return self._linger_deadline_ms if self._drain_limit is None else NEVER_MS

    def drain(self, now_ms: int) -> list[CompletedBatch]:
        """Removes and returns the batches to append now, in order."""
        if self.deadline_ms() > now_ms:
            return []
        if self._drain_limit is None:
            self._complete()
            self._linger_deadline_ms = NEVER_MS
        drained = []
        while self._completed and self._is_drainable(self._completed[0].last_offset):
            drained.append(self._completed.popleft())
        return drained

    def _is_drainable(self, last_offset: int) -> bool:
        return self._drain_limit is None or last_offset < self._drain_limit

    def _room_for(self, size: int, now_ms: int) -> _OpenBatch:
        if self._open is not None and self._open.size + size > MAX_BATCH_BYTES:
            self._complete()
        if self._open is None:
            self._open = _OpenBatch(self.next_offset, now_ms)
        return self._open

    def _complete(self) -> None:
        batch, self._open = self._open, None
        if batch is None:
            return
        records = [
            Record(batch.base_offset + at, batch.timestamp, None, value)
            for at, value in enumerate(batch.values)
        ]
        data = encode_batch(records, partition_leader_epoch=self.epoch)
        self._completed.append(CompletedBatch(data, records[-1].offset))
