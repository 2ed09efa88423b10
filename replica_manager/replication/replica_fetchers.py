"""The fetchers of a broker: one per leader and fetcher id, each with its partitions.

A fetcher is created when its first partition is added, and removed when it has no partitions.
Callbacks report both.

Source: Kafka ``AbstractFetcherManager``, ``ReplicaFetcherManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple, TypeVar
from uuid import UUID

from kafka_common.model import TopicPartition
from replica_manager.replication.fetch_log import PartitionListing
from replica_manager.replication.fetch_requests import FetcherSettings
from replica_manager.replication.fetch_state import InitialFetchState, fetcher_id
from replica_manager.replication.replica_fetcher import ReplicaFetcher
from replica_manager.replication.replica_log import ReplicaLog
from replica_manager.replication.throttle import ReplicationThrottle
from zkcontroller.state_changes.kafka_values import option
from zkcontroller.state_changes.kafka_values import topic_id as printed_id

PARTITIONS_AT_ONCE: Final = 16
"""Partitions added or removed in one step; each takes some 10 us."""

_T = TypeVar("_T")
_logger = logging.getLogger("kafka.server.ReplicaFetcherManager")


class FetcherKey(NamedTuple):
    """Leader and fetcher id; each fetcher has its own connection."""

    leader: int
    fetcher_id: int


class ReplicaFetchers:
    """All fetchers of this broker.  Used on the event loop; no method waits."""

    def __init__(
        self,
        fetchers_per_leader: int,
        log_of: Callable[[TopicPartition], ReplicaLog],
        settings: FetcherSettings,
        on_added: Callable[[FetcherKey, ReplicaFetcher], None],
        on_removed: Callable[[FetcherKey], None],
        address_of: Callable[[int], str] = lambda _: "",
        throttle: ReplicationThrottle | None = None,
    ) -> None:
        """``on_added`` starts a fetcher or wakes an idle one, ``on_removed`` ends it.

        ``address_of`` returns the ``host:port`` of a leader, for the log.
        """
        self._fetchers_per_leader = fetchers_per_leader
        self._log_of = log_of
        self.settings = settings
        self._on_added = on_added
        self._on_removed = on_removed
        self._address_of = address_of
        self._throttle = throttle
        self._prefix = f"[ReplicaFetcherManager on broker {settings.replica_id}] "
        self.fetchers: dict[FetcherKey, ReplicaFetcher] = {}
        self.failed: set[TopicPartition] = set()
        """Partitions that are no longer fetched because of a failure, until they are added again.

        Gauge ``FailedPartitionsCount`` is their number.
        """

    def add(self, partitions: Iterable[tuple[TopicPartition, InitialFetchState]]) -> None:
        """Starts fetching partitions from their leaders."""
        for _ in self.add_in_steps(partitions):
            pass

    def add_in_steps(
        self, partitions: Iterable[tuple[TopicPartition, InitialFetchState]]
    ) -> Generator[None, None, None]:
        """Starts fetching partitions; yields after every ``PARTITIONS_AT_ONCE`` of them."""
        added: dict[FetcherKey, PartitionListing] = {}
        for portion in _portions(partitions):
            shares: dict[FetcherKey, dict[TopicPartition, InitialFetchState]] = {}
            for tp, initial in portion:
                key = FetcherKey(initial.leader, fetcher_id(tp, self._fetchers_per_leader))
                shares.setdefault(key, {})[tp] = initial
            for key, share in shares.items():
                self._add_share(key, share)
                added.setdefault(key, PartitionListing()).add(self._described(share), len(share))
            yield
        for key, listing in added.items():
            _logger.info(
                "%sAdded fetcher to broker %d for partitions %s(%s)",
                self._prefix,
                key.leader,
                "Map" if listing.is_small else "HashMap",
                listing,
            )

    def _add_share(
        self, key: FetcherKey, share: Mapping[TopicPartition, InitialFetchState]
    ) -> None:
        fetcher = self.fetchers.get(key)
        if fetcher is None:
            fetcher = ReplicaFetcher(
                key.leader,
                self._log_of,
                self.settings,
                self.failed,
                key.fetcher_id,
                self._throttle,
            )
            self.fetchers[key] = fetcher
        fetcher.add_partitions(share)
        self._on_added(key, fetcher)

    def remove(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops fetching partitions; responses in flight are ignored for them."""
        for _ in self.remove_in_steps(partitions, are_stopped=True):
            pass

    def remove_in_steps(
        self, partitions: Iterable[TopicPartition], *, are_stopped: bool = False
    ) -> Generator[None, None, None]:
        """Stops fetching partitions; yields after every ``PARTITIONS_AT_ONCE`` of them.

        ``are_stopped``: by no LeaderAndIsr request, for which the log of Kafka names another set.
        """
        removed = PartitionListing()
        for portion in _portions(partitions):
            self.failed.difference_update(portion)
            for fetcher in self.fetchers.values():
                fetcher.remove_partitions(portion)
            removed.add(map(str, portion), len(portion))
            yield
        if removed.count:
            _logger.info(
                "%sRemoved fetcher for partitions %s(%s)",
                self._prefix,
                "Set" if are_stopped and removed.is_small else "HashSet",
                removed,
            )

    def resize(self, fetchers_per_leader: int) -> None:
        """Distributes all partitions over ``fetchers_per_leader`` fetchers of each leader."""
        if fetchers_per_leader == self._fetchers_per_leader:
            return
        _logger.info(
            "%sResizing fetcher thread pool size from %d to %d",
            self._prefix,
            self._fetchers_per_leader,
            fetchers_per_leader,
        )
        self._fetchers_per_leader = fetchers_per_leader
        moving: list[tuple[TopicPartition, InitialFetchState]] = []
        for key, fetcher in self.fetchers.items():
            for tp, state in list(fetcher.partitions.items()):
                initial = InitialFetchState(
                    state.topic_id, key.leader, state.current_leader_epoch, state.fetch_offset
                )
                moving.append((tp, initial))
                fetcher.remove_partitions([tp])
        self.add(moving)
        self.remove_idle()

    def update_topic_id(self, partition: TopicPartition, topic_id: UUID | None) -> None:
        """Changes a partition's topic id; None: it is requested by its topic name."""
        for fetcher in self.fetchers.values():
            fetcher.update_topic_id(partition, topic_id)

    def remove_idle(self) -> None:
        """Removes the fetchers that have no partitions, or only failed ones."""
        idle = [key for key, fetcher in self.fetchers.items() if not fetcher.partitions]
        for key in idle:
            del self.fetchers[key]
            self._on_removed(key)

    def _described(self, share: Mapping[TopicPartition, InitialFetchState]) -> Iterator[str]:
        for tp, state in share.items():
            endpoint = f"BrokerEndPoint(id={state.leader}, host={self._address_of(state.leader)})"
            yield (
                f"{tp} -> InitialFetchState({option(printed_id(state.topic_id))},{endpoint},"
                f"{state.current_leader_epoch},{state.initial_offset})"
            )


def _portions(items: Iterable[_T]) -> Iterator[list[_T]]:
    remaining = iter(items)
    while portion := list(islice(remaining, PARTITIONS_AT_ONCE)):
        yield portion
