"""One fetch session: what a client requested, and what it last got for each partition.

Source: Kafka ``FetchSession``, ``CachedPartition`` (KIP-227).
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.protocol.fetch import FetchPartition
from replica_manager.replication.fetch_values import (
    INITIAL_SESSION_EPOCH,
    NO_PREFERRED_REPLICA,
    UNKNOWN_OFFSET,
    FetchPartitionData,
    TopicIdPartition,
    next_session_epoch,
)

PartitionKey: TypeAlias = tuple[UUID | str | None, int]


@dataclass(slots=True)
class CachedPartition:
    """A session's entry for one partition: the request and the last response."""

    topic_id: UUID | None
    topic: str | None
    partition: int
    fetch_info: FetchPartition
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def must_be_in_response(self, fetched: FetchPartitionData) -> bool:
        """Whether the response must contain this partition; stores the values of ``fetched``."""
        is_changed = self.is_changed(fetched)
        self.remember(fetched)
        return is_changed

    def is_changed(self, fetched: FetchPartitionData) -> bool:
        """Whether the response must contain this partition; stores nothing."""
        return (
            len(fetched.records) > 0
            or self.high_watermark != fetched.high_watermark
            or self.log_start_offset != fetched.log_start_offset
            or fetched.preferred_read_replica != NO_PREFERRED_REPLICA
            or fetched.diverging_epoch is not None
            or fetched.error is not ErrorCode.none
        )

    def ask(self, fetch_info: FetchPartition) -> None:
        """Stores the partition's part of a new request.

        After a change of the leader epoch the next response contains the partition: the client may
        have ignored the last one.
        """
        if fetch_info.current_leader_epoch != self.fetch_info.current_leader_epoch:
            self.high_watermark = UNKNOWN_OFFSET
        self.fetch_info = fetch_info

    def remember(self, fetched: FetchPartitionData) -> None:
        """Stores the values of a response.

        After an error or a divergence the next response contains the partition even if nothing
        changed: a follower does not use the high watermark that came with the divergence.
        """
        self.log_start_offset = fetched.log_start_offset
        is_good = fetched.error is ErrorCode.none and fetched.diverging_epoch is None
        self.high_watermark = fetched.high_watermark if is_good else UNKNOWN_OFFSET


@dataclass(slots=True)
class FetchSession:
    """One session.  ``size`` counts its partitions at ``last_used_ms``; both guide eviction."""

    session_id: int
    is_privileged: bool
    """True for a follower: a consumer may evict the session only once it is unused for long."""
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    partitions: dict[PartitionKey, CachedPartition]
    epoch: int = next_session_epoch(INITIAL_SESSION_EPOCH)
    size: int = 0

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The eviction order: the session with the smallest rank is evicted first."""
        return (self.is_privileged, self.size, self.session_id)

    def key(self, partition: TopicIdPartition) -> PartitionKey:
        name = partition.topic_id if self.uses_topic_ids else partition.topic
        return (name, partition.partition)

    def update(
        self,
        fetch_infos: Mapping[TopicIdPartition, FetchPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> Generator[None, None, None]:
        """Adds, changes and drops partitions, one in each step."""
        for partition, fetch_info in fetch_infos.items():
            yield
            cached = self.partitions.get(self.key(partition))
            if cached is None:
                self.partitions[self.key(partition)] = CachedPartition(*partition, fetch_info)
            else:
                cached.ask(fetch_info)
        for partition in forgotten:
            yield
            self.partitions.pop(self.key(partition), None)
