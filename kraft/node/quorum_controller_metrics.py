"""Metrics of a KRaft controller and its cluster, by Kafka's names.

After each step the controller's thread calls :meth:`QuorumControllerMetrics.observe`, which copies
the values.  Readers of the metrics see this copy, never the controller itself.

Source: Kafka ``QuorumControllerMetrics``, ``ControllerMetadataMetrics``, ``MetadataLoaderMetrics``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from kafka_common.observability.metrics import Metrics, mbean
from kraft.controller.offsets import NONE
from kraft.controller.quorum_controller import QuorumController

_DOMAIN: Final = "kafka.controller"
_MS: Final = 1_000_000
"""Nanoseconds in a millisecond."""


class _Seen(NamedTuple):
    """Values copied after a step; capitalized fields are gauges of KafkaController."""

    ActiveControllerCount: int = 0
    LastAppliedRecordOffset: int = NONE
    LastCommittedRecordOffset: int = NONE
    LastAppliedRecordTimestamp: int = NONE
    TimedOutBrokerHeartbeatCount: int = 0
    EventQueueOperationsStartedCount: int = 0
    EventQueueOperationsTimedOutCount: int = 0
    NewActiveControllersCount: int = 0
    MetadataErrorCount: int = 0
    FencedBrokerCount: int = 0
    ActiveBrokerCount: int = 0
    MigratingZkBrokerCount: int = 0
    GlobalTopicCount: int = 0
    GlobalPartitionCount: int = 0
    OfflinePartitionsCount: int = 0
    PreferredReplicaImbalanceCount: int = 0
    ZkMigrationState: int = 0
    metadata_version: int = 0
    unclean_elections: int = 0


class QuorumControllerMetrics:
    """The metrics of one controller.  Its thread updates them; any thread may read."""

    def __init__(
        self, metrics: Metrics, now_ms: Callable[[], int], leader_id: Callable[[], int | None]
    ) -> None:
        """``leader_id`` returns the quorum's leader that this node knows, from any thread."""
        self._seen = _Seen()
        self._has_caught_up = False
        self._snapshots_loaded = 0
        self._unclean = metrics.meter(
            mbean(_DOMAIN, "ControllerStats", "UncleanLeaderElectionsPerSec"), "elections"
        )
        self._queue_time = metrics.histogram(
            mbean(_DOMAIN, "ControllerEventManager", "EventQueueTimeMs")
        )
        self._processing_time = metrics.histogram(
            mbean(_DOMAIN, "ControllerEventManager", "EventQueueProcessingTimeMs")
        )
        for name in _Seen._fields:
            if name[0].isupper():
                metrics.gauge(mbean(_DOMAIN, "KafkaController", name), self._reader(name))
        metrics.gauge(
            mbean(_DOMAIN, "KafkaController", "LastAppliedRecordLagMs"),
            lambda: now_ms() - self._seen.LastAppliedRecordTimestamp,
        )
        loader: dict[str, Callable[[], int]] = {
            "CurrentMetadataVersion": lambda: self._seen.metadata_version,
            "CurrentControllerId": lambda: NONE if (leader := leader_id()) is None else leader,
            "HandleLoadSnapshotCount": lambda: self._snapshots_loaded,
        }
        for name, read in loader.items():
            metrics.gauge(mbean("kafka.server", "MetadataLoader", name), read)

    def _reader(self, name: str) -> Callable[[], int]:
        place = _Seen._fields.index(name)
        return lambda: self._seen[place]

    # For the controller's thread.

    def observe(self, controller: QuorumController) -> None:
        """Copies the controller's values between two steps."""
        state, counters = controller.state, controller.counters
        offsets, topics = state.offsets, state.replication.state
        before, self._seen = (
            self._seen,
            _Seen(
                ActiveControllerCount=int(controller.is_active),
                LastAppliedRecordOffset=offsets.last_applied_record_offset,
                LastCommittedRecordOffset=offsets.last_committed_record_offset,
                LastAppliedRecordTimestamp=offsets.last_applied_record_timestamp_ms,
                TimedOutBrokerHeartbeatCount=counters.timed_out_heartbeats,
                EventQueueOperationsStartedCount=counters.operations_started,
                EventQueueOperationsTimedOutCount=counters.operations_timed_out,
                NewActiveControllersCount=counters.new_active_controllers,
                MetadataErrorCount=counters.metadata_errors,
                FencedBrokerCount=state.cluster.fenced_broker_count,
                ActiveBrokerCount=state.cluster.active_broker_count,
                GlobalTopicCount=len(topics.topics),
                GlobalPartitionCount=topics.partition_count.get(),
                OfflinePartitionsCount=topics.brokers_to_isrs.leaderless_count,
                PreferredReplicaImbalanceCount=len(topics.imbalanced_partitions),
                ZkMigrationState=state.features.zk_migration_state.value,
                metadata_version=state.features.metadata_version.level,
                unclean_elections=topics.unclean_elections.get(),
            ),
        )
        elections = self._seen.unclean_elections - before.unclean_elections
        if elections > 0 and self._has_caught_up:
            self._unclean.mark(elections)

    def caught_up(self) -> None:
        """Begins to count unclean elections, when the controller has read the whole log."""
        self._has_caught_up = True

    def loaded(self) -> None:
        """Counts a snapshot that the controller has loaded."""
        self._snapshots_loaded += 1

    def processed(self, waited_ns: int, took_ns: int) -> None:
        """Records how long an event was queued and how long it ran, in nanoseconds."""
        self._queue_time.update(waited_ns // _MS)
        self._processing_time.update(took_ns // _MS)
