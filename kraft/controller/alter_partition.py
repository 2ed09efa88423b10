"""AlterPartition requests: checks a leader's ISR change in Kafka's order and writes it.

Source: Kafka ``ReplicationControlManager.alterPartition`` (KIP-497, KIP-704, KIP-841, KIP-903).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import RECOVERED, RECOVERING
from kafka_common.observability.java_values import java_list
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller.cluster_view import RegisteredBrokers
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_registration import (
    PartitionRegistration,
    is_valid_isr,
)
from kraft.controller.replication_state import ReplicationState, TopicControlInfo
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.metadata.records import (
    NO_LEADER_CHANGE,
    ZERO_UUID,
    PartitionChangeRecord,
)

ANY_BROKER_EPOCH: Final = -1
_FIRST_WITH_TOPIC_IDS: Final = 2


class IsrMember(NamedTuple):
    """A member of a proposed ISR; broker epoch -1 accepts any incarnation of the broker."""

    broker_id: int
    broker_epoch: int = ANY_BROKER_EPOCH


class ProposedPartition(NamedTuple):
    """The ISR that a leader proposes for one partition, and the epochs it is based on."""

    partition_index: int
    leader_epoch: int
    partition_epoch: int
    new_isr: tuple[IsrMember, ...]
    leader_recovery_state: int = RECOVERED

    @property
    def isr_text(self) -> str:
        """The ISR as Kafka prints it."""
        return java_list(
            f"BrokerState(brokerId={member.broker_id}, brokerEpoch={member.broker_epoch})"
            for member in self.new_isr
        )


class ProposedTopic(NamedTuple):
    """The proposals for one topic, named by its id from version 2 on."""

    partitions: tuple[ProposedPartition, ...]
    topic_id: UUID = ZERO_UUID
    topic_name: str = ""


@dataclass(frozen=True, slots=True)
class AlterPartitionRequest:
    """The ISR changes that one broker proposes."""

    broker_id: int
    broker_epoch: int
    topics: tuple[ProposedTopic, ...]


class AlteredPartition(NamedTuple):
    """The state of a partition after an accepted change, or an error."""

    partition_index: int
    error: ErrorCode = ErrorCode.none
    leader_id: int = 0
    leader_epoch: int = 0
    isr: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    partition_epoch: int = 0


class AlteredTopic(NamedTuple):
    """The results for one topic, named as in the request."""

    topic_id: UUID
    topic_name: str
    partitions: tuple[AlteredPartition, ...]


class AlterPartition:
    """Accepts or refuses ISR changes."""

    def __init__(
        self, state: ReplicationState, cluster: RegisteredBrokers, changes: PartitionChanges
    ) -> None:
        self._state = state
        self._cluster = cluster
        self._changes = changes

    def alter(
        self, request: AlterPartitionRequest, request_version: int
    ) -> ControllerResult[tuple[AlteredTopic, ...]]:
        """Handles one request; ApiException(STALE_BROKER_EPOCH) for another broker incarnation.

        Below version 2, topics are identified by name, and the errors are those of that version.
        """
        self._cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        by_id = request_version >= _FIRST_WITH_TOPIC_IDS
        records: list[VersionedRecord] = []
        topic_results = []
        for proposed in request.topics:
            if by_id:
                topic = self._state.topics.get(proposed.topic_id)
            else:
                topic = self._state.topic_named(proposed.topic_name)
            if topic is None:
                self._state.logger.info(
                    "Rejecting AlterPartition request for unknown topic ID %s or name %s.",
                    uuid_text(proposed.topic_id), proposed.topic_name,
                )  # fmt: skip
            partition_results = tuple(
                self._result(request.broker_id, topic, partition, records, by_id=by_id)
                for partition in proposed.partitions
            )
            topic_results.append(
                AlteredTopic(proposed.topic_id, proposed.topic_name, partition_results)
            )
        return ControllerResult.of(records, tuple(topic_results))

    def _result(
        self,
        broker_id: int,
        topic: TopicControlInfo | None,
        proposed: ProposedPartition,
        records: list[VersionedRecord],
        *,
        by_id: bool,
    ) -> AlteredPartition:
        """The result for one partition; appends its record, if any, to ``records``."""
        index = proposed.partition_index
        if topic is None:
            unknown = ErrorCode.unknown_topic_id if by_id else ErrorCode.unknown_topic_or_partition
            return AlteredPartition(index, unknown)
        partition = topic.partitions.get(index)
        if partition is None:
            self._state.logger.info(
                "Rejecting AlterPartition request for unknown partition %s-%d.", topic.name, index
            )
            return AlteredPartition(index, ErrorCode.unknown_topic_or_partition)
        refusal = _epoch_refusal(broker_id, partition, proposed) or self._isr_refusal(
            partition, proposed, by_id=by_id
        )
        if refusal is not None:
            self._state.logger.log(
                refusal.level,
                "Rejecting AlterPartition request from node %d for %s-%d because %s.",
                broker_id, topic.name, index, refusal.reason,
            )  # fmt: skip
            return AlteredPartition(index, refusal.error)
        was_reassigned = partition.is_being_reassigned
        builder = self._changes.builder(topic, index, partition)
        builder.election = self._changes.election_of(topic)
        builder.target_isr = tuple(member.broker_id for member in proposed.new_isr)
        builder.target_leader_recovery_state = proposed.leader_recovery_state
        for built in self._changes.built(builder):
            records.append(built)
            assert isinstance(built.record, PartitionChangeRecord)
            partition = partition.merge(built.record)
            if built.record.leader not in (broker_id, NO_LEADER_CHANGE):
                # The new ISR completes a reassignment that changes the leader.  The change is
                # written, but the result is an error, so that the old leader reads the metadata.
                error = ErrorCode.new_leader_elected if by_id else ErrorCode.fenced_leader_epoch
                self._state.logger.info(
                    "AlterPartition request from node %d for %s-%d completed the ongoing partition "
                    "reassignment and triggered a leadership change. Returning %s.",
                    broker_id, topic.name, index, error.name.upper(),
                )  # fmt: skip
                return AlteredPartition(index, error)
            if was_reassigned and not partition.is_being_reassigned:
                self._state.logger.info(
                    "AlterPartition request from node %d for %s-%d completed the ongoing partition "
                    "reassignment.",
                    broker_id, topic.name, index,
                )  # fmt: skip
        return AlteredPartition(
            index,
            ErrorCode.none,
            partition.leader,
            partition.leader_epoch,
            partition.isr,
            partition.leader_recovery_state,
            partition.partition_epoch,
        )

    def _isr_refusal(
        self, partition: PartitionRegistration, proposed: ProposedPartition, *, by_id: bool
    ) -> _Refusal | None:
        isr = tuple(member.broker_id for member in proposed.new_isr)
        recovery_state = proposed.leader_recovery_state
        invalid = ErrorCode.invalid_request
        if not is_valid_isr(partition.replicas, isr):
            return _Refusal(
                invalid, f"it specified an invalid ISR {proposed.isr_text}", logging.ERROR
            )
        if partition.leader not in isr:
            reason = f"it specified an invalid ISR {proposed.isr_text} that doesn't include itself"
            return _Refusal(invalid, reason, logging.ERROR)
        if recovery_state not in (RECOVERED, RECOVERING):
            return _Refusal(invalid, f"there is no leader recovery state {recovery_state}")
        if recovery_state == RECOVERING and len(isr) > 1:
            reason = (
                f"the ISR {proposed.isr_text} had more than one replica while the leader was still "
                "recovering from an unclean leader election RECOVERING"
            )
            return _Refusal(invalid, reason)
        if recovery_state == RECOVERING and partition.leader_recovery_state == RECOVERED:
            reason = "the leader recovery state cannot change from RECOVERED to RECOVERING"
            return _Refusal(invalid, reason)
        ineligible = [
            member.broker_id for member in proposed.new_isr if not self._is_eligible(member)
        ]
        if not ineligible:
            return None
        reason = (
            f"it specified ineligible replicas {java_list(ineligible)} in the new ISR "
            f"{proposed.isr_text}"
        )
        error = ErrorCode.ineligible_replica if by_id else ErrorCode.operation_not_attempted
        return _Refusal(error, reason)

    def _is_eligible(self, member: IsrMember) -> bool:
        registration = self._cluster.registration(member.broker_id)
        if registration is None or registration.in_controlled_shutdown or registration.fenced:
            return False
        return member.broker_epoch in (ANY_BROKER_EPOCH, registration.epoch)


class _Refusal(NamedTuple):
    """An error, and why, for the log."""

    error: ErrorCode
    reason: str
    level: int = logging.INFO


def _epoch_refusal(
    broker_id: int, partition: PartitionRegistration, proposed: ProposedPartition
) -> _Refusal | None:
    """The refusal of a change that is based on other epochs than the current ones."""
    # Higher epochs come from a newer controller, which this one does not know yet.
    if (
        proposed.leader_epoch > partition.leader_epoch
        or proposed.partition_epoch > partition.partition_epoch
    ):
        reason = (
            f"its epochs are newer: leader {proposed.leader_epoch}, partition "
            f"{proposed.partition_epoch}"
        )
        return _Refusal(ErrorCode.not_controller, reason, logging.DEBUG)
    if proposed.leader_epoch < partition.leader_epoch:
        reason = (
            f"the current leader epoch is {partition.leader_epoch}, not {proposed.leader_epoch}"
        )
        return _Refusal(ErrorCode.fenced_leader_epoch, reason, logging.DEBUG)
    if broker_id != partition.leader:
        return _Refusal(ErrorCode.invalid_request, f"the current leader is {partition.leader}")
    if proposed.partition_epoch < partition.partition_epoch:
        reason = (
            f"the current partition epoch is {partition.partition_epoch}, not "
            f"{proposed.partition_epoch}"
        )
        return _Refusal(ErrorCode.invalid_update_version, reason)
    return None
