"""The gauges of a broker's replicas, logs and waiting requests, under Kafka's names.

Those of single partitions are :class:`PartitionGauges`, which must be asked for: ten for each of
ten thousand partitions are a second of work for each read.

Source: Kafka ``ReplicaManager``, ``LogManager``, ``DelayedOperationPurgatory``,
``FetchSessionCache``, ``GroupMetadataManager``, ``Partition``, ``UnifiedLog``,
``FetcherLagMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sized
from typing import Final

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from typing_extensions import override

from replica_manager.log.log_manager import LogManager
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.partition import Partition, Role
from replica_manager.replication.replica_fetchers import ReplicaFetchers
from replica_manager.replication.replica_manager import ReplicaManager
from zkcontroller.model import TopicPartition
from zkcontroller.observability.metrics import Metrics, mbean

Labels = dict[str, str]


LATE_TRANSACTION_BUFFER_MS: Final = 5 * 60 * 1000
"""So much later than any transaction may take a coordinator must have aborted it (KIP-664)."""


def register_replica_gauges(
    metrics: Metrics,
    replicas: ReplicaManager,
    logs: LogManager,
    max_transaction_timeout_ms: int = 900_000,
) -> None:
    """The replica manager's gauges, over all partitions."""
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
    """How many log directories are offline, and which."""
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


def register_purgatories(metrics: Metrics, rooms: Mapping[str, Sized]) -> None:
    """How many requests wait, by kind: ``Produce``, ``Fetch`` and others."""
    for kind, room in rooms.items():
        for name in ("PurgatorySize", "NumDelayedOperations"):
            metrics.gauge(
                mbean(
                    "kafka.server", "DelayedOperationPurgatory", name, {"delayedOperation": kind}
                ),
                lambda room=room: len(room),  # type: ignore[misc]
            )


def register_session_gauges(metrics: Metrics, sessions: FetchSessionCache) -> None:
    """The gauges of fetch sessions; Kafka has eight shards, here there is one."""

    def gauge(name: str, read: Callable[[], int]) -> None:
        metrics.gauge(mbean("kafka.server", "FetchSessionCache", name), read)

    gauge("NumIncrementalFetchSessions", lambda: len(sessions))
    gauge("NumIncrementalFetchPartitionsCached", lambda: sessions.total_partitions)


class PartitionGauges(Collector):
    """``kafka.cluster:type=Partition``, ``kafka.log:type=Log`` and ``FetcherLagMetrics``.

    They are read from what is there at that moment, so what comes and goes needs no bookkeeping.
    Metrics are read from another thread: the collections are copied first.
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
                family = families.setdefault(full, GaugeMetricFamily(full, full))
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
                # -1 until the leader has answered, as in Kafka.
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
