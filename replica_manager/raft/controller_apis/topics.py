"""Administration of topics: created, deleted, grown, moved, led by others.

Source: Kafka ``ControllerApis.createTopics``, ``deleteTopics``, ``createPartitions``,
``handleElectLeaders``, ``handleAlterPartitionReassignments``, ``handleListPartitionReassignments``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.raft.controller_apis.call import (
    ZERO_UUID,
    Call,
    ControllerApi,
    milliseconds,
    uuid_or_zero,
)
from replica_manager.server.schema import ResponseSchema, response_schema
from zkcontroller.kraft.controller.api_error import ApiError, ApiException
from zkcontroller.kraft.controller.leader_elections import ElectedTopic, ElectionType
from zkcontroller.kraft.controller.quorum_controller_requests import (
    AlterPartitionReassignments,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    FindTopicIds,
    FindTopicNames,
    ListPartitionReassignments,
)
from zkcontroller.kraft.controller.reassignment_control import (
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
    ReassignedTopic,
)
from zkcontroller.kraft.controller.topic_requests import (
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    ReplicaAssignment,
)
from zkcontroller.kraft.values import METADATA_TOPIC
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation

_TOPICS_BY_ID_SINCE: Final = 6
_DUPLICATE_NAME: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic name.")
_DUPLICATE_ID: Final = ApiError(ErrorCode.invalid_request, "Duplicate topic id.")


async def _create_topics(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_TOPICS, call.version)
    refused = _not_creatable([topic.name for topic in request.topics])
    wanted = CreateTopicsRequest(
        topics=tuple(_creatable(topic) for topic in request.topics if topic.name not in refused),
        validate_only=getattr(request, "validate_only", False),
        describable=tuple(topic.name for topic in request.topics),
    )
    found = [CreatableTopicResult(name, error) for name, error in refused.items()]
    try:
        found += await call.ask(CreateTopics(wanted), milliseconds(request.timeout))
    except ApiException as error:
        found += [CreatableTopicResult(topic.name, error.to_error()) for topic in wanted.topics]
    return schema.response(topics=tuple(_created(schema, result) for result in found))


def _not_creatable(names: list[str]) -> dict[str, ApiError]:
    refused = {name: _DUPLICATE_NAME for name, count in Counter(names).items() if count > 1}
    if METADATA_TOPIC in names:
        message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
        refused[METADATA_TOPIC] = ApiError(ErrorCode.invalid_request, message)
    return refused


def _creatable(topic: Any) -> CreatableTopic:
    return CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=tuple(
            ReplicaAssignment(assignment.partition_index, tuple(assignment.broker_ids))
            for assignment in topic.assignments
        ),
        configs=tuple((config.name, config.value) for config in topic.configs),
    )


def _created(schema: ResponseSchema, result: CreatableTopicResult) -> Any:
    configs = None
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
        topic_config_error_code=ErrorCode.none,
        num_partitions=result.num_partitions,
        replication_factor=result.replication_factor,
        configs=configs,
    )


class _Deletion:
    """The topics of one DeleteTopics request, and what becomes of each."""

    def __init__(self, request: Any, call: Call) -> None:
        self._call = call
        self._timeout_ms = milliseconds(request.timeout)
        self.results: list[tuple[str | None, UUID, ApiError]] = []
        if call.version >= _TOPICS_BY_ID_SINCE:
            self.names = [topic.name for topic in request.topics if topic.name is not None]
            self.ids = [uuid_or_zero(t.topic_id) for t in request.topics if t.name is None]
        else:
            self.names, self.ids = list(request.topic_names), []

    async def run(self) -> None:
        to_delete = await self._find()
        if not to_delete:
            return
        verdicts = await self._call.ask(DeleteTopics(tuple(to_delete)), self._timeout_ms)
        for topic_id, error in verdicts.items():
            self.results.append((to_delete[topic_id], topic_id, error))

    async def _find(self) -> dict[UUID, str]:
        """Names by id of what can be deleted; the rest has its result."""
        names, ids = Counter(self.names), Counter(self.ids)
        for name, count in names.items():
            if count > 1:
                self.results.append((name, ZERO_UUID, _DUPLICATE_NAME))
        for topic_id, count in ids.items():
            if count > 1:
                self.results.append((None, topic_id, _DUPLICATE_ID))
        once = tuple(name for name, count in names.items() if count == 1)
        once_ids = tuple(topic_id for topic_id, count in ids.items() if count == 1)
        found: dict[UUID, str] = {}
        by_name: Mapping[str, UUID | ApiError] = await self._call.ask(FindTopicIds(once))
        for name, topic in by_name.items():
            if isinstance(topic, ApiError):
                self.results.append((name, ZERO_UUID, topic))
            else:
                found[topic] = name
        by_id: Mapping[UUID, str | ApiError] = await self._call.ask(FindTopicNames(once_ids))
        for topic_id, named in by_id.items():
            if isinstance(named, ApiError):
                self.results.append((None, topic_id, named))
            elif topic_id in found:
                # Once by name and once by id.
                del found[topic_id]
                self.results.append((named, topic_id, _DUPLICATE_ID))
            else:
                found[topic_id] = named
        return found


async def _delete_topics(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.DELETE_TOPICS, call.version)
    deletion = _Deletion(request, call)
    try:
        await deletion.run()
        results = deletion.results
    except ApiException as error:
        results = [(name, ZERO_UUID, error.to_error()) for name in deletion.names]
        results += [(None, topic_id, error.to_error()) for topic_id in deletion.ids]
    return schema.response(
        responses=tuple(
            schema.part(
                "DeletableTopicResult",
                name=name,
                topic_id=topic_id,
                error_code=error.error,
                error_message=error.message,
            )
            for name, topic_id, error in results
        )
    )


async def _create_partitions(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.CREATE_PARTITIONS, call.version)
    counts = Counter(topic.name for topic in request.topics)
    results = [(name, _DUPLICATE_NAME) for name, count in counts.items() if count > 1]
    wanted = tuple(
        CreatePartitionsTopic(
            topic.name,
            topic.count,
            None
            if topic.assignments is None
            else tuple(tuple(new.broker_ids) for new in topic.assignments),
        )
        for topic in request.topics
        if counts[topic.name] == 1
    )
    try:
        results += await call.ask(
            CreatePartitions(wanted, request.validate_only), milliseconds(request.timeout)
        )
    except ApiException as error:
        results += [(topic.name, error.to_error()) for topic in wanted]
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


async def _elect_leaders(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.ELECT_LEADERS, call.version)
    asked = request.topic_partitions
    wanted = ElectLeaders(
        ElectionType(getattr(request, "election_type", ElectionType.PREFERRED)),
        None if asked is None else tuple((t.topic, tuple(t.partitions)) for t in asked),
    )
    top_level = ErrorCode.none
    elected: tuple[ElectedTopic, ...] = ()
    try:
        elected = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        top_level = error.error
    return schema.response(
        error_code=top_level,
        replica_election_results=tuple(
            schema.part(
                "ReplicaElectionResult",
                topic=topic.name,
                partition_result=_verdicts(schema, "PartitionResult", topic),
            )
            for topic in elected
        ),
    )


def _verdicts(
    schema: ResponseSchema, class_name: str, topic: ElectedTopic | ReassignedTopic
) -> tuple[Any, ...]:
    """A row for each partition, which one message calls by its id and the other by its index."""
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


async def _alter_reassignments(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.ALTER_PARTITION_REASSIGNMENTS, call.version)
    wanted = AlterPartitionReassignments(tuple(map(_reassignable, request.topics)))
    failure = ApiError()
    topics: tuple[ReassignedTopic, ...] = ()
    try:
        topics = await call.ask(wanted, milliseconds(request.timeout))
    except ApiException as error:
        failure = error.to_error()
    return schema.response(
        error_code=failure.error,
        error_message=failure.message,
        responses=tuple(
            schema.part(
                "ReassignableTopicResponse",
                name=topic.name,
                partitions=_verdicts(schema, "ReassignablePartitionResponse", topic),
            )
            for topic in topics
        ),
    )


def _reassignable(topic: Any) -> ReassignableTopic:
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


async def _list_reassignments(request: Any, call: Call) -> ResponsePayload:
    schema = response_schema(ApiKey.LIST_PARTITION_REASSIGNMENTS, call.version)
    wanted = ListPartitionReassignments(_listed(request.topics))
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


def _listed(topics: Iterable[Any] | None) -> tuple[tuple[str, tuple[int, ...]], ...] | None:
    if topics is None:
        return None
    return tuple((topic.name, tuple(topic.partition_indexes)) for topic in topics)


TOPIC_APIS: Final[Mapping[int, ControllerApi]] = {
    ApiKey.CREATE_TOPICS: ControllerApi(2, 7, _create_topics),
    ApiKey.DELETE_TOPICS: ControllerApi(1, 6, _delete_topics),
    ApiKey.CREATE_PARTITIONS: ControllerApi(0, 3, _create_partitions),
    ApiKey.ELECT_LEADERS: ControllerApi(0, 2, _elect_leaders, AclOperation.ALTER),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: ControllerApi(
        0, 0, _alter_reassignments, AclOperation.ALTER
    ),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: ControllerApi(
        0, 0, _list_reassignments, AclOperation.DESCRIBE
    ),
}
