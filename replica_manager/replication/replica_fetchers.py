"""The fetchers of a broker: one per leader and fetcher id, each with its partitions.

They are made when a partition is added that needs one, and taken away when none is left.  Whoever
runs them is told of both.

Source: Kafka ``AbstractFetcherManager``, ``ReplicaFetcherManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple
from uuid import UUID

from replica_manager.replication.fetch_requests import FetcherSettings
from replica_manager.replication.fetch_state import InitialFetchState, fetcher_id
from replica_manager.replication.fetch_steps import ReplicaFetcher
from replica_manager.replication.replica_log import ReplicaLog
from zkcontroller.model import TopicPartition


class FetcherKey(NamedTuple):
    """Which fetcher: it has a connection of its own to the leader."""

    leader: int
    fetcher_id: int


class ReplicaFetchers:
    """Every fetcher of this broker.  Lives on the event loop; no method waits."""

    def __init__(
        self,
        fetchers_per_leader: int,
        log_of: Callable[[TopicPartition], ReplicaLog],
        settings: FetcherSettings,
        on_added: Callable[[FetcherKey, ReplicaFetcher], None],
        on_removed: Callable[[FetcherKey], None],
    ) -> None:
        """``on_added`` starts a fetcher or wakes one that idles, ``on_removed`` ends it."""
        self._fetchers_per_leader = fetchers_per_leader
        self._log_of = log_of
        self.settings = settings
        self._on_added = on_added
        self._on_removed = on_removed
        self.fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self.failed: set[TopicPartition] = set()
        """Gauge ``FailedPartitionsCount`` is their number; a new leader epoch takes them out."""

    def add(self, partitions: Mapping[TopicPartition, tuple[int, InitialFetchState]]) -> None:
        """Fetches partitions from their leaders from now on."""
        shares: dict[FetcherKey, dict[TopicPartition, InitialFetchState]] = {}
        for tp, (leader, initial) in partitions.items():
            key = FetcherKey(leader, fetcher_id(tp, self._fetchers_per_leader))
            shares.setdefault(key, {})[tp] = initial
        for key, share in shares.items():
            fetcher = self.fetchers.get(key)
            if fetcher is None:
                fetcher = ReplicaFetcher(key.leader, self._log_of, self.settings, self.failed)
                self.fetchers[key] = fetcher
            fetcher.add_partitions(share)
            self._on_added(key, fetcher)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetches partitions from nobody; answers that are under way will be ignored."""
        gone = list(partitions)
        self.failed.difference_update(gone)
        for fetcher in self.fetchers.values():
            fetcher.remove_partitions(gone)

    def update_topic_id(self, partition: TopicPartition, topic_id: UUID | None) -> None:
        """Asks for a partition by another topic id from now on, or by name."""
        for fetcher in self.fetchers.values():
            fetcher.update_topic_id(partition, topic_id)

    def remove_idle(self) -> None:
        """Takes away the fetchers without partitions, also those whose partitions all failed."""
        idle = [key for key, fetcher in self.fetchers.items() if not fetcher.partitions]
        for key in idle:
            del self.fetchers[key]
            self._on_removed(key)
