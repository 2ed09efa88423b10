"""Metadata (3): brokers, controller and topics from the metadata cache.

Missing topics are created if the client and ``auto.create.topics.enable`` allow it.  This broker
writes them to ZooKeeper itself, even if it is not the controller.

The response is encoded directly to bytes, in slices: a client may request 100,000 partitions, and
the event loop handles other requests in between.

Source: Kafka ``KafkaApis.handleTopicMetadataRequest``, ``ZkMetadataCache.getTopicMetadata``,
``DefaultAutoTopicCreationManager``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk_metadata import (
    TopicHead,
    metadata_body,
    metadata_partition_encoder,
    metadata_topic,
)
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kafka_common.topic_names import invalid_name_reason
from replica_manager.replication.zk_metadata_cache import MetadataSnapshot, PartitionMetadata
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import (
    NOT_ASKED,
    allowed_names,
    authorized_operations,
    cluster_operations,
    is_cluster_allowed,
)
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.error_counts import ErrorCounts
from replica_manager.server.slices import PIECE, in_slices
from replica_manager.server.topics.topic_creation import is_internal

API_KEY: Final = ApiKey.METADATA
VERSIONS: Final = (0, 12)
_TOPIC_IDS_IN_REQUEST_SINCE: Final = 12
_LISTENER_ERROR_SINCE: Final = 6
_NO_CONTROLLER: Final = -1
_NO_LEADER: Final = -1

_NONE: Final = ErrorCode.none.value
_LEADER_NOT_AVAILABLE: Final = ErrorCode.leader_not_available.value
_REPLICA_NOT_AVAILABLE: Final = ErrorCode.replica_not_available.value
_LISTENER_NOT_FOUND: Final = ErrorCode.listener_not_found.value


async def handle(
    request: request_types.MetadataRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody:
    """The response with the requested topics, and the brokers that have the client's listener."""
    described = _Topics(request, context, broker)
    topics = await described.describe()
    snapshot = broker.metadata_cache.snapshot
    controller_id = snapshot.controller_id
    is_cluster_asked = field_or(request, "include_cluster_authorized_operations", False)

    def body(throttle_ms: int) -> Sequence[bytes]:
        return metadata_body(
            context.api_version,
            brokers=[
                (live.broker_id, endpoint.host, endpoint.port, live.rack)
                for live in snapshot.live_brokers.values()
                if (endpoint := live.endpoint(context.listener_name)) is not None
            ],
            cluster_id=broker.cluster_id,
            controller_id=_NO_CONTROLLER if controller_id is None else controller_id,
            topics=topics,
            cluster_authorized_operations=cluster_operations(
                broker, context, is_asked=is_cluster_asked
            ),
            throttle_ms=throttle_ms,
        )

    return EncodedBody(body(0), errors=described.error_counts, throttled=body)


def refuse(
    request: request_types.MetadataRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every topic of the request."""
    schema = response_schema(API_KEY, context.api_version)
    topics = tuple(
        schema.part(
            "MetadataResponseTopic",
            error_code=error,
            # Before version 12, the response cannot have a null name.
            name=topic.name or "",
            topic_id=field_or(topic, "topic_id", None),
            is_internal=topic.name is not None and is_internal(topic.name),
            partitions=(),
            topic_authorized_operations=NOT_ASKED,
        )
        for topic in request.topics or ()
    )
    return schema.response(brokers=(), cluster_id=None, controller_id=_NO_CONTROLLER, topics=topics)


class _Topics:
    """The encoded topics of one response."""

    def __init__(
        self, request: request_types.MetadataRequest, context: RequestContext, broker: BrokerContext
    ) -> None:
        self._request = request
        self._context = context
        self._version = context.api_version
        self._broker = broker
        self._snapshot: MetadataSnapshot = broker.metadata_cache.snapshot
        self._encode = metadata_partition_encoder(context.api_version)
        self._reachable = {
            live.broker_id
            for live in self._snapshot.live_brokers.values()
            if live.endpoint(context.listener_name) is not None
        }
        # As in Kafka, auto-created topics count for the mutation quota, but do not throttle this
        # request.
        self._quota = broker.quotas.controller_mutation.of(
            context.client_id, is_strict=False, user=context.principal.name
        )
        self._described_count = 0
        """The number of topics and partitions encoded so far."""
        self._failures = Counter[int]()

    def error_counts(self) -> ErrorCounts:
        """How often each error code occurs in the response; call it after :meth:`describe`."""
        failures = {ErrorCode(error): count for error, count in self._failures.items()}
        return {ErrorCode.none: self._described_count - self._failures.total(), **failures}

    async def describe(self) -> list[bytes]:
        topics = self._request.topics
        if topics is None or (self._version == 0 and not topics):
            described = await self._described(list(self._snapshot.partitions), is_all=True)
            return await self._known(described)
        await self._check_names(topics)
        ids = {
            topic_id: None
            async for topic in in_slices(topics)
            if (topic_id := field_or(topic, "topic_id", None)) is not None
        }
        if ids:
            return await self._by_id(list(ids))
        names = {topic.name: None async for topic in in_slices(topics) if topic.name is not None}
        described = await self._described(list(names))
        known = await self._known(name for name in described if name in self._snapshot.partitions)
        missing = [name for name in described if name not in self._snapshot.partitions]
        # The error is the same for a missing topic: the client must not learn which topics exist.
        hidden = [
            self._unauthorized(name, None, is_internal=False)
            async for name in in_slices(names)
            if name not in described
        ]
        return known + await self._missing(missing) + hidden

    async def _described(self, names: Sequence[str], *, is_all: bool = False) -> dict[str, None]:
        """The topics in ``names`` that the client may describe."""
        return await allowed_names(
            self._broker,
            self._context,
            AclOperation.DESCRIBE,
            ResourceType.TOPIC,
            names,
            log_if_denied=not is_all,
        )

    def _unauthorized(self, name: str | None, topic_id: UUID | None, *, is_internal: bool) -> bytes:
        error = ErrorCode.topic_authorization_failed.value
        return self._bare_topic(TopicHead(error, name, topic_id, is_internal, NOT_ASKED))

    async def _check_names(self, topics: Sequence[request_types.MetadataRequestTopic]) -> None:
        if self._version >= _TOPIC_IDS_IN_REQUEST_SINCE:
            return
        async for topic in in_slices(topics):
            if topic.name is None:
                raise RequestRefused(
                    ErrorCode.invalid_request,
                    f"Topic name can not be null for version {self._version}",
                )
            if field_or(topic, "topic_id", None) is not None:
                raise RequestRefused(
                    ErrorCode.invalid_request,
                    f"Topic IDs are not supported in requests for version {self._version}",
                )

    async def _by_id(self, ids: Sequence[UUID]) -> list[bytes]:
        names = self._snapshot.topic_names
        unknown = [
            self._topic_without_partitions(None, topic_id, ErrorCode.unknown_topic_id, NOT_ASKED)
            async for topic_id in in_slices(ids)
            if topic_id not in names
        ]
        found = {names[topic_id]: topic_id for topic_id in ids if topic_id in names}
        described = await self._described(list(found))
        known = await self._known(name for name in described if name in self._snapshot.partitions)
        # The client sent the topic id, but may not learn the topic's name.
        hidden = [
            self._unauthorized(None, topic_id, is_internal=False)
            async for name, topic_id in in_slices(found.items())
            if name not in described
        ]
        return unknown + known + hidden

    async def _missing(self, names: Sequence[str]) -> list[bytes]:
        may_create = self._broker.config().is_enabled("auto.create.topics.enable") and field_or(
            self._request, "allow_auto_topic_creation", True
        )
        creatable = await self._creatable(names) if may_create and names else dict.fromkeys(names)
        errors = (
            await self._broker.auto_creation.create(list(creatable), self._quota.charge)
            if may_create and creatable
            else {name: _unknown_topic_error(name) async for name in in_slices(creatable)}
        )
        return [
            self._topic_without_partitions(
                name,
                None if may_create else self._snapshot.topic_ids.get(name),
                error,
                self._operations(name),
            )
            async for name, error in in_slices(errors.items())
        ] + [
            self._unauthorized(name, None, is_internal=is_internal(name))
            async for name in in_slices(names)
            if name not in creatable
        ]

    async def _creatable(self, names: Sequence[str]) -> dict[str, None]:
        """The topics in ``names`` that the client may create."""
        if is_cluster_allowed(
            self._broker, self._context, AclOperation.CREATE, log_if_denied=False
        ):
            return dict.fromkeys(names)
        return await allowed_names(
            self._broker, self._context, AclOperation.CREATE, ResourceType.TOPIC, names
        )

    async def _known(self, names: Iterable[str]) -> list[bytes]:
        return [await self._topic(name) async for name in in_slices(names)]

    async def _topic(self, name: str) -> bytes:
        head = TopicHead(
            ErrorCode.none.value,
            name,
            self._snapshot.topic_ids.get(name),
            is_internal(name),
            self._operations(name),
        )
        states = self._snapshot.partitions[name].items()
        partitions = (
            [self._partition(partition, state) for partition, state in states]
            if len(states) <= PIECE
            else [self._partition(*each) async for each in in_slices(states)]
        )
        self._described_count += 1 + len(partitions)
        return metadata_topic(self._version, head, partitions)

    def _topic_without_partitions(
        self, name: str | None, topic_id: UUID | None, error: ErrorCode, operations: int
    ) -> bytes:
        is_own = name is not None and is_internal(name)
        return self._bare_topic(TopicHead(error.value, name, topic_id, is_own, operations))

    def _bare_topic(self, head: TopicHead) -> bytes:
        self._described_count += 1
        if head.error_code != _NONE:
            self._failures[head.error_code] += 1
        return metadata_topic(self._version, head, ())

    def _operations(self, topic: str) -> int:
        if not field_or(self._request, "include_topic_authorized_operations", False):
            return NOT_ASKED
        return authorized_operations(self._broker, self._context, ResourceType.TOPIC, topic)

    def _partition(self, partition: int, state: PartitionMetadata) -> bytes:
        _, leader, leader_epoch, in_sync_replicas, _, replicas, offline_replicas = state
        if leader in self._reachable and self._version:
            return self._encode(
                _NONE, partition, leader, leader_epoch, replicas, in_sync_replicas, offline_replicas
            )
        error = _NONE
        if self._version == 0:
            replicas = self._reachable_only(replicas)
            in_sync_replicas = self._reachable_only(in_sync_replicas)
            if len(replicas) < len(state.replicas) or len(in_sync_replicas) < len(
                state.in_sync_replicas
            ):
                error = _REPLICA_NOT_AVAILABLE
        if leader not in self._reachable:
            is_live = leader in self._snapshot.live_brokers
            error = (
                _LISTENER_NOT_FOUND
                if is_live and self._version >= _LISTENER_ERROR_SINCE
                else _LEADER_NOT_AVAILABLE
            )
            leader = _NO_LEADER
        if error != _NONE:
            self._failures[error] += 1
        return self._encode(
            error, partition, leader, leader_epoch, replicas, in_sync_replicas, offline_replicas
        )

    def _reachable_only(self, brokers: tuple[int, ...]) -> tuple[int, ...]:
        """The brokers without those that lack the client's listener, for version 0."""
        return tuple(broker for broker in brokers if broker in self._reachable)


def _unknown_topic_error(name: str) -> ErrorCode:
    if invalid_name_reason(name) is not None:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition
