"""A Fetch request that waits until enough bytes can be read, or until waiting is useless.

The number of readable bytes is computed from positions in the log, without reading records.  When
the wait ends, the whole request is read again.

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
    """An offset, with its segment and its byte position in that segment."""

    @property
    def message_offset(self) -> int: ...

    def is_on_older_segment(self, other: Self, /) -> bool:
        """Whether the segment is older than the segment of ``other``."""

    def bytes_until(self, later: Self, /) -> int | None:
        """Bytes between two places; None if they are in two segments or unknown."""


Place = TypeVar("Place", bound=LogPlace)


class FetchPartitionStatus(NamedTuple, Generic[Place]):
    """One partition of a Fetch request that waits."""

    partition: TopicIdPartition
    start_offset_metadata: Place
    """The position in the log where the first read began."""
    fetch_info: FetchPartition


class DelayedFetch(Generic[Place]):
    """Waits until all partitions together have ``min_bytes`` to read."""

    def __init__(
        self,
        partitions: Sequence[FetchPartitionStatus[Place]],
        min_bytes: int,
        readable_end: Callable[[FetchPartitionStatus[Place]], Place | ErrorCode],
        has_diverged: Callable[[FetchPartitionStatus[Place]], bool],
    ) -> None:
        """``readable_end`` returns the end of what the request may read now, or an error.

        ``has_diverged`` says whether the follower's log differs from the leader's.
        """
        self.partitions = {each.partition.topic_partition: each for each in partitions}
        self._ready = dict.fromkeys(self.partitions, 0)
        self._changed: dict[TopicPartition, None] | None = None
        self.touched: set[TopicPartition] = set()
        """Partitions that changed while the request waited."""
        self._min_bytes = min_bytes
        self._readable_end = readable_end
        self._has_diverged = has_diverged

    def changed(self, partition: TopicPartition) -> None:
        """Marks a partition for the next check, so that the others need no check."""
        self.touched.add(partition)
        self._changed = {} if self._changed is None else self._changed
        self._changed[partition] = None

    def is_complete(self) -> bool:
        """Whether to respond now; checks the marked partitions, or all if none is marked."""
        changed = self.partitions if self._changed is None else self._changed
        self._changed = None
        for partition in changed:
            status = self.partitions[partition]
            self._ready[partition] = 0
            end = self._readable_end(status)
            if isinstance(end, ErrorCode):
                # The read that follows returns the error to the client.
                return True
            if status.start_offset_metadata.message_offset > end.message_offset:
                return True  # the log was truncated
            if status.start_offset_metadata.message_offset < end.message_offset:
                if status.start_offset_metadata.is_on_older_segment(end):
                    return True  # the log has a newer segment: respond, however few the bytes
                size = status.start_offset_metadata.bytes_until(end) or 0
                self._ready[partition] = min(size, status.fetch_info.partition_max_bytes)
            if status.fetch_info.last_fetched_epoch != NO_EPOCH and self._has_diverged(status):
                return True
        return sum(self._ready.values()) >= self._min_bytes


def must_respond_at_once(
    fetched: Iterable[FetchPartitionData], *, max_wait_ms: int, min_bytes: int
) -> bool:
    """Whether a Fetch request gets its response from the first read, without waiting."""
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
