"""Handles LeaderAndIsr, StopReplica and UpdateMetadata for all partitions of this broker.

LeaderAndIsr makes replicas leaders or followers, StopReplica stops them, UpdateMetadata describes
the cluster.  Each is a generator that yields between partitions, where the event loop serves
clients; ``replica_state_change_lock`` keeps the other two requests out meanwhile.  Each partition
changes in one step.  The known controller epoch only grows; a request of an older controller
changes nothing.

Source: Kafka ``ReplicaManager`` (``becomeLeaderOrFollower``, ``makeLeaders``, ``makeFollowers``,
``stopReplicas``, ``maybeUpdateMetadataCache``).
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from kio.schema.errors import ErrorCode

from replica_manager.replication.control_requests import (
    LeaderAndIsrRequest,
    PartitionErrors,
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.replication.hosted_replicas import HostedReplicas
from replica_manager.replication.leader_and_isr import LeaderAndIsrHandling
from replica_manager.replication.metadata_cache import MetadataUpdate
from replica_manager.replication.partition import Partition
from zkcontroller.errors import KafkaStorage
from zkcontroller.model import EPOCH_DURING_DELETE, NO_EPOCH, TopicPartition
from zkcontroller.state_changes.record import Kind, Reason, StateChange


class ReplicaManager(HostedReplicas):
    """The partitions of one broker, and the requests by which a controller changes them.

    The caller that runs one of the three generators to its end holds ``replica_state_change_lock``.
    """

    def become_leader_or_follower(
        self, request: LeaderAndIsrRequest, correlation_id: int
    ) -> Generator[None, None, PartitionErrors]:
        """Applies the partition states of a LeaderAndIsr request, leaders first."""
        started_ms = self.now_ms()
        handling = LeaderAndIsrHandling(self, request, correlation_id, started_ms)
        try:
            answer = yield from handling.run()
            handling.log(Kind.LEADER_AND_ISR_FINISHED, elapsed_ms=self.now_ms() - started_ms)
        finally:
            # Also if the broker's end interrupts the request.
            self.write_state_changes(handling.records)
        self.remove_idle_fetchers()
        return answer

    def stop_replicas(
        self, request: StopReplicaRequest, correlation_id: int
    ) -> Generator[None, None, PartitionErrors]:
        """Stops replicas; deletes those that the request says to delete."""
        records: list[StateChange] = []
        try:
            answer = yield from self._stop_replicas(request, correlation_id, records)
        finally:
            self.write_state_changes(records)
        if answer.error is ErrorCode.none:
            self.remove_idle_fetchers()
        return answer

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
        """Stops one replica; without delete it keeps its role, and only its fetcher stops."""
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
        """Applies ``update`` to the metadata cache; returns the partitions deleted there."""
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


def _may_stop(leader_epoch: int, partition: Partition) -> bool:
    """Checks the leader epoch; deletion and old versions use a sentinel instead."""
    if leader_epoch in (EPOCH_DURING_DELETE, NO_EPOCH):
        return True
    return leader_epoch >= partition.leader_epoch
