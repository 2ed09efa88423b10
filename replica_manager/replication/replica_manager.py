"""The partitions of one broker, and the requests by which a controller changes them.

LeaderAndIsr makes replicas leaders or followers (:mod:`.leader_and_isr`), StopReplica stops them,
UpdateMetadata describes the cluster.  Each is handled by a generator that yields between
partitions, so that the event loop can serve clients; ``replica_state_change_lock`` keeps the
other controller requests out meanwhile.  Each partition changes in one step.  The known controller
epoch only grows; a request of an older controller changes nothing.

Source: Kafka ``ReplicaManager`` (``getPartitionOrError``, ``stopReplicas``,
``maybeUpdateMetadataCache``, ``handleLogDirFailure``, the gauges).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.errors import KafkaStorage
from kafka_common.model import EPOCH_DURING_DELETE, NO_EPOCH, TopicPartition
from replica_manager.replication.control_requests import (
    PartitionErrors,
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.replication.fetch_state import InitialFetchState, initial_offset
from replica_manager.replication.partition import DEFAULT_REPLICA_LAG_TIME_MAX_MS, Partition, Role
from replica_manager.replication.replica_fetchers import ReplicaFetchers
from replica_manager.replication.replica_log import ReplicaLog
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, ZkMetadataCache
from zkcontroller.state_changes.record import Kind, Reason, StateChange

_log = logging.getLogger("kafka.server.ReplicaManager")


class ReplicaLogs(Protocol):
    """Creates and deletes the logs of a broker's replicas."""

    def open(
        self, partition: TopicPartition, topic_id: UUID | None, /, *, is_new: bool
    ) -> ReplicaLog:
        """The partition's log, created if there is none.

        KafkaStorage if its directory is offline, InconsistentTopicId if the log has the id of
        another topic.
        """

    def delete(self, partition: TopicPartition, /) -> None:
        """Deletes the partition's log, if there is one; KafkaStorage if that fails."""


def _no_request_waits(_: TopicPartition) -> None:
    pass


def _no_coordinator(_: TopicPartition, __: int | None) -> None:
    pass


def _one_replica(_: str) -> int:
    return 1


class ReplicaManager:
    """The partitions of one broker, and the requests by which a controller changes them.

    Used on the event loop; no method waits.  A caller holds ``replica_state_change_lock`` while it
    runs the generator of a controller's request.
    """

    def __init__(
        self,
        broker_id: int,
        metadata_cache: ZkMetadataCache,
        *,
        write_state_changes: Callable[[Sequence[StateChange]], None],
        now_ms: Callable[[], int],
        logs: ReplicaLogs,
        is_tracing: Callable[[], bool] = lambda: False,
        fetchers: ReplicaFetchers | None = None,
        on_changed: Callable[[TopicPartition], None] = _no_request_waits,
        on_led: Callable[[TopicPartition, int], None] = _no_coordinator,
        on_resigned: Callable[[TopicPartition, int | None], None] = _no_coordinator,
        min_in_sync_replicas: Callable[[str], int] = _one_replica,
        replica_lag_time_max_ms: int = DEFAULT_REPLICA_LAG_TIME_MAX_MS,
    ) -> None:
        """``on_changed`` checks the requests that wait for a partition.

        ``on_led`` is called with the leader epoch when this broker becomes leader of a partition.
        ``on_resigned`` is called when it becomes follower, or when its replica was deleted or went
        offline; the leader epoch is None if it is unknown.  ``min_in_sync_replicas`` returns a
        topic's ``min.insync.replicas``.  Without ``fetchers`` followers do not fetch.
        """
        self.broker_id = broker_id
        self.metadata_cache = metadata_cache
        self.write_state_changes = write_state_changes
        self.now_ms = now_ms
        self.is_tracing = is_tracing
        self.logs = logs
        self.fetchers = fetchers
        self.on_led = on_led
        self.on_resigned = on_resigned
        self.partitions: dict[TopicPartition, Partition] = {}
        self.offline: set[TopicPartition] = set()
        """Partitions whose log directory failed; requests for them fail until the next start."""
        self._watchers = [on_changed]
        self._min_in_sync_replicas = min_in_sync_replicas
        self._replica_lag_time_max_ms = replica_lag_time_max_ms
        self.replica_state_change_lock = asyncio.Lock()
        """Held while a request of the controller is handled."""
        self.controller_epoch = 0
        """The largest controller epoch seen; requests below it are refused."""

    def get_partition_or_error(self, partition: TopicPartition) -> Partition | ErrorCode:
        """The partition, or the error for a request that names it.

        Source: Kafka ``ReplicaManager.getPartitionOrError``.
        """
        if partition in self.offline:
            return ErrorCode.kafka_storage_error
        found = self.partitions.get(partition)
        if found is not None:
            return found
        if self.metadata_cache.snapshot.partition(*partition) is not None:
            # The partition is on other brokers: the client must refresh its metadata.
            return ErrorCode.not_leader_or_follower
        return ErrorCode.unknown_topic_or_partition

    def host(self, partition: TopicPartition) -> Partition:
        """The partition's object, created if this broker has none."""
        found = self.partitions.get(partition)
        if found is None:
            found = self.partitions[partition] = Partition(
                partition,
                self.broker_id,
                replica_lag_time_max_ms=self._replica_lag_time_max_ms,
                is_alive=self._is_alive,
            )
            found.min_in_sync_replicas = self._min_in_sync_replicas(partition.topic)
        return found

    def remove_idle_fetchers(self) -> None:
        """Removes the fetchers without partitions."""
        if self.fetchers is not None:
            self.fetchers.remove_idle()

    def stop_fetching(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops fetching partitions."""
        if self.fetchers is not None:
            self.fetchers.remove(partitions)

    def stop_fetching_in_steps(
        self, partitions: Iterable[TopicPartition]
    ) -> Generator[None, None, None]:
        """Stops fetching partitions; yields in between so that other tasks can run."""
        if self.fetchers is not None:
            yield from self.fetchers.remove_in_steps(partitions)

    def start_fetching_in_steps(
        self, partitions: Iterable[Partition]
    ) -> Generator[None, None, None]:
        """Starts fetching partitions; yields in between so that other tasks can run.

        Skips partitions without a known leader, and those whose log directory fails meanwhile.
        """
        if self.fetchers is None:
            return
        truncates = self.fetchers.settings.truncates_on_fetch
        yield from self.fetchers.add_in_steps(
            (
                partition.topic_partition,
                InitialFetchState(
                    partition.topic_id,
                    partition.leader,
                    partition.leader_epoch,
                    initial_offset(partition.log, truncates_on_fetch=truncates),
                ),
            )
            for partition in partitions
            if partition.leader is not None and partition.topic_partition not in self.offline
        )

    def mark_offline(self, partitions: Iterable[TopicPartition]) -> None:
        """Stops using partitions whose log directory failed."""
        gone = list(partitions)
        self.stop_fetching(gone)
        for tp in gone:
            self.offline.add(tp)
            self.partitions.pop(tp, None)
            self.partition_changed(tp)
            self.on_resigned(tp, None)

    def watch(self, watcher: Callable[[TopicPartition], None]) -> None:
        """Adds a callback for changes of a partition that a request may wait for."""
        self._watchers.append(watcher)

    def partition_changed(self, partition: TopicPartition) -> None:
        """Checks the requests that wait for a partition whose log, watermark or role changed."""
        for watcher in self._watchers:
            try:
                watcher(partition)
            except Exception:  # noqa: BLE001 - the other watchers must be called
                _log.exception("Error while completing requests that wait for %s", partition)

    def topics_changed(self, topics: Iterable[str]) -> None:
        """Applies the changed ``min.insync.replicas`` of topics to their partitions."""
        changed = frozenset(topics)
        for tp, partition in self.partitions.items():
            if tp.topic in changed:
                partition.min_in_sync_replicas = self._min_in_sync_replicas(tp.topic)

    def gauges(self) -> dict[str, int]:
        """Values of Kafka's gauges ``kafka.server:type=ReplicaManager``, by name."""
        # May run in any thread: the list is a copy.
        led = [p for p in list(self.partitions.values()) if p.role is Role.LEADER]
        return {
            "LeaderCount": len(led),
            "PartitionCount": len(self.partitions) + len(self.offline),
            "OfflineReplicaCount": len(self.offline),
            "UnderReplicatedPartitions": sum(p.is_under_replicated for p in led),
            "UnderMinIsrPartitionCount": sum(p.is_under_min_isr for p in led),
            "AtMinIsrPartitionCount": sum(p.is_at_min_isr for p in led),
            "ReassigningPartitions": sum(p.is_reassigning for p in led),
        }

    # The requests of the controller.

    def stop_replicas(
        self, request: StopReplicaRequest, correlation_id: int
    ) -> Generator[None, None, PartitionErrors]:
        """Stops replicas, and deletes those that the request marks; returns the response."""
        records: list[StateChange] = []
        try:
            response = yield from self._stop_replicas(request, correlation_id, records)
        finally:
            self.write_state_changes(records)
        if response.error is ErrorCode.none:
            self.remove_idle_fetchers()
        return response

    def _stop_replicas(
        self, request: StopReplicaRequest, correlation_id: int, records: list[StateChange]
    ) -> Generator[None, None, PartitionErrors]:
        base = self.base_record(
            Kind.STOP_REPLICA_HANDLING,
            request.controller_id,
            request.controller_epoch,
            correlation_id,
        )
        records.append(base._replace(count=len(request.partitions)))
        if self.is_tracing():
            for tp, order in request.partitions.items():
                yield
                records.append(
                    base._replace(
                        kind=Kind.STOP_REPLICA_RECEIVED_PARTITION,
                        topic=tp.topic,
                        partition=tp.partition,
                        leader_epoch=order.leader_epoch,
                        delete_partition=order.delete_partition,
                    )
                )
        if request.controller_epoch < self.controller_epoch:
            records.append(
                base._replace(
                    kind=Kind.STOP_REPLICA_IGNORED,
                    reason=Reason.STALE_CONTROLLER_EPOCH,
                    latest_controller_epoch=self.controller_epoch,
                )
            )
            return PartitionErrors(ErrorCode.stale_controller_epoch)
        self.controller_epoch = request.controller_epoch
        errors: dict[TopicPartition, ErrorCode] = {}
        for tp, order in request.partitions.items():
            yield
            if tp in self.offline:
                errors[tp] = ErrorCode.kafka_storage_error
                records.append(
                    base._replace(
                        kind=Kind.STOP_REPLICA_IGNORED,
                        topic=tp.topic,
                        partition=tp.partition,
                        reason=Reason.OFFLINE_LOG_DIRECTORY,
                        delete_partition=order.delete_partition,
                    )
                )
                continue
            partition = self.partitions.get(tp)
            if partition is not None and not _may_stop(order.leader_epoch, partition):
                errors[tp] = ErrorCode.fenced_leader_epoch
                records.append(
                    base._replace(
                        kind=Kind.STOP_REPLICA_IGNORED,
                        topic=tp.topic,
                        partition=tp.partition,
                        reason=Reason.STALE_LEADER_EPOCH,
                        delete_partition=order.delete_partition,
                        leader_epoch=order.leader_epoch,
                        current_leader_epoch=partition.leader_epoch,
                    )
                )
                continue
            errors[tp] = self._stop(tp, order)
        return PartitionErrors(ErrorCode.none, errors)

    def _stop(self, tp: TopicPartition, order: StopReplicaPartition) -> ErrorCode:
        """Stops one replica: stops fetching it, and deletes it if the request says so.

        A replica that is not deleted keeps its role.
        """
        self.stop_fetching([tp])
        if order.delete_partition:
            self.partitions.pop(tp, None)
            try:
                self.logs.delete(tp)
            except KafkaStorage:
                self.mark_offline([tp])
                return ErrorCode.kafka_storage_error
            self.on_resigned(tp, order.leader_epoch if order.leader_epoch >= 0 else None)
        self.partition_changed(tp)
        return ErrorCode.none

    def update_metadata(
        self, update: MetadataUpdate, correlation_id: int
    ) -> Generator[None, None, tuple[ErrorCode, Sequence[TopicPartition]]]:
        """Applies ``update`` to the metadata cache; returns an error and the deleted partitions."""
        if update.controller_epoch < self.controller_epoch:
            base = self.base_record(
                Kind.UPDATE_METADATA_IGNORED,
                update.controller_id,
                update.controller_epoch,
                correlation_id,
            )
            self.write_state_changes([base._replace(latest_controller_epoch=self.controller_epoch)])
            return ErrorCode.stale_controller_epoch, ()
        deleted, records = yield from self.metadata_cache.update(
            update, correlation_id, trace=self.is_tracing()
        )
        self.controller_epoch = update.controller_epoch
        self.write_state_changes(records)
        return ErrorCode.none, deleted

    def base_record(
        self, kind: Kind, controller_id: int, controller_epoch: int, correlation_id: int
    ) -> StateChange:
        """The fields shared by all state change records of one controller request."""
        return StateChange(
            kind,
            "broker",
            self.broker_id,
            controller_epoch,
            controller_id,
            correlation_id=correlation_id,
        )

    def _is_alive(self, broker_id: int) -> bool:
        return broker_id in self.metadata_cache.snapshot.live_brokers


def _may_stop(leader_epoch: int, partition: Partition) -> bool:
    """Whether the leader epoch is not too old; -1 and -2 (topic deletion) are always allowed."""
    if leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH):
        return True
    return leader_epoch >= partition.leader_epoch
