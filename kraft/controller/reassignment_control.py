"""Partition reassignments of a KRaft cluster: started, cancelled, listed.

Source: Kafka ``ReplicationControlManager.alterPartitionReassignments``,
``listPartitionReassignments`` (KIP-455).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException, exception_name
from kraft.controller.configuration_control import ConfigurationControlManager
from kraft.controller.partition_change_builder import PartitionChangeBuilder
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_placement import PartitionPlacement
from kraft.controller.partition_reassignment import (
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from kraft.controller.partition_registration import PartitionRegistration
from kraft.controller.replication_state import ReplicationState, TopicControlInfo
from kraft.controller.result import BoundedRecords, ControllerResult


class ReassignablePartition(NamedTuple):
    """The target replicas of one partition; None cancels its reassignment."""

    partition_index: int
    replicas: tuple[int, ...] | None


class ReassignableTopic(NamedTuple):
    """The requested reassignments of one topic."""

    name: str
    partitions: tuple[ReassignablePartition, ...]


class ReassignedTopic(NamedTuple):
    """The result for each partition of one topic."""

    name: str
    partitions: tuple[tuple[int, ApiError], ...]


class OngoingPartitionReassignment(NamedTuple):
    """A reassignment in progress; ``replicas`` includes those being added and removed."""

    partition_index: int
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class OngoingTopicReassignment(NamedTuple):
    """The reassignments of one topic."""

    name: str
    partitions: tuple[OngoingPartitionReassignment, ...]


class ReassignmentControl:
    """Starts and cancels reassignments; ISR changes complete them."""

    def __init__(
        self,
        state: ReplicationState,
        changes: PartitionChanges,
        placement: PartitionPlacement,
        configs: ConfigurationControlManager,
    ) -> None:
        self._state = state
        self._changes = changes
        self._placement = placement
        self._configs = configs

    def alter_partition_reassignments(
        self, topics: Iterable[ReassignableTopic]
    ) -> ControllerResult[tuple[ReassignedTopic, ...]]:
        """One result per partition; POLICY_VIOLATION for those beyond 10,000 records."""
        records = BoundedRecords()
        topic_results = []
        altered = total = 0
        for topic in topics:
            partition_results = []
            for target in topic.partitions:
                try:
                    records.extend(self._changes.built(self._altered(topic.name, target)))
                    partition_results.append((target.partition_index, NO_ERROR))
                    altered += 1
                except ApiException as refused:
                    partition_results.append((target.partition_index, refused.to_error()))
                    self._state.logger.info(
                        "Unable to alter partition reassignment for %s:%d because of an %s "
                        "error: %s",
                        topic.name, target.partition_index, exception_name(refused.error),
                        refused.message,
                    )  # fmt: skip
            topic_results.append(ReassignedTopic(topic.name, tuple(partition_results)))
            total += len(partition_results)
        self._state.logger.info(
            "Successfully altered %d out of %d partition reassignment(s).", altered, total
        )
        return ControllerResult.atomic_of(records.to_tuple(), tuple(topic_results))

    def _altered(self, topic_name: str, target: ReassignablePartition) -> PartitionChangeBuilder:
        topic = self._state.topic_named(topic_name)
        if topic is None:
            raise ApiException(
                ErrorCode.unknown_topic_or_partition,
                f"Unable to find a topic named {topic_name}.",
            )
        partition = topic.partitions.get(target.partition_index)
        if partition is None:
            raise ApiException(
                ErrorCode.unknown_topic_or_partition,
                f"Unable to find partition {topic_name}:{target.partition_index}.",
            )
        if target.replicas is None:
            return self._cancelled(topic, target.partition_index, partition)
        return self._changed(topic, target.partition_index, partition, target.replicas)

    def _changed(
        self,
        topic: TopicControlInfo,
        partition_id: int,
        partition: PartitionRegistration,
        replicas: tuple[int, ...],
    ) -> PartitionChangeBuilder:
        """The change that starts a move; replicas are removed after the new ones are in sync."""
        self._placement.check_assignment(replicas)
        moving = PartitionReassignmentReplicas.between(partition.replicas, replicas)
        builder = self._changes.builder(topic, partition_id, partition)
        builder.target_replicas = moving.replicas
        # As in Kafka, an empty set does not replace that of an earlier reassignment.
        builder.target_removing = moving.removing or None
        builder.target_adding = moving.adding or None
        return builder

    def _cancelled(
        self, topic: TopicControlInfo, partition_id: int, partition: PartitionRegistration
    ) -> PartitionChangeBuilder:
        if not partition.is_being_reassigned:
            raise ApiException(ErrorCode.no_reassignment_in_progress)
        revert = PartitionReassignmentRevert.of(partition)
        if revert.unclean and not self._configs.is_unclean_leader_election_enabled(topic.name):
            raise ApiException(
                ErrorCode.invalid_replica_assignment,
                f"Unable to revert partition assignment for {topic.name}:{partition_id} because "
                "it would require an unclean leader election.",
            )
        builder = self._changes.builder(topic, partition_id, partition)
        builder.election = self._changes.election_of(topic)
        builder.target_isr = revert.isr
        builder.target_replicas = revert.replicas
        builder.target_removing = builder.target_adding = ()
        return builder

    def list_partition_reassignments(
        self, topics: Iterable[tuple[str, tuple[int, ...]]] | None, epoch: int | None = None
    ) -> tuple[OngoingTopicReassignment, ...]:
        """The reassignments in progress at offset ``epoch``; ``topics`` of None means all."""
        if topics is None:
            by_topic: dict[str, list[int]] = {}
            for key in self._state.reassigning_partitions.members(epoch=epoch):
                topic = self._state.topics.get(key.topic_id, epoch=epoch)
                if topic is not None:
                    by_topic.setdefault(topic.name, []).append(key.partition_id)
            topics = [(name, tuple(partitions)) for name, partitions in by_topic.items()]
        ongoing = (
            OngoingTopicReassignment(name, tuple(self._ongoing(name, partitions, epoch)))
            for name, partitions in topics
        )
        return tuple(topic for topic in ongoing if topic.partitions)

    def _ongoing(
        self, name: str, partition_ids: Iterable[int], epoch: int | None
    ) -> Iterator[OngoingPartitionReassignment]:
        topic_id = self._state.topics_by_name.get(name, epoch=epoch)
        topic = None if topic_id is None else self._state.topics.get(topic_id, epoch=epoch)
        if topic is None:
            return
        for partition_id in partition_ids:
            partition = topic.partitions.get(partition_id, epoch=epoch)
            if partition is not None and partition.is_being_reassigned:
                yield OngoingPartitionReassignment(
                    partition_id,
                    partition.replicas,
                    partition.adding_replicas,
                    partition.removing_replicas,
                )
