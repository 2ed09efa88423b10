"""The gauges of a broker's replicas, logs and waiting requests, under Kafka's names.

Those of single partitions (``kafka.cluster:type=Partition``, ``kafka.log:type=Log``) are not among
them: ten for each of ten thousand partitions would be a second of work whenever somebody looks.

Source: Kafka ``ReplicaManager``, ``LogManager``, ``DelayedOperationPurgatory``,
``FetchSessionCache``, ``GroupMetadataManager``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized

from replica_manager.log.log_manager import LogManager
from replica_manager.replication.fetch_sessions import FetchSessionCache
from replica_manager.replication.replica_manager import ReplicaManager
from zkcontroller.runtime.metrics import Metrics, mbean


def register_replica_gauges(metrics: Metrics, replicas: ReplicaManager, logs: LogManager) -> None:
    """What the replica manager counts, over all partitions."""
    for name in replicas.gauges():
        metrics.gauge(
            mbean("kafka.server", "ReplicaManager", name),
            lambda name=name: replicas.gauges()[name],  # type: ignore[misc]
        )
    metrics.gauge(
        mbean("kafka.server", "ReplicaManager", "ProducerIdCount"),
        lambda: sum(len(log.producers.entries) for log in list(logs.logs.values())),
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
    """The fetch sessions, of which Kafka's eight shards have each their own; ours is the one."""

    def gauge(name: str, read: Callable[[], int]) -> None:
        metrics.gauge(mbean("kafka.server", "FetchSessionCache", name), read)

    gauge("NumIncrementalFetchSessions", lambda: len(sessions))
    gauge("NumIncrementalFetchPartitionsCached", lambda: sessions.total_partitions)
