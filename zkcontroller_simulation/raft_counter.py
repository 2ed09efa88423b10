"""A state machine whose errors are easy to detect: a counter.  Every record is the next number.

The leader appends the number after the last one.  Every node that applies a record checks that it
holds the next number.  So a lost, repeated or reordered record is detected at once.  A snapshot
holds only the number.

Source: Kafka ``ReplicatedCounter``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final

from kafka_common.protocol.record_batch import iterate_batch, iterate_batches
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch
from zkcontroller_simulation.raft_log_model import READ_BATCHES, InMemoryRaftLog, NumberBatch

LISTENER: Final = "counter"
SNAPSHOT_PADDING: Final = 60
"""Padding bytes of a snapshot, so that it is fetched in several parts."""


def encoded_number(number: int) -> bytes:
    """The number as the value of a record."""
    return b"%d" % number


@lru_cache(READ_BATCHES)
def numbers_of(batch: bytes) -> tuple[tuple[int, int], ...]:
    """(offset, number) of each record in a batch; empty for a batch of control records."""
    numbers = []
    for position, header in iterate_batches(batch):
        if not header.is_control:
            records = iterate_batch(batch, position, header)
            numbers += [(record.offset, int(record.value or b"")) for record in records]
    return tuple(numbers)


class Counter:
    """The listener of one process of a node."""

    def __init__(self, log: InMemoryRaftLog, node_id: int | None, snapshot_every: int) -> None:
        """``snapshot_every``: the numbers after which the next snapshot is made."""
        self._log = log
        self._node_id = node_id
        self._snapshot_every = snapshot_every
        self.number = 0
        self.next_offset = 0
        self.claimed_epoch: int | None = None
        """The epoch in which this node leads, according to the last call of :meth:`lead`."""
        self.prepared_number = 0
        """As leader: the last number that was appended, committed or not."""
        self.on_number: Callable[[int, int], None] | None = None
        """Called with each number and its offset, or the last offset of the number's snapshot."""
        self._snapshot_number = 0

    def commit(self, first_offset: int, high_watermark: int, most_batches: int) -> int:
        """Applies at most ``most_batches`` below the high watermark; returns the next offset."""
        if first_offset < self._log.start_offset:
            return self.next_offset
        assert first_offset == self.next_offset, f"{first_offset} after {self.next_offset}"
        taken = 0
        for batch in self._log.batches_from(first_offset, most_batches):
            if batch.next_offset > high_watermark:
                break
            taken += 1
            self._take_in(batch)
            self.next_offset = batch.next_offset
            self._snapshot(OffsetAndEpoch(self.next_offset, batch.epoch))
        assert taken, f"nothing to take in between {first_offset} and {high_watermark}"
        return self.next_offset

    def load(self, snapshot_id: OffsetAndEpoch) -> int:
        """Replaces the state by a snapshot; returns the next offset."""
        assert self.claimed_epoch is None, "S12: a leader loads a snapshot"
        size = self._log.snapshot_bytes(snapshot_id)
        if size is None:
            # The snapshot was cleaned; a newer one exists.
            return self.next_offset
        data = b""
        while len(data) < size:
            data += self._log.read_snapshot(snapshot_id, len(data), size)
        self.number = self._snapshot_number = int(data)
        self.next_offset = snapshot_id.offset
        if self.on_number is not None:
            self.on_number(snapshot_id.offset - 1, self.number)
        return self.next_offset

    def lead(self, leader: LeaderAndEpoch) -> None:
        """Notes the leader and its epoch."""
        is_own = leader.leader_id is not None and leader.leader_id == self._node_id
        self.claimed_epoch = leader.epoch if is_own else None
        self.prepared_number = self.number

    def next_numbers(self, count: int) -> list[bytes]:
        """The values of the next ``count`` numbers that a leader appends."""
        first = self.prepared_number + 1
        return [encoded_number(number) for number in range(first, first + count)]

    def _take_in(self, batch: NumberBatch) -> None:
        for offset, number in numbers_of(batch.data):
            assert number == self.number + 1, f"S9: {number} at {offset} comes after {self.number}"
            self.number = number
            if self.on_number is not None:
                self.on_number(offset, number)

    def _snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        if self.number - self._snapshot_number >= self._snapshot_every:
            data = b"%0*d" % (SNAPSHOT_PADDING, self.number)
            self._log.create_snapshot(snapshot_id, data)
            self._snapshot_number = self.number
