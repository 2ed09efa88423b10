"""CreateTopics, CreatePartitions, ElectLeaders and partition reassignments.

Source: Kafka ``ControllerApis.createTopics``, ``createPartitions``, ``handleElectLeaders``,
``handleAlterPartitionReassignments``, ``handleListPartitionReassignments``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.api_error import ApiError, ApiException
from kafka_common.model import ElectionType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.milliseconds import milliseconds
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from kraft.controller.leader_elections import ElectedTopic
from kraft.controller.quorum_controller_requests import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    ElectLeaders,
    ListReassignments,
)
from kraft.controller.reassignment_control import (
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
    ReassignedTopic,
)
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from kraft.node.controller_apis.call import Call, ControllerApi
from kraft.node.controller_apis.topic_deletion import delete_topics
from kraft.raft.values import METADATA_TOPIC

_DUPLICATE_NAME: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
_INTERNAL_NAME: Final = ApiError(
    ErrorCode.invalid_request, f"Creation of internal topic {METADATA_TOPIC} is prohibited."
)
_NOT_ALTERABLE: Final = ApiError(ErrorCode.topic_authorization_failed)
_NOT_CREATABLE: Final = ApiError(ErrorCode.topic_authorization_failed, "Authorization failed.")


async def _create_topics(request: request_types.CreateTopicsRequest, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_TOPICS, call.version)
    try:
        found = await _create(request, call)
    except ApiException as error:
        refused = error.to_error()
        found = [CreatableTopicResult(topic.name, refused) for topic in request.topics]
    return schema.response(topics=tuple(_created(schema, result) for result in found))


async def _create(
    request: request_types.CreateTopicsRequest, call: Call
) -> list[CreatableTopicResult]:
    counts = Counter(topic.name for topic in request.topics)
    names = [name for name, count in counts.items() if count == 1 and name != METADATA_TOPIC]
    permissions = call.permissions
    creatable = dict.fromkeys(names)
    if not permissions.allow_on_cluster(AclOperation.CREATE, log_if_denied=False):
        creatable = permissions.allowed_names(AclOperation.CREATE, ResourceType.TOPIC, names)
    describable = permissions.allowed_names(
        AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, names, log_if_denied=False
    )
    wanted = CreateTopicsRequest(
        topics=tuple(_creatable(topic) for topic in request.topics if topic.name in creatable),
        validate_only=field_or(request, "validate_only", False),
        describable=tuple(describable),
    )
    found = list(await call.ask(CreateTopics(wanted), milliseconds(request.timeout)))
    for name, count in counts.items():
        if count > 1:
            found.append(CreatableTopicResult(name, _DUPLICATE_NAME))
        elif name == METADATA_TOPIC:
            found.append(CreatableTopicResult(name, _INTERNAL_NAME))
        elif name not in creatable:
            found.append(CreatableTopicResult(name, _NOT_CREATABLE))
    return found


def _creatable(topic: request_types.CreatableTopic) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            CreatableReplicaAssignment(assignment.partition_index, tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _created(schema: ResponseSchema, result: CreatableTopicResult) -> Any:
    configs: tuple[Any, ...] = ()
    is_hidden = result.configs is None and not result.error.is_failure
    if result.configs is not None and schema.has("CreatableTopicConfigs"):
        configs = tuple(
            schema.part(
                "CreatableTopicConfigs",
                name=entry.name,
                value=None if entry.is_sensitive else entry.value,
                read_only=False,
                config_source=entry.source.value,
                is_sensitive=entry.is_sensitive,
            )
            for entry in result.configs
        )
    return schema.part(
        "CreatableTopicResult",
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error.error,
        error_message=result.error.message,
        topic_config_error_code=(
            ErrorCode.topic_authorization_failed if is_hidden else ErrorCode.none
        ),
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=configs,
    )


async def _create_partitions(
    request: request_types.CreatePartitionsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_PARTITIONS, call.version)
    try:
        results = await _create_allowed_partitions(request, call)
    except ApiException as error:
        results = [(topic.name, error.to_error()) for topic in request.topics]
    return schema.response(
        results=tuple(
            schema.part(
                "CreatePartitionsTopicResult",
                name=name,
                error_code=error.error,
                error_message=error.message,
            )
            for name, error in results
        )
    )


async def _create_allowed_partitions(
    request: request_types.CreatePartitionsRequest, call: Call
) -> list[tuple[str, ApiError]]:
    counts = Counter(topic.name for topic in request.topics)
    results = [(name, _DUPLICATE_NAME) for name, count in counts.items() if count > 1]
    names = [name for name, count in counts.items() if count == 1]
    allowed = call.permissions.allowed_names(AclOperation.ALTER, ResourceType.TOPIC, names)
    results += [(name, _NOT_ALTERABLE) for name in names if name not in allowed]
    wanted = tuple(
        CreatePartitionsTopic(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else tuple(tuple(new.broker_ids) for new in topic.assignments),
        )
        for topic in request.topics
        if topic.name in allowed
    )
    asked = CreatePartitions(wanted, request.validate_only)
    results += await call.ask(asked, milliseconds(request.timeout))
    return results


async def _elect_leaders(request: request_types.ElectLeadersRequest, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.ELECT_LEADERS, call.version)
    asked = request.topic_partitions
    partitions = None if asked is None else tuple((t.topic, tuple(t.partitions)) for t in asked)
    top_level = ErrorCode.none
    elected: tuple[ElectedTopic, ...]
    try:
        call.check()
        wanted = ElectLeaders(_election_type(request), partitions)
        elected = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        top_level = error.error
        elected = tuple(
            ElectedTopic(name, tuple((index, error.to_error()) for index in indexes))
            for name, indexes in partitions or ()
        )
    return schema.response(
        error_code=top_level,
        replica_election_results=tuple(
            schema.part(
                "ReplicaElectionResult",
                topic=topic.name,
                partition_result=_partition_results(schema, "PartitionResult", topic),
            )
            for topic in elected
        ),
    )


def _election_type(request: request_types.ElectLeadersRequest) -> ElectionType:
    code = field_or(request, "election_type", ElectionType.PREFERRED)
    try:
        return ElectionType(code)
    except ValueError:
        message = f"Unknown election type {code}"
        raise ApiException(ErrorCode.invalid_request, message) from None


def _partition_results(
    schema: ResponseSchema, class_name: str, topic: ElectedTopic | ReassignedTopic
) -> tuple[Any, ...]:
    """One result per partition; the two messages have different names for its index."""
    return tuple(
        schema.part(
            class_name,
            partition_id=index,
            partition_index=index,
            error_code=error.error,
            error_message=error.message,
        )
        for index, error in topic.partitions
    )


async def _alter_reassignments(
    request: request_types.AlterPartitionReassignmentsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_PARTITION_REASSIGNMENTS, call.version)
    wanted = AlterPartitionReassignments(tuple(map(_reassignable, request.topics)))
    failure = ApiError()
    topics: tuple[ReassignedTopic, ...]
    try:
        topics = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        failure = error.to_error()
        topics = tuple(
            ReassignedTopic(
                topic.name, tuple((each.partition_index, failure) for each in topic.partitions)
            )
            for topic in wanted.topics
        )
    return schema.response(
        error_code=failure.error,
        error_message=failure.message,
        responses=tuple(
            schema.part(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=_partition_results(schema, "ReassignablePartitionResponse", topic),
            )
            for topic in topics
        ),
    )


def _reassignable(topic: request_types.ReassignableTopic) -> ReassignableTopic:
    return ReassignableTopic(
        topic.name,
        tuple(
            ReassignablePartition(
                partition.partition_index,
                None if partition.replicas is None else tuple(partition.replicas),
            )
            for partition in topic.partitions
        ),
    )


async def _list_reassignments(
    request: request_types.ListPartitionReassignmentsRequest, call: Call
) -> ResponsePayload:
    schema = response_schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, call.version)
    wanted = ListReassignments(_listed(request.topics))
    failure = ApiError()
    topics: tuple[OngoingTopicReassignment, ...] = ()
    try:
        topics = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        failure = error.to_error()
    return schema.response(
        error_code=failure.error,
        error_message=failure.message,
        topics=tuple(
            schema.part(
                "OngoingTopicReassignment",
                name=topic.name,
                partitions=tuple(
                    schema.part(
                        "OngoingPartitionReassignment",
                        partition_index=partition.partition_index,
                        replicas=partition.replicas,
                        adding_replicas=partition.adding_replicas,
                        removing_replicas=partition.removing_replicas,
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in topics
        ),
    )


def _listed(
    topics: Iterable[request_types.ListPartitionReassignmentsTopics] | None,
) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    if topics is None:
        return None
    return tuple((topic.name, tuple(topic.partition_indexes)) for topic in topics)


TOPIC_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.CREATE_TOPICS: ControllerApi(0, 7, _create_topics, quota_is_strict_since=6),
    ApiKey.DELETE_TOPICS: ControllerApi(0, 6, delete_topics, quota_is_strict_since=5),
    ApiKey.CREATE_PARTITIONS: ControllerApi(0, 3, _create_partitions, quota_is_strict_since=3),
    ApiKey.ELECT_LEADERS: ControllerApi(0, 2, _elect_leaders, AclOperation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerApi(
        0, 0, _alter_reassignments, AclOperation.ALTER
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ControllerApi(
        0, 0, _list_reassignments, AclOperation.DESCRIBE
    ),
}
