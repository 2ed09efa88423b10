"""Metadata (3): brokers, controller and topics, out of the metadata cache.

Topics that do not exist are created on the way if the client allows it and so does
``auto.create.topics.enable``; this broker writes them to ZooKeeper itself, controller or not.

Source: Kafka ``KafkaApis.handleTopicMetadataRequest``, ``ZkMetadataCache.getTopicMetadata``,
``DefaultAutoTopicCreationManager``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.replication.metadata_cache import MetadataSnapshot, PartitionMetadata
from replica_manager.server.authorized_operations import (
    CLUSTER_OPERATIONS,
    NOT_ASKED,
    TOPIC_OPERATIONS,
)
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.errors import RequestRefused
from replica_manager.server.schema import ResponseSchema, response_schema
from replica_manager.server.topic_creation import invalid_name_reason, is_internal
from zkcontroller.protocol.api_versions import ApiKey

API_KEY: Final = ApiKey.METADATA
VERSIONS: Final = (0, 12)
_TOPIC_IDS_IN_REQUEST_SINCE: Final = 12
_LISTENER_ERROR_SINCE: Final = 6
_NO_CONTROLLER: Final = -1
_NO_LEADER: Final = -1


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """The topics asked for, all of them if none is named, and the brokers of the same listener."""
    topics = _Topics(request, context, broker)
    described = await topics.describe()
    snapshot = broker.metadata_cache.snapshot
    schema = topics.schema
    brokers = tuple(
        schema.part(
            "MetadataResponseBroker",
            node_id=live.broker_id,
            host=endpoint.host,
            port=endpoint.port,
            rack=live.rack,
        )
        for live in snapshot.live_brokers.values()
        if (endpoint := live.endpoint(context.listener_name)) is not None
    )
    controller_id = snapshot.controller_id
    return schema.response(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=_NO_CONTROLLER if controller_id is None else controller_id,
        topics=tuple(described),
        cluster_authorized_operations=(
            CLUSTER_OPERATIONS
            if getattr(request, "include_cluster_authorized_operations", False)
            else NOT_ASKED
        ),
    )


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """Every topic that was named, with that code."""
    schema = response_schema(API_KEY, context.api_version)
    # A null name, itself an error before version 12, cannot be repeated in those versions.
    topics = tuple(
        _topic_without_partitions(schema, topic.name or "", getattr(topic, "topic_id", None), error)
        for topic in request.topics or ()
    )
    return schema.response(brokers=(), cluster_id=None, controller_id=_NO_CONTROLLER, topics=topics)


class _Topics:
    """The topics part of one answer."""

    def __init__(self, request: Any, context: RequestContext, broker: BrokerContext) -> None:
        self._request = request
        self._version = context.api_version
        self._listener_name = context.listener_name
        self._broker = broker
        self._snapshot: MetadataSnapshot = broker.metadata_cache.snapshot
        self.schema = response_schema(API_KEY, context.api_version)

    async def describe(self) -> Sequence[Any]:
        request = self._request
        is_all = request.topics is None or (self._version == 0 and not request.topics)
        if is_all:
            return [self._topic(topic) for topic in self._snapshot.partitions]
        self._check_names(request.topics)
        ids = dict.fromkeys(
            topic_id
            for topic in request.topics
            if (topic_id := getattr(topic, "topic_id", None)) is not None
        )
        if ids:
            return self._by_id(list(ids))
        names = list(
            dict.fromkeys(topic.name for topic in request.topics if topic.name is not None)
        )
        known = [self._topic(name) for name in names if name in self._snapshot.partitions]
        missing = [name for name in names if name not in self._snapshot.partitions]
        return known + await self._missing(missing)

    def _check_names(self, topics: Sequence[Any]) -> None:
        if self._version >= _TOPIC_IDS_IN_REQUEST_SINCE:
            return
        for topic in topics:
            if topic.name is None:
                raise RequestRefused(
                    ErrorCode.invalid_request,
                    f"Topic name can not be null for version {self._version}",
                )
            if getattr(topic, "topic_id", None) is not None:
                raise RequestRefused(
                    ErrorCode.invalid_request,
                    f"Topic IDs are not supported in requests for version {self._version}",
                )

    def _by_id(self, ids: Sequence[UUID]) -> list[Any]:
        names = self._snapshot.topic_names
        unknown = [
            _topic_without_partitions(self.schema, None, topic_id, ErrorCode.unknown_topic_id)
            for topic_id in ids
            if topic_id not in names
        ]
        return unknown + [
            self._topic(names[topic_id])
            for topic_id in ids
            if topic_id in names and names[topic_id] in self._snapshot.partitions
        ]

    async def _missing(self, names: Sequence[str]) -> list[Any]:
        may_create = self._broker.config().is_enabled("auto.create.topics.enable") and getattr(
            self._request, "allow_auto_topic_creation", True
        )
        errors = (
            await self._broker.auto_creation.create(names)
            if may_create and names
            else {name: _why_unknown(name) for name in names}
        )
        return [
            _topic_without_partitions(
                self.schema,
                name,
                None if may_create else self._snapshot.topic_ids.get(name),
                error,
                operations=self._operations(),
            )
            for name, error in errors.items()
        ]

    def _topic(self, name: str) -> Any:
        return self.schema.part(
            "MetadataResponseTopic",
            error_code=ErrorCode.none,
            name=name,
            topic_id=self._snapshot.topic_ids.get(name),
            is_internal=is_internal(name),
            partitions=tuple(
                self._partition(partition, state)
                for partition, state in self._snapshot.partitions[name].items()
            ),
            topic_authorized_operations=self._operations(),
        )

    def _operations(self) -> int:
        is_asked = getattr(self._request, "include_topic_authorized_operations", False)
        return TOPIC_OPERATIONS if is_asked else NOT_ASKED

    def _partition(self, partition: int, state: PartitionMetadata) -> Any:
        replicas = self._shown(state.replicas)
        in_sync_replicas = self._shown(state.in_sync_replicas)
        leader = state.leader
        error = ErrorCode.none
        if self._snapshot.endpoint(leader, self._listener_name) is None:
            is_live = leader in self._snapshot.live_brokers
            error = (
                ErrorCode.listener_not_found
                if is_live and self._version >= _LISTENER_ERROR_SINCE
                else ErrorCode.leader_not_available
            )
            leader = _NO_LEADER
        elif len(replicas) < len(state.replicas) or len(in_sync_replicas) < len(
            state.in_sync_replicas
        ):
            error = ErrorCode.replica_not_available
        return self.schema.part(
            "MetadataResponsePartition",
            error_code=error,
            partition_index=partition,
            leader_id=leader,
            leader_epoch=state.leader_epoch,
            replica_nodes=replicas,
            isr_nodes=in_sync_replicas,
            offline_replicas=state.offline_replicas,
        )

    def _shown(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        """Version 0 leaves out brokers the client could not reach; later ones show them all."""
        if self._version > 0:
            return brokers
        return tuple(
            broker
            for broker in brokers
            if self._snapshot.endpoint(broker, self._listener_name) is not None
        )


def _why_unknown(name: str) -> ErrorCode:
    if invalid_name_reason(name) is not None:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition


def _topic_without_partitions(
    schema: ResponseSchema,
    name: str | None,
    topic_id: UUID | None,
    error: ErrorCode,
    *,
    operations: int = NOT_ASKED,
) -> Any:
    return schema.part(
        "MetadataResponseTopic",
        error_code=error,
        name=name,
        topic_id=topic_id,
        is_internal=name is not None and is_internal(name),
        partitions=(),
        topic_authorized_operations=operations,
    )
