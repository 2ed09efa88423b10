"""Creates, extends and deletes topics.

Source: Kafka ``ReplicationControlManager.createTopics``, ``createPartitions``, ``deleteTopics``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.model import ConfigResourceType, OpType
from kafka_common.observability.java_values import java_list
from kafka_common.topic_names import invalid_name_reason
from kraft.controller.config_schema import ConfigResource
from kraft.controller.configuration_control import (
    ConfigOperation,
    ConfigurationControlManager,
)
from kraft.controller.partition_changes import PartitionChanges
from kraft.controller.partition_placement import PartitionPlacement
from kraft.controller.partition_registration import PartitionRegistration
from kraft.controller.replication_state import ReplicationState
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)
from kraft.controller.topic_requests import (
    DEFAULT,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreateTopicPolicy,
    CreateTopicsRequest,
    PartitionChangeQuota,
)
from kraft.metadata.records import RemoveTopicRecord, TopicRecord

MAX_PARTITIONS_PER_BATCH: Final = 10_000


class TopicCreation:
    """Generates the records of created, extended and deleted topics."""

    def __init__(
        self,
        state: ReplicationState,
        changes: PartitionChanges,
        placement: PartitionPlacement,
        configs: ConfigurationControlManager,
        *,
        new_topic_id: Callable[[], UUID],
        default_num_partitions: int,
        default_replication_factor: int,
        policy: CreateTopicPolicy | None,
    ) -> None:
        self._state = state
        self._changes = changes
        self._placement = placement
        self._configs = configs
        self._new_topic_id = new_topic_id
        self._default_num_partitions = default_num_partitions
        self._default_replication_factor = default_replication_factor
        self._policy = policy

    # ------------------------------------------------------------------ CreateTopics

    def create_topics(
        self, request: CreateTopicsRequest, apply_quota: PartitionChangeQuota
    ) -> ControllerResult[tuple[CreatableTopicResult, ...]]:
        """One result for each topic, and the records of those that succeed.

        Raises ApiException(POLICY_VIOLATION) for more than MAX_PARTITIONS_PER_BATCH partitions.
        """
        self._check_partition_count(request.topics)
        records = BoundedRecords()
        results = []
        said = []
        for topic in request.topics:
            try:
                config_records = self._checked(topic)
                partitions = self._partitions(topic)
                apply_quota(len(partitions))
            except ApiException as refused:
                results.append(CreatableTopicResult(topic.name, refused.to_error()))
                said.append(f"{_text(topic)}: {refused.error.name.upper()} ({refused.message})")
                continue
            topic_id = self._new_topic_id()
            said.append(f"{_text(topic)}: SUCCESS")
            is_describable = topic.name in request.describable
            results.append(self._result(topic, topic_id, partitions, is_describable))
            records.append(VersionedRecord(TopicRecord(topic.name, topic_id), 0))
            # The configuration comes after the topic and before its partitions, because a broker
            # needs it when it opens a partition's log.
            records.extend(config_records)
            records.extend(
                self._changes.created(topic_id, partition_id, partition)
                for partition_id, partition in enumerate(partitions)
            )
        self._state.logger.info(
            "%sCreateTopics result(s): %s",
            "Validate-only " if request.validate_only else "", ", ".join(said),
        )  # fmt: skip
        written = () if request.validate_only else records.to_tuple()
        return ControllerResult.atomic_of(written, tuple(results))

    def _check_partition_count(self, topics: Iterable[CreatableTopic]) -> None:
        total = 0
        for topic in topics:
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == DEFAULT:
                total += self._default_num_partitions
            else:
                total += max(topic.num_partitions, 0)
        if total > MAX_PARTITIONS_PER_BATCH:
            raise ApiException(
                ErrorCode.policy_violation,
                "Excessively large number of partitions per request.",
            )

    def _checked(self, topic: CreatableTopic) -> tuple[VersionedRecord, ...]:
        """The topic's configuration records, after its name and keys were checked."""
        if topic.name in self._state.topics_by_name:
            raise ApiException(
                ErrorCode.topic_already_exists, f"Topic '{topic.name}' already exists."
            )
        colliding = self._state.colliding_topic(topic.name)
        if colliding is not None:
            raise ApiException(
                ErrorCode.invalid_topic_exception,
                f"Topic '{topic.name}' collides with existing topic: {colliding}",
            )
        reason = invalid_name_reason(topic.name)
        if reason is not None:
            raise ApiException(ErrorCode.invalid_topic_exception, reason)
        without_value = [name for name, value in topic.configs if value is None]
        if without_value:
            raise ApiException(
                ErrorCode.invalid_config,
                f"Null value not supported for topic configs: {','.join(without_value)}",
            )
        if not topic.configs:
            return ()
        resource = ConfigResource(ConfigResourceType.TOPIC, topic.name)
        operations = {name: ConfigOperation(OpType.SET, value) for name, value in topic.configs}
        altered = self._configs.incremental_alter_configs(
            {resource: operations}, is_newly_created=True
        )
        error = altered.response[resource]
        if error.is_failure:
            raise ApiException(error.error, error.message)
        return altered.records

    def _partitions(self, topic: CreatableTopic) -> list[PartitionRegistration]:
        if topic.assignments:
            return self._assigned_partitions(topic)
        if topic.replication_factor < DEFAULT or topic.replication_factor == 0:
            raise ApiException(
                ErrorCode.invalid_replication_factor,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if topic.num_partitions < DEFAULT or topic.num_partitions == 0:
            raise ApiException(
                ErrorCode.invalid_partitions,
                "Number of partitions was set to an invalid non-positive value.",
            )
        num_partitions, replication_factor = topic.num_partitions, topic.replication_factor
        if num_partitions == DEFAULT:
            num_partitions = self._default_num_partitions
        if replication_factor == DEFAULT:
            replication_factor = self._default_replication_factor
        partitions = self._placed_partitions(num_partitions, replication_factor)
        if self._policy is not None:
            self._policy.validate(
                topic.name, num_partitions, replication_factor, None, _configs(topic)
            )
        return partitions

    def _placed_partitions(
        self, num_partitions: int, replication_factor: int
    ) -> list[PartitionRegistration]:
        try:
            placed = self._placement.place(num_partitions, replication_factor)
        except ApiException as refused:
            raise ApiException(
                refused.error,
                f"Unable to replicate the partition {replication_factor} time(s): "
                f"{refused.message}",
            ) from refused
        return [self._placement.placed(replicas) for replicas in placed]

    def _assigned_partitions(self, topic: CreatableTopic) -> list[PartitionRegistration]:
        for field, value in (
            ("replication factor", topic.replication_factor),
            ("numPartitions", topic.num_partitions),
        ):
            if value != DEFAULT:
                raise ApiException(
                    ErrorCode.invalid_request,
                    f"A manual partition assignment was specified, but {field} was not set to -1.",
                )
        partitions: dict[int, PartitionRegistration] = {}
        replication_factor = None
        for index, broker_ids in topic.assignments:
            if index in partitions:
                raise ApiException(
                    ErrorCode.invalid_replica_assignment,
                    f"Found multiple manual partition assignments for partition {index}",
                )
            partitions[index] = self._placement.assigned(index, broker_ids, replication_factor)
            replication_factor = len(broker_ids)
        if sorted(partitions) != list(range(len(partitions))):
            raise ApiException(
                ErrorCode.invalid_replica_assignment,
                "partitions should be a consecutive 0-based integer sequence",
            )
        if self._policy is not None:
            assignments = {index: partition.replicas for index, partition in partitions.items()}
            self._policy.validate(topic.name, None, None, assignments, _configs(topic))
        return [partitions[index] for index in range(len(partitions))]

    def _result(
        self,
        topic: CreatableTopic,
        topic_id: UUID,
        partitions: Sequence[PartitionRegistration],
        is_describable: bool,
    ) -> CreatableTopicResult:
        if not is_describable:
            return CreatableTopicResult(topic.name, NO_ERROR, topic_id)
        return CreatableTopicResult(
            topic.name,
            NO_ERROR,
            topic_id,
            len(partitions),
            len(partitions[0].replicas),
            tuple(self._configs.effective_topic_configs(_configs(topic))),
        )

    # ------------------------------------------------------------------ CreatePartitions

    def create_partitions(
        self, topics: Iterable[CreatePartitionsTopic], apply_quota: PartitionChangeQuota
    ) -> ControllerResult[tuple[tuple[str, ApiError], ...]]:
        """One result per topic; a topic that needs too many records gets no partition."""
        records = BoundedRecords()
        results = []
        for topic in topics:
            try:
                records.extend(self._new_partitions(topic, apply_quota))
                results.append((topic.name, NO_ERROR))
            except ApiException as refused:
                results.append((topic.name, refused.to_error()))
        return ControllerResult.atomic_of(records.to_tuple(), tuple(results))

    def _new_partitions(
        self, wanted: CreatePartitionsTopic, apply_quota: PartitionChangeQuota
    ) -> list[VersionedRecord]:
        topic = self._state.topic_named(wanted.name)
        if topic is None:
            raise ApiException(ErrorCode.unknown_topic_or_partition)
        first = len(topic.partitions)
        added = wanted.count - first
        _check_increase(wanted, first)
        apply_quota(added)
        replication_factor = len(next(topic.partitions.values()).replicas)
        if wanted.assignments is None:
            placed = self._placement.place(added, replication_factor)
            partitions = [self._placement.placed(replicas) for replicas in placed]
        else:
            partitions = [
                self._placement.assigned(partition_id, replicas, replication_factor)
                for partition_id, replicas in enumerate(wanted.assignments, start=first)
            ]
        return [
            self._changes.created(topic.topic_id, partition_id, partition)
            for partition_id, partition in enumerate(partitions, start=first)
        ]

    # ------------------------------------------------------------------ DeleteTopics

    def delete_topics(
        self, topic_ids: Iterable[UUID], apply_quota: PartitionChangeQuota
    ) -> ControllerResult[dict[UUID, ApiError]]:
        """One result per topic; a single record deletes the topic with its partitions."""
        records = BoundedRecords()
        results: dict[UUID, ApiError] = {}
        for topic_id in topic_ids:
            topic = self._state.topics.get(topic_id)
            try:
                if topic is None:
                    raise ApiException(ErrorCode.unknown_topic_id)
                apply_quota(len(topic.partitions))
                records.append(VersionedRecord(RemoveTopicRecord(topic_id), 0))
                results[topic_id] = NO_ERROR
            except ApiException as refused:
                results[topic_id] = refused.to_error()
        return ControllerResult.atomic_of(records.to_tuple(), results)


def _configs(topic: CreatableTopic) -> dict[str, str]:
    return {name: value for name, value in topic.configs if value is not None}


def _check_increase(wanted: CreatePartitionsTopic, current: int) -> None:
    if wanted.count == current:
        raise ApiException(
            ErrorCode.invalid_partitions, f"Topic already has {current} partition(s)."
        )
    if wanted.count < current:
        raise ApiException(
            ErrorCode.invalid_partitions,
            f"The topic {wanted.name} currently has {current} partition(s); {wanted.count} would "
            "not be an increase.",
        )
    added = wanted.count - current
    if added > MAX_PARTITIONS_PER_BATCH:
        raise ApiException(
            ErrorCode.policy_violation, "Excessively large number of partitions per request."
        )
    if wanted.assignments is not None and len(wanted.assignments) != added:
        raise ApiException(
            ErrorCode.invalid_replica_assignment,
            f"Attempted to add {added} additional partition(s), but only "
            f"{len(wanted.assignments)} assignment(s) were specified.",
        )


def _text(topic: CreatableTopic) -> str:
    assignments = java_list(
        f"CreatableReplicaAssignment(partitionIndex={each.partition_index}, "
        f"brokerIds={java_list(each.broker_ids)})"
        for each in topic.assignments
    )
    configs = java_list(
        f"CreatableTopicConfig(name='{name}', value={shown})"
        for name, value in topic.configs
        for shown in ["null" if value is None else f"'{value}'"]
    )
    return (
        f"CreatableTopic(name='{topic.name}', numPartitions={topic.num_partitions}, "
        f"replicationFactor={topic.replication_factor}, assignments={assignments}, "
        f"configs={configs})"
    )
