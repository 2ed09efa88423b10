"""Partition changes that follow when a broker starts, stops or loses a log directory.

:class:`.broker_transitions.BrokerTransitions` is the interface.  The partition records come before
the broker's record if the broker is fenced, and after it if the broker is unfenced.  So a reader of
only the first records sees no partition with a fenced leader.

Source: Kafka ``ReplicationControlManager.handleBroker…``, ``handleDirectoriesOffline``,
``handleAssignReplicasToDirs`` (KIP-631, KIP-841, KIP-858).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState
from kafka_common.observability.java_values import java_list
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller import directory_ids
from kraft.controller.cluster_view import RegisteredBroker, RegisteredBrokers
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_registration import PartitionId
from kraft.controller.replication_state import ReplicationState
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.metadata.records import (
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)

FENCE: Final = 1
UNFENCE: Final = -1
IN_CONTROLLED_SHUTDOWN: Final = 1


class AssignedDirectory(NamedTuple):
    """The partitions, by topic id, that a broker keeps in one log directory."""

    directory: UUID
    topics: tuple[tuple[UUID, tuple[int, ...]], ...]


class AssignedDirectoryResult(NamedTuple):
    """The result for each partition of one log directory."""

    directory: UUID
    topics: tuple[tuple[UUID, tuple[tuple[int, ErrorCode], ...]], ...]


class BrokerChanges:
    """Generates the partition records for a broker's change."""

    def __init__(
        self, state: ReplicationState, cluster: RegisteredBrokers, changes: PartitionChanges
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._changes = changes

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads a partition."""
        return self._state.brokers_to_isrs.has_leaderships(broker_id)

    def handle_broker_fenced(self, broker_id: int) -> list[VersionedRecord]:
        """The records that remove the broker from every ISR and fence it."""
        epoch = self._registration(broker_id).epoch
        return [
            *self._isr_removals("handleBrokerFenced", broker_id),
            self._fencing(broker_id, epoch, FENCE),
        ]

    def handle_broker_unfenced(self, broker_id: int, broker_epoch: int) -> list[VersionedRecord]:
        """The records that unfence the broker and elect it for leaderless partitions."""
        leaderless = self._state.brokers_to_isrs.partitions_with_no_leader()
        return [
            self._fencing(broker_id, broker_epoch, UNFENCE),
            *self._changes.leader_and_isr_updates(
                "handleBrokerUnfenced", leaderless, broker_to_add=broker_id
            ),
        ]

    def handle_broker_in_controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        """The record of the shutdown, once, and those that take the broker out of ISRs."""
        records = []
        if (
            self._changes.metadata_version.is_in_controlled_shutdown_state_supported
            and not self._registration(broker_id).in_controlled_shutdown
        ):
            change = BrokerRegistrationChangeRecord(
                broker_id, broker_epoch, in_controlled_shutdown=IN_CONTROLLED_SHUTDOWN
            )
            records.append(VersionedRecord(change, 1))
        return [*records, *self._isr_removals(f"enterControlledShutdown[{broker_id}]", broker_id)]

    def handle_broker_unregistered(
        self, broker_id: int, broker_epoch: int
    ) -> list[VersionedRecord]:
        """The records that remove the broker from ISRs and ELRs and unregister it."""
        in_elr = self._state.brokers_to_isrs.partitions_with_broker_in_elr(broker_id)
        return [
            *self._isr_removals("handleBrokerUnregistered", broker_id),
            *self._changes.leader_and_isr_updates(
                "handleBrokerUnregistered", in_elr, broker_to_remove=broker_id
            ),
            VersionedRecord(UnregisterBrokerRecord(broker_id, broker_epoch), 0),
        ]

    def handle_broker_unclean_shutdown(self, broker_id: int) -> list[VersionedRecord]:
        """The records that remove a broker from ISRs and ELRs, as it may have lost records.

        None below metadata.version 4.0-IV0.
        """
        if not self._changes.metadata_version.is_elr_supported:
            return []
        index = self._state.brokers_to_isrs
        return [
            record
            for partitions in (
                index.partitions_with_broker_in_isr(broker_id),
                index.partitions_with_broker_in_elr(broker_id),
            )
            for record in self._changes.leader_and_isr_updates(
                "handleBrokerUncleanShutdown", partitions, broker_with_unclean_shutdown=broker_id
            )
        ]

    def handle_directories_offline(
        self, broker_id: int, broker_epoch: int, offline_dirs: Sequence[UUID]
    ) -> list[VersionedRecord]:
        """The records that remove the broker from ISRs of partitions in newly offline directories.

        The last one has the broker's remaining directories.
        """
        online = self._registration(broker_id).directories
        newly_offline = [directory for directory in online if directory in offline_dirs]
        if not newly_offline:
            return []
        records: list[VersionedRecord] = []
        for directory in newly_offline:
            records += self._changes.leader_and_isr_updates(
                f"handleDirectoriesOffline[{broker_id}:{uuid_text(directory)}]",
                self._state.partitions_in_directory(directory),
                broker_to_remove=broker_id,
            )
        remaining = tuple(directory for directory in online if directory not in offline_dirs)
        change = BrokerRegistrationChangeRecord(broker_id, broker_epoch, log_dirs=remaining)
        self._state.logger.warning(
            "Directories %s in broker %d marked offline, remaining directories: %s",
            java_list(map(uuid_text, newly_offline)), broker_id,
            java_list(map(uuid_text, remaining)),
        )  # fmt: skip
        return [*records, VersionedRecord(change, 2)]

    def assign_replicas_to_dirs(
        self, broker_id: int, broker_epoch: int, directories: Iterable[AssignedDirectory]
    ) -> ControllerResult[tuple[AssignedDirectoryResult, ...]]:
        """Records in which log directories the broker's replicas are.

        Deviation: the partitions keep their ELRs; Kafka 3.9 clears them without a reason.
        Raises ApiException: UNSUPPORTED_VERSION below 3.7-IV2, STALE_BROKER_EPOCH.
        """
        if not self._changes.metadata_version.is_directory_assignment_supported:
            raise ApiException(
                ErrorCode.unsupported_version, "Directory assignment is not supported yet."
            )
        self._cluster.check_broker_epoch(broker_id, broker_epoch)
        online = self._registration(broker_id).directories
        records: list[VersionedRecord] = []
        unreachable: dict[PartitionId, None] = {}
        directory_results = []
        for directory, topics in directories:
            is_online = directory_ids.is_online(directory, online)
            topic_results = []
            for topic_id, partition_ids in topics:
                partition_results = []
                for partition_id in partition_ids:
                    key = PartitionId(topic_id, partition_id)
                    error = self._assign(broker_id, directory, key, records)
                    if error is ErrorCode.none and not is_online:
                        unreachable[key] = None
                    partition_results.append((partition_id, error))
                topic_results.append((topic_id, tuple(partition_results)))
            directory_results.append(AssignedDirectoryResult(directory, tuple(topic_results)))
        records += self._changes.leader_and_isr_updates(
            "offline-dir-assignment", unreachable, broker_to_remove=broker_id
        )
        return ControllerResult.of(records, tuple(directory_results))

    def _assign(
        self,
        broker_id: int,
        directory: UUID,
        key: PartitionId,
        records: list[VersionedRecord],
    ) -> ErrorCode:
        topic = self._state.topics.get(key.topic_id)
        request = f"AssignReplicasToDirsRequest from broker {broker_id} references"
        if topic is None:
            self._state.logger.warning("%s unknown topic ID %s", request, uuid_text(key.topic_id))
            return ErrorCode.unknown_topic_id
        partition = topic.partitions.get(key.partition_id)
        if partition is None:
            self._state.logger.warning(
                "%s unknown partition %s-%d", request, topic.name, key.partition_id
            )
            return ErrorCode.unknown_topic_or_partition
        if broker_id not in partition.replicas:
            self._state.logger.warning(
                "%s non assigned partition %s-%d", request, topic.name, key.partition_id
            )
            return ErrorCode.not_leader_or_follower
        builder = self._changes.builder(topic, key.partition_id, partition)
        builder.target_directories[broker_id] = directory
        records += self._changes.built(builder)
        return ErrorCode.none

    def _isr_removals(self, context: str, broker_id: int) -> list[VersionedRecord]:
        in_isr = self._state.brokers_to_isrs.partitions_with_broker_in_isr(broker_id)
        return self._changes.leader_and_isr_updates(context, in_isr, broker_to_remove=broker_id)

    def _fencing(self, broker_id: int, broker_epoch: int, fenced: int) -> VersionedRecord:
        if self._changes.metadata_version.is_broker_registration_change_record_supported:
            change = BrokerRegistrationChangeRecord(broker_id, broker_epoch, fenced=fenced)
            return VersionedRecord(change, 0)
        if fenced == FENCE:
            return VersionedRecord(FenceBrokerRecord(broker_id, broker_epoch), 0)
        return VersionedRecord(UnfenceBrokerRecord(broker_id, broker_epoch), 0)

    def _registration(self, broker_id: int) -> RegisteredBroker:
        registration = self._cluster.registration(broker_id)
        if registration is None:
            raise IllegalState(f"Can't find broker registration for broker {broker_id}")
        return registration
