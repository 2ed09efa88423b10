"""A Fetch request that waits until enough can be read, or must be answered at once.

What there is to read is reckoned from places in the log, without reading.  When the time comes the
whole request is read again.

Source: Kafka ``DelayedFetch``, ``ReplicaManager.fetchMessages``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, Self, TypeVar

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.replication.fetch_values import (
    NO_PREFERRED_REPLICA,
    FetchPartitionData,
    TopicIdPartition,
)


class LogPlace(Protocol):
    """An offset with its segment and its position there."""

    @property
    def message_offset(self) -> int: ...

    def is_on_older_segment(self, other: Self, /) -> bool:
        """Whether the segment is one before that of ``other``."""

    def bytes_until(self, later: Self, /) -> int | None:
        """Bytes between two places of one segment; None for two segments or unknown places."""


Place = TypeVar("Place", bound=LogPlace)


class FetchPartitionStatus(NamedTuple, Generic[Place]):
    """One partition of a request that waits."""

    partition: TopicIdPartition
    start_offset_metadata: Place
    """Where the first read began."""
    fetch_info: FetchPartition


class DelayedFetch(Generic[Place]):
    """Waits until all partitions together have ``min_bytes``."""

    def __init__(
        self,
        partitions: Sequence[FetchPartitionStatus[Place]],
        min_bytes: int,
        readable_end: Callable[[FetchPartitionStatus[Place]], Place | ErrorCode],
        has_diverged: Callable[[FetchPartitionStatus[Place]], bool],
    ) -> None:
        """``readable_end`` returns how far the request may read now, or the error."""
        self.partitions = {each.partition.topic_partition: each for each in partitions}
        self._ready = dict.fromkeys(self.partitions, 0)
        self._changed: dict[TopicPartition, None] | None = None
        self.touched: set[TopicPartition] = set()
        """Partitions that have changed while this waited."""
        self._min_bytes = min_bytes
        self._readable_end = readable_end
        self._has_diverged = has_diverged

    def changed(self, partition: TopicPartition) -> None:
        """Notes a partition to check; of thousands mostly one has changed."""
        self.touched.add(partition)
        self._changed = {} if self._changed is None else self._changed
        self._changed[partition] = None

    def is_complete(self) -> bool:
        """Whether to answer now; checks the changed partitions, or all if none is noted."""
        changed = self.partitions if self._changed is None else self._changed
        self._changed = None
        for partition in changed:
            status = self.partitions[partition]
            self._ready[partition] = 0
            end = self._readable_end(status)
            if isinstance(end, ErrorCode):
                # Not leader, unknown, offline, or another leader epoch: the read will say it.
                return True
            if status.start_offset_metadata.message_offset > end.message_offset:
                return True  # the log was truncated
            if status.start_offset_metadata.message_offset < end.message_offset:
                if status.start_offset_metadata.is_on_older_segment(end):
                    return True  # there is a newer segment: answer, however little is there
                size = status.start_offset_metadata.bytes_until(end) or 0
                self._ready[partition] = min(size, status.fetch_info.partition_max_bytes)
            if status.fetch_info.last_fetched_epoch != NO_EPOCH and self._has_diverged(status):
                return True
        return sum(self._ready.values()) >= self._min_bytes


def must_answer_at_once(
    fetched: Iterable[FetchPartitionData], *, max_wait_ms: int, min_bytes: int
) -> bool:
    """Whether a Fetch request is answered with the first read instead of being parked."""
    results = list(fetched)
    if max_wait_ms <= 0 or not results:
        return True
    if sum(len(result.records) for result in results) >= min_bytes:
        return True
    return any(
        result.error is not ErrorCode.none
        or result.diverging_epoch is not None
        or result.preferred_read_replica != NO_PREFERRED_REPLICA
        for result in results
    )
