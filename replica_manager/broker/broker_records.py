"""Assembles the parts that store and serve records: replicas, fetchers, appends, reads, groups.

These parts depend on each other in a circle: replicas have fetchers, which change replicas; a
replica that becomes leader starts a coordinator, which appends to replicas.  So the replicas are
created first.  They get their fetchers afterwards, and call the coordinators, which are created
last.

Source: Kafka ``KafkaServer.startup``, ``RequestHandlerHelper.onLeadershipChange``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import SystemRandom
from typing import Protocol

from kafka_common.model import TopicPartition
from kafka_common.net.client_security import ClientSecurity
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.process.wall_clock import WallClock
from kafka_common.protocol.inter_broker_versions import transaction_verification_version
from replica_manager.broker.broker_gauges import (
    PartitionGauges,
    register_cleaner_gauges,
    register_log_gauges,
    register_move_gauges,
    register_purgatories,
    register_replica_gauges,
    register_session_gauges,
    register_throttles,
)
from replica_manager.configuration.config import BrokerConfig
from replica_manager.coordinators.group_loading import led_log
from replica_manager.coordinators.group_service import GroupService
from replica_manager.coordinators.group_settings import group_settings
from replica_manager.coordinators.groups.timers import TimerKind
from replica_manager.coordinators.transaction_service import TransactionService
from replica_manager.coordinators.transaction_settings import transaction_settings
from replica_manager.coordinators.transaction_verification import TransactionVerification
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.network.broker_links import BrokerLinks, link_keys
from replica_manager.replication.alter_partition_manager import IsrRoute
from replica_manager.replication.fetch_sessions import MAX_SESSION_ID, FetchSessionCache
from replica_manager.replication.log_dir_moves import LogDirMoves, MoveSettings
from replica_manager.replication.record_appends import RecordAppends
from replica_manager.replication.record_reads import RecordReads
from replica_manager.replication.replica_manager import ReplicaLogs, ReplicaManager
from replica_manager.replication.replication_tasks import ControllerEpochOf, ReplicationTasks
from replica_manager.replication.throttle import ReplicationThrottles
from replica_manager.replication.topic_stats import BrokerTopicStats
from replica_manager.replication.zk_metadata_cache import ZkMetadataCache
from replica_manager.server.context import RecordServices
from replica_manager.server.record_deletions import RecordDeletions
from zkcontroller.state_changes.log_files import StateChangeSink


class RecordStorage(Protocol):
    """The methods of :class:`.Storage` that these parts use."""

    @property
    def logs(self) -> LogManager: ...

    @property
    def replica_logs(self) -> ReplicaLogs: ...

    @property
    def cleaner(self) -> CleanerManager | None:
        """The log cleaner; None if ``log.cleaner.enable`` is false."""

    @property
    def has_cleaner_ended(self) -> bool: ...

    def min_in_sync_replicas(self, topic: str, /) -> int:
        """The topic's ``min.insync.replicas``."""

    async def flush(self, log: UnifiedLog, /) -> None:
        """Flushes a log; its recovery point tells whether that was done or put off."""

    async def flush_to_end(self, topic_partition: TopicPartition, /) -> None:
        """Flushes a partition's log, again until it is on disk or not served."""


class BrokerRecords:
    """The parts of one broker that store and serve records.  Used on the event loop."""

    def __init__(
        self,
        broker_id: int,
        config: Callable[[], BrokerConfig],
        storage: RecordStorage,
        throttles: ReplicationThrottles,
        metadata_cache: ZkMetadataCache,
        *,
        isr_route: Callable[[ControllerEpochOf], IsrRoute],
        security: Mapping[str, ClientSecurity],
        broker_epoch: Callable[[], int],
        state_changes: StateChangeSink,
        new_producer_id: Callable[[], Awaitable[int]],
        is_topic_deleted: Callable[[str], Awaitable[bool]],
        partition_count: Callable[[str], Awaitable[int | None]],
        is_tracing: Callable[[], bool],
        metrics: Metrics,
        now_ms: Callable[[], int] | None = None,
    ) -> None:
        """``config`` returns the current configuration; ``storage`` must be loaded.

        ``isr_route`` makes the route of ISR proposals.  ``security`` says by listener name how this
        broker connects to other brokers.
        """
        now = config()
        # Milliseconds since 1970, as in Kafka: a follower that never caught up has done so at 0.
        now_ms = now_ms or WallClock()
        self._storage = storage
        self._throttles = throttles
        self._metrics = metrics
        self._max_transaction_timeout_ms = now.integer("transaction.max.timeout.ms")
        replicas = ReplicaManager(
            broker_id,
            metadata_cache,
            write_state_changes=state_changes.write,
            now_ms=now_ms,
            is_tracing=is_tracing,
            logs=storage.replica_logs,
            on_led=self._on_led,
            on_resigned=self._on_resigned,
            min_in_sync_replicas=storage.min_in_sync_replicas,
            replica_lag_time_max_ms=now.integer("replica.lag.time.max.ms"),
        )
        self.replication = ReplicationTasks(
            broker_id,
            now,
            replicas,
            metadata_cache=metadata_cache,
            broker_epoch=broker_epoch,
            security=security,
            isr_route=isr_route,
            metrics=metrics,
            now_ms=now_ms,
            flush=storage.flush_to_end,
            throttle=throttles.follower,
        )
        replicas.fetchers = self.replication.fetchers
        topic_stats = BrokerTopicStats(metrics)
        appends = RecordAppends(replicas, storage.flush, topic_stats, now_ms)
        its_log = partial(led_log, replicas)

        def links(purpose: str) -> BrokerLinks:
            keys = link_keys(now, security, f"broker-{broker_id}-{purpose}")
            return BrokerLinks(metadata_cache, keys)

        transactions = TransactionService(
            transaction_settings(now, broker_id),
            appends,
            its_log,
            new_producer_id,
            is_topic_deleted,
            partition_count,
            metadata_cache,
            links("txn-marker-sender"),
            metrics=metrics,
        )
        self.services = RecordServices(
            replica_manager=replicas,
            appends=appends,
            reads=RecordReads(
                replicas,
                topic_stats,
                now_ms,
                self.replication.submit,
                _counting_expired_fetches(metrics),
                throttles.leader,
            ),
            fetch_sessions=_session_cache(now, metrics),
            topic_stats=topic_stats,
            groups=GroupService(group_settings(now, broker_id), appends, its_log, metrics=metrics),
            transactions=transactions,
            verification=TransactionVerification(
                replicas,
                metadata_cache,
                links("txn-verification"),
                transactions.partition_for,
                version=transaction_verification_version(now.inter_broker_version),
                is_enabled=storage.logs.environment.verifies_transactions,
                now_ms=now_ms,
                metrics=metrics,
            ),
            deletions=RecordDeletions(replicas, storage.logs),
            log_dir_moves=LogDirMoves(
                replicas, storage.logs, lambda: move_settings(config()), storage.flush
            ),
        )

    def start(self) -> None:
        """Starts fetching from leaders, and moving replicas between log directories."""
        self.services.log_dir_moves.start()
        self.replication.start()

    @property
    def stops(self) -> Sequence[Callable[[], Awaitable[None]]]:
        """The functions that stop these parts; to be called in order, before the storage stops."""
        return (
            self.services.verification.stop,
            self.services.transactions.stop,
            self.services.groups.stop,
            self.services.log_dir_moves.stop,
            self.replication.stop,
        )

    def register_gauges(self, *, counts_partitions: bool) -> None:
        """Registers the gauges of all parts, with ``counts_partitions`` those of each partition."""
        metrics, logs = self._metrics, self._storage.logs
        register_replica_gauges(
            metrics, self.services.replica_manager, logs, self._max_transaction_timeout_ms
        )
        register_log_gauges(metrics, logs)
        storage = self._storage
        if storage.cleaner is not None:
            register_cleaner_gauges(
                metrics, storage.cleaner, logs, lambda: storage.has_cleaner_ended
            )
        register_move_gauges(metrics, self.services.log_dir_moves)
        if counts_partitions:
            metrics.sources.append(
                PartitionGauges(
                    self.services.replica_manager.partitions, logs, self.replication.fetchers
                )
            )
        register_session_gauges(metrics, self.services.fetch_sessions)
        register_throttles(metrics, self._throttles)
        groups = self.services.groups
        register_purgatories(
            metrics,
            {
                "Produce": self.services.appends.waiting.__len__,
                "Fetch": self.services.reads.waiting.__len__,
                "DeleteRecords": self.services.deletions.__len__,
                "Heartbeat": lambda: groups.timer_count(TimerKind.SESSION),
                "Rebalance": lambda: groups.timer_count(TimerKind.JOIN, TimerKind.SYNC),
            },
        )
        self.services.transactions.register_gauges(metrics)
        for name in groups.gauges():
            metrics.gauge(
                mbean("kafka.coordinator.group", "GroupMetadataManager", name),
                lambda name=name: groups.gauges()[name],  # type: ignore[misc]
            )

    def broker_changed(self, config: BrokerConfig) -> None:
        """Applies the broker's changed configuration to these parts."""
        self.replication.fetchers.resize(config.integer("num.replica.fetchers"))
        self.services.replica_manager.topics_changed(
            {tp.topic for tp in self.services.replica_manager.partitions}
        )

    def _on_led(self, partition: TopicPartition, leader_epoch: int) -> None:
        self.services.groups.on_led(partition, leader_epoch)
        self.services.transactions.on_led(partition, leader_epoch)

    def _on_resigned(self, partition: TopicPartition, leader_epoch: int | None) -> None:
        self.services.groups.on_resigned(partition, leader_epoch)
        self.services.transactions.on_resigned(partition, leader_epoch)
        partitions = self.services.replica_manager.partitions
        if partition in partitions:
            return
        topic = partition.topic
        if self.services.topic_stats.has(topic) and all(tp.topic != topic for tp in partitions):
            self.services.topic_stats.remove(topic)


def _counting_expired_fetches(metrics: Metrics) -> Callable[[bool], None]:
    meters = {
        is_from_follower: metrics.meter(
            mbean("kafka.server", "DelayedFetchMetrics", "ExpiresPerSec", {"fetcherType": kind}),
            "requests",
        )
        for is_from_follower, kind in ((False, "consumer"), (True, "follower"))
    }
    return lambda is_from_follower: meters[is_from_follower].mark()


def _session_cache(config: BrokerConfig, metrics: Metrics) -> FetchSessionCache:
    evicted = metrics.meter(
        mbean("kafka.server", "FetchSessionCache", "IncrementalFetchSessionEvictionsPerSec"),
        "evictions",
    )
    return FetchSessionCache(
        config.integer("max.incremental.fetch.session.cache.slots"),
        partial(SystemRandom().randint, 1, MAX_SESSION_ID),
        on_evicted=evicted.mark,
    )


def move_settings(config: BrokerConfig) -> MoveSettings:
    """The settings of moves between log directories."""
    tasks = config.values["num.replica.alter.log.dirs.threads"]
    return MoveSettings(
        max_bytes=config.integer("replica.fetch.max.bytes"),
        bytes_per_second=config.quota("replica.alter.log.dirs.io.max.bytes.per.second"),
        tasks=tasks if isinstance(tasks, int) else len(config.log_dirs),
    )
