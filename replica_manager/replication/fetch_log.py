"""Log lines of a fetcher: the prefix with follower and leader, and lists of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final
from uuid import UUID

from typing_extensions import override

from kafka_common.model import TopicPartition
from kafka_common.observability.java_values import optional
from kafka_common.protocol.fetch import FetchPartition
from kafka_common.protocol.uuid_text import uuid_text
from replica_manager.replication.fetch_values import TopicIdPartition
from zkcontroller.core.journal import SMALL_COLLECTION

MOST_LISTED: Final = 1_000
"""Partitions that one log line lists; Kafka lists all, which is megabytes after a failover."""


def fetcher_prefix(replica_id: int, leader: int, fetcher_id: int) -> str:
    """The prefix of a fetcher: ``[ReplicaFetcher replicaId=1, leaderId=2, fetcherId=0] ``."""
    return f"[ReplicaFetcher replicaId={replica_id}, leaderId={leader}, fetcherId={fetcher_id}] "


class PartitionListing:
    """The text of partitions in one log line: lists ``MOST_LISTED``, and counts the others."""

    def __init__(self, texts: Iterable[str] = (), count: int = 0) -> None:
        """The listing of ``texts``, which are ``count``."""
        self.count = 0
        self._texts: list[str] = []
        self.add(texts, count)

    def add(self, texts: Iterable[str], count: int) -> None:
        self.count += count
        self._texts += islice(texts, max(MOST_LISTED - len(self._texts), 0))

    @property
    def is_small(self) -> bool:
        """Whether Scala has a class of its own for a collection of so few."""
        return self.count <= SMALL_COLLECTION

    @override
    def __str__(self) -> str:
        more = f", and {self.count - MOST_LISTED} more" if self.count > MOST_LISTED else ""
        return ", ".join(self._texts) + more


def fetch_data_text(partitions: Mapping[TopicPartition, FetchPartition]) -> PartitionListing:
    """``orders-0=PartitionData(topicId=…, fetchOffset=9, …)`` of each."""

    def epoch_text(epoch: int) -> str:
        return optional(None if epoch < 0 else epoch)

    texts = (
        f"{tp}=PartitionData(topicId={uuid_text(each.topic_id or UUID(int=0))}, "
        f"fetchOffset={each.fetch_offset}, logStartOffset={each.log_start_offset}, "
        f"maxBytes={each.partition_max_bytes}, "
        f"currentLeaderEpoch={epoch_text(each.current_leader_epoch)}, "
        f"lastFetchedEpoch={epoch_text(each.last_fetched_epoch)})"
        for tp, each in partitions.items()
    )
    return PartitionListing(texts, len(partitions))


def names_text(partitions: Sequence[TopicIdPartition]) -> PartitionListing:
    """``<topic id>:orders-0`` of each."""
    texts = (
        f"{uuid_text(each.topic_id or UUID(int=0))}:{each.topic}-{each.partition}"
        for each in partitions
    )
    return PartitionListing(texts, len(partitions))
