"""The gauges of a broker's replicas, logs and waiting requests, under Kafka's names.

:class:`PartitionGauges` has the gauges of single partitions.  They are off by default: ten gauges
for each of ten thousand partitions make every read of the metrics take a second.

Source: Kafka ``ReplicaManager``, ``LogManager``, ``DelayedOperationPurgatory``,
``FetchSessionCache``, ``GroupMetadataManager``, ``Partition``, ``UnifiedLog``,
``FetcherLagMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from kafka_common.model import TopicPartition
from kafka_common.observability.meanings import meaning_of
from kafka_common.observability.metrics import Metrics, Sensors, mbean
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.network.listener import SocketServer
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.log_dir_moves import LogDirMoves
from replica_manager.replication.partition import Partition, Role
from replica_manager.replication.replica_fetchers import ReplicaFetchers
from replica_manager.replication.replica_manager import ReplicaManager
from replica_manager.replication.throttle import ReplicationThrottles

Labels = dict[str, str]


LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""A transaction is late if it is open for this much longer than the longest timeout (KIP-664)."""


def register_replica_gauges(
    metrics: Metrics,
    replicas: ReplicaManager,
    logs: LogManager,
    max_transaction_timeout_ms: int = 900_000,
) -> None:
    """Registers the replica manager's gauges, over all partitions."""
    for name in replicas.gauges():
        metrics.gauge(
            mbean("kafka.server", "ReplicaManager", name),
            lambda name=name: replicas.gauges()[name],  # type: ignore[misc]
        )
    metrics.gauge(
        mbean("kafka.server", "ReplicaManager", "ProducerIdCount"),
        lambda: sum(len(log.producers.entries) for log in list(logs.logs.values())),
    )

    def late_transactions() -> int:
        latest_ms = max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        before_ms = logs.environment.now_ms() - latest_ms
        return sum(
            partition.role is Role.LEADER
            and isinstance(partition.log, UnifiedLog)
            and partition.log.producers.has_late_transaction(before_ms)
            for partition in list(replicas.partitions.values())
        )

    metrics.gauge(
        mbean("kafka.server", "ReplicaManager", "PartitionsWithLateTransactionsCount"),
        late_transactions,
    )


def register_log_gauges(metrics: Metrics, logs: LogManager) -> None:
    """Registers gauges of offline log directories: their number, and one per directory."""
    metrics.gauge(
        mbean("kafka.log", "LogManager", "OfflineLogDirectoryCount"),
        lambda: len(logs.offline_log_dirs),
    )
    for log_dir in (*logs.live_log_dirs, *logs.offline_log_dirs):
        tags = {"logDirectory": log_dir.absolute()}
        metrics.gauge(
            mbean("kafka.log", "LogManager", "LogDirectoryOffline", tags),
            lambda log_dir=log_dir: int(not logs.is_live(log_dir)),  # type: ignore[misc]
        )


def register_cleaner_gauges(
    metrics: Metrics, cleaner: CleanerManager, logs: LogManager, has_ended: Callable[[], bool]
) -> None:
    """Registers the gauges of log compaction; ``has_ended`` says whether its task has ended.

    Source: Kafka ``LogCleaner``, ``LogCleanerManager``.
    """

    def gauge(kind: str, name: str, read: Callable[[], float]) -> None:
        metrics.gauge(mbean("kafka.log", kind, name), read)

    gauge("LogCleaner", "cleaner-recopy-percent", lambda: cleaner.last_cleaning.recopied_percent)
    gauge(
        "LogCleaner",
        "max-buffer-utilization-percent",
        lambda: int(100 * cleaner.last_cleaning.map_share),
    )
    gauge("LogCleaner", "max-clean-time-secs", lambda: int(cleaner.last_cleaning.duration_s))
    gauge(
        "LogCleaner",
        "max-compaction-delay-secs",
        lambda: cleaner.last_cleaning.compaction_delay_ms // 1000,
    )
    gauge("LogCleaner", "DeadThreadCount", lambda: int(has_ended()))
    gauge("LogCleanerManager", "max-dirty-percent", lambda: int(100 * cleaner.highest_ratio))
    gauge(
        "LogCleanerManager",
        "time-since-last-run-ms",
        lambda: logs.environment.now_ms() - cleaner.last_run_ms,
    )

    def uncleanable(log_dir: Path) -> list[TopicPartition]:
        return [
            tp
            for tp in cleaner.uncleanable
            if (log := logs.logs.get(tp)) is not None and log.log_dir == log_dir
        ]

    for log_dir in (*logs.live_log_dirs, *logs.offline_log_dirs):
        tags = {"logDirectory": log_dir.absolute()}
        metrics.gauge(
            mbean("kafka.log", "LogCleanerManager", "uncleanable-partitions-count", tags),
            lambda log_dir=log_dir: len(uncleanable(log_dir)),  # type: ignore[misc]
        )
        metrics.gauge(
            mbean("kafka.log", "LogCleanerManager", "uncleanable-bytes", tags),
            lambda log_dir=log_dir: sum(  # type: ignore[misc]
                map(cleaner.dirty_bytes, uncleanable(log_dir))
            ),
        )


def register_move_gauges(metrics: Metrics, moves: LogDirMoves) -> None:
    """Registers the gauges of replicas that move between log directories.

    Source: Kafka ``ReplicaAlterLogDirsManager``, ``AbstractFetcherManager``.
    """
    tags = {"clientId": "ReplicaAlterLogDirs"}
    reads: Mapping[str, Callable[[], int]] = {
        "MaxLag": lambda: moves.max_lag,
        "FailedPartitionsCount": lambda: len(moves.failed),
        "DeadThreadCount": lambda: moves.ended_tasks,
    }
    for name, read in reads.items():
        metrics.gauge(mbean("kafka.server", "ReplicaAlterLogDirsManager", name, tags), read)


def register_network_gauges(metrics: Metrics, server: SocketServer) -> None:
    """Registers the gauges of request memory and of connections closed after an expired login.

    Source: Kafka ``SocketServer``.
    """
    memory = server.request_memory
    reads: Mapping[str, Callable[[], int]] = {
        "MemoryPoolUsed": lambda: memory.used_bytes,
        "MemoryPoolAvailable": lambda: memory.limit_bytes - memory.used_bytes,
        "ExpiredConnectionsKilledCount": lambda: server.expired_count,
    }
    for name, read in reads.items():
        metrics.gauge(mbean("kafka.network", "SocketServer", name), read)


def register_process_gauges(metrics: Metrics, io: Path = Path("/proc/self/io")) -> None:
    """Registers gauges of the bytes that the process read from and wrote to disks.

    They are missing on a system without ``/proc/self/io``.

    Source: Kafka ``LinuxIoMetricsCollector``, ``KafkaServer``.
    """

    def count(field: str) -> int:
        lines = dict(line.split(": ") for line in io.read_text().splitlines())
        return int(lines[field])

    names = {"linux-disk-read-bytes": "read_bytes", "linux-disk-write-bytes": "write_bytes"}
    try:
        for field in names.values():
            count(field)
    except (OSError, KeyError, ValueError):
        names = {}
    for name, field in names.items():
        metrics.gauge(
            mbean("kafka.server", "KafkaServer", name),
            lambda field=field: count(field),  # type: ignore[misc]
        )
    metrics.gauge(
        mbean("kafka.server", "KafkaServer", "yammer-metrics-count"),
        lambda: sum(not isinstance(each, Sensors) for each in list(metrics.instruments.values())),
    )


def register_purgatories(metrics: Metrics, waiting: Mapping[str, Callable[[], int]]) -> None:
    """Registers how many operations wait, by kind: ``Produce``, ``Fetch`` and others."""
    for kind, count in waiting.items():
        for name in ("PurgatorySize", "NumDelayedOperations"):
            metrics.gauge(
                mbean(
                    "kafka.server", "DelayedOperationPurgatory", name, {"delayedOperation": kind}
                ),
                count,
            )


def register_throttles(metrics: Metrics, throttles: ReplicationThrottles) -> None:
    """Shows the rates of throttled replicas; both are 0 while none is throttled.

    Source: Kafka ``ReplicationQuotaManager``.
    """
    metrics.sensor("kafka.server:type=LeaderReplication", throttles.leader)
    metrics.sensor("kafka.server:type=FollowerReplication", throttles.follower)


def register_session_gauges(metrics: Metrics, sessions: FetchSessionCache) -> None:
    """Registers the gauges of fetch sessions; Kafka has one set per shard of its cache."""

    def gauge(name: str, read: Callable[[], int]) -> None:
        metrics.gauge(mbean("kafka.server", "FetchSessionCache", name), read)

    gauge("NumIncrementalFetchSessions", lambda: len(sessions))
    gauge("NumIncrementalFetchPartitionsCached", lambda: sessions.total_partitions)


class PartitionGauges(Collector):
    """Gauges of each partition: ``Partition``, ``Log`` and ``FetcherLagMetrics`` of Kafka.

    Each read visits the current partitions, so no gauge is registered or removed with a partition.
    Metrics are read in another thread, so the collections are copied first.
    """

    def __init__(
        self,
        partitions: Mapping[TopicPartition, Partition],
        logs: LogManager,
        fetchers: ReplicaFetchers,
    ) -> None:
        self._partitions = partitions
        self._logs = logs
        self._fetchers = fetchers

    @override
    def collect(self) -> Iterable[Metric]:
        families: dict[str, Metric] = {}

        def add(start: str, labels: Labels, values: Mapping[str, int]) -> None:
            for name, value in values.items():
                full = f"{start}_{name.lower()}"
                family = families.setdefault(full, GaugeMetricFamily(full, meaning_of(full)))
                family.add_sample(full, labels, float(value))

        for tp, partition in list(self._partitions.items()):
            add("kafka_cluster_partition", _labels(tp), _of_partition(partition))
        for tp, log in list(self._logs.logs.items()):
            add("kafka_log_log", _labels(tp), _of_log(log))
        for tp, log in list(self._logs.future_logs.items()):
            add("kafka_log_log", _labels(tp) | {"is_future": "true"}, _of_log(log))
        for key, fetcher in list(self._fetchers.fetchers.items()):
            client = {"clientId": f"ReplicaFetcherThread-{key.fetcher_id}-{key.leader}"}
            for tp, state in list(fetcher.partitions.items()):
                # -1 until the first response of the leader, as in Kafka.
                lag = -1 if state.lag is None else state.lag
                add("kafka_server_fetcherlagmetrics", client | _labels(tp), {"ConsumerLag": lag})
        return families.values()


def _labels(tp: TopicPartition) -> Labels:
    return {"topic": tp.topic, "partition": str(tp.partition)}


def _of_partition(partition: Partition) -> Mapping[str, int]:
    is_leader = partition.is_leader
    replicas = len(partition.replicas) - len(partition.adding_replicas)
    log = partition.log
    return {
        "UnderReplicated": int(partition.is_under_replicated),
        "InSyncReplicasCount": len(partition.in_sync_replicas) if is_leader else 0,
        "UnderMinIsr": int(partition.is_under_min_isr),
        "AtMinIsr": int(partition.is_at_min_isr),
        "ReplicasCount": replicas if is_leader else 0,
        "LastStableOffsetLag": log.high_watermark - log.last_stable_offset,
    }


def _of_log(log: UnifiedLog) -> Mapping[str, int]:
    return {
        "NumLogSegments": len(tuple(log.segments)),
        "LogStartOffset": log.log_start_offset,
        "LogEndOffset": log.log_end_offset,
        "Size": log.size,
    }
