"""One fetch session: what a client requested, and what it last got for each partition.

Source: Kafka ``FetchSession``, ``CachedPartition`` (KIP-227).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
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

    def must_be_answered(self, fetched: FetchPartitionData) -> bool:
        """Whether the response must contain this partition; stores its new values."""
        is_changed = self.is_changed(fetched)
        self.remember(fetched)
        return is_changed

    def is_changed(self, fetched: FetchPartitionData) -> bool:
        """Whether the response would have to contain this partition."""
        return (
            len(fetched.records) > 0
            or self.high_watermark != fetched.high_watermark
            or self.log_start_offset != fetched.log_start_offset
            or fetched.preferred_read_replica != NO_PREFERRED_REPLICA
            or fetched.diverging_epoch is not None
            or fetched.error is not ErrorCode.none
        )

    def ask(self, fetch_info: FetchPartition) -> None:
        """Stores a new request; in a new leader epoch the last response may have been ignored."""
        if fetch_info.current_leader_epoch != self.fetch_info.current_leader_epoch:
            self.high_watermark = UNKNOWN_OFFSET
        self.fetch_info = fetch_info

    def remember(self, fetched: FetchPartitionData) -> None:
        """Stores the values of a response.

        After an error the next good answer must be sent even if it repeats the last one; so must
        the one after a divergence, for a follower does not use the watermark that comes with it.
        """
        self.log_start_offset = fetched.log_start_offset
        is_good = fetched.error is ErrorCode.none and fetched.diverging_epoch is None
        self.high_watermark = fetched.high_watermark if is_good else UNKNOWN_OFFSET


@dataclass(slots=True)
class FetchSession:
    """One session.  Eviction reads ``size`` and ``last_used_ms`` as of its last use."""

    session_id: int
    is_privileged: bool
    """A follower's: consumers cannot take its slot."""
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    partitions: dict[PartitionKey, CachedPartition]
    epoch: int = next_session_epoch(INITIAL_SESSION_EPOCH)
    size: int = 0

    @property
    def rank(self) -> tuple[bool, int, int]:
        """The eviction order: the smallest is evicted first."""
        return (self.is_privileged, self.size, self.session_id)

    def key(self, partition: TopicIdPartition) -> PartitionKey:
        name = partition.topic_id if self.uses_topic_ids else partition.topic
        return (name, partition.partition)

    def update(
        self,
        fetch_infos: Mapping[TopicIdPartition, FetchPartition],
        forgotten: Iterable[TopicIdPartition],
    ) -> None:
        for partition, fetch_info in fetch_infos.items():
            cached = self.partitions.get(self.key(partition))
            if cached is None:
                self.partitions[self.key(partition)] = CachedPartition(*partition, fetch_info)
            else:
                cached.ask(fetch_info)
        for partition in forgotten:
            self.partitions.pop(self.key(partition), None)
