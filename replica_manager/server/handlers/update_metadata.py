"""UpdateMetadata (6): updates this broker's metadata cache with the controller's metadata.

Source: Kafka ``KafkaApis.handleUpdateMetadataRequest``, ``UpdateMetadataRequest``.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import SECURITY_PROTOCOLS, Broker, Endpoint, TopicPartition
from kafka_common.protocol import bulk_reading, request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_request
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kafka_common.topic_names import invalid_name_reason
from replica_manager.replication.zk_metadata_cache import (
    MetadataUpdate,
    PartitionMetadata,
    TopicMetadata,
)
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.handlers.control_requests import (
    broker_epoch_of,
    is_from_kraft,
    is_stale,
)
from replica_manager.server.slices import all_in_pieces, all_in_slices, run_in_slices

_log = logging.getLogger("kafka.server.KafkaApis")

API_KEY: Final = ApiKey.UPDATE_METADATA
VERSIONS: Final = (0, 8)
_BY_TOPIC_SINCE: Final = 5
DELETED_AT_ONCE: Final = 5_000
"""Deleted partitions passed to the group coordinator in one step: some 5 ms."""


def read(version: int, data: bytes, offset: int) -> bulk_reading.UpdateMetadata[PartitionMetadata]:
    """Decodes the request; a faster decoder reads the topics if it supports the version."""
    if version in bulk_reading.VERSIONS:
        return bulk_reading.read_update_metadata(version, data, offset, PartitionMetadata._make)
    request: Any = read_request(API_KEY, version, data, offset)
    return bulk_reading.UpdateMetadata(request, list(_topics(request, version)))


async def handle(
    request: bulk_reading.UpdateMetadata[PartitionMetadata],
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """Updates the metadata cache, and wakes the requests that wait for changes of its topics."""
    if is_stale("UpdateMetadata", request.head, broker):
        return refuse(request, context, ErrorCode.stale_broker_epoch)
    topics = [
        TopicMetadata(*topic)
        async for topic in all_in_slices(request.topics)
        if _has_valid_name(topic.topic)
    ]
    version = context.api_version
    head = request.head
    live_brokers = [_broker(each, version) async for each in all_in_slices(head.live_brokers)]
    update = _decode(head, topics, live_brokers, version)
    replica_manager = broker.records.replica_manager
    async with replica_manager.replica_state_change_lock:
        error, deleted = await run_in_slices(
            replica_manager.update_metadata(update, context.correlation_id)
        )
    if deleted:
        await _delete_offsets(deleted, broker)
    if error is ErrorCode.none:
        broker.administration.topics.waiters.changed(topic.topic for topic in update.topics)
    async for topic in all_in_slices(request.topics):
        topic.partitions.clear()  # freed with the whole request they would hold the event loop
    return refuse(request, context, error)


async def _delete_offsets(deleted: Sequence[TopicPartition], broker: BrokerContext) -> None:
    """Removes the committed offsets of deleted partitions, some thousand partitions at a time.

    Each step logs a line and loops over every group.  All steps run, even if the controller has
    closed its connection.
    """
    async for piece in all_in_pieces(deleted, DELETED_AT_ONCE):
        broker.records.groups.on_partitions_deleted(piece)


def refuse(
    _request: bulk_reading.UpdateMetadata[PartitionMetadata],
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with only an error code."""
    return response_schema(API_KEY, context.api_version).response(error_code=error)


def _decode(
    request: request_types.UpdateMetadataRequest,
    topics: list[TopicMetadata],
    live_brokers: list[Broker],
    version: int,
) -> MetadataUpdate:
    return MetadataUpdate(
        api_version=version,
        controller_id=request.controller_id,
        controller_epoch=request.controller_epoch,
        broker_epoch=broker_epoch_of(request),
        topics=topics,
        live_brokers=live_brokers,
        is_kraft_controller=is_from_kraft(request),
        update_type=field_or(request, "type_", 0),
    )


def _has_valid_name(topic: str) -> bool:
    """Whether the topic has a valid name; a topic with an invalid one is logged and ignored."""
    reason = invalid_name_reason(topic)
    if reason is not None:
        _log.warning("Ignoring a topic of an UpdateMetadata request: %s", reason)
    return reason is None


def _topics(
    request: request_types.UpdateMetadataRequest, version: int
) -> Iterator[bulk_reading.Topic[PartitionMetadata]]:
    """The topics of a version that bulk_reading does not support, without topic ids."""
    if version >= _BY_TOPIC_SINCE:
        for topic in field_or(request, "topic_states", ()):
            states = [_partition(state) for state in topic.partition_states]
            yield bulk_reading.Topic(topic.topic_name, None, states)
        return
    by_topic: defaultdict[str, list[tuple[int, PartitionMetadata]]] = defaultdict(list)
    for state in field_or(request, "ungrouped_partition_states", ()):
        by_topic[field_or(state, "topic_name", "")].append(_partition(state))
    for name, states in by_topic.items():
        yield bulk_reading.Topic(name, None, states)


def _partition(state: Any) -> tuple[int, PartitionMetadata]:
    return state.partition_index, PartitionMetadata(
        state.controller_epoch,
        state.leader,
        state.leader_epoch,
        state.isr,
        state.zk_version,
        state.replicas,
        field_or(state, "offline_replicas", ()),
    )


def _broker(broker: request_types.UpdateMetadataBroker, version: int) -> Broker:
    if version == 0:
        endpoint = Endpoint(
            field_or(broker, "v0_host", ""),
            field_or(broker, "v0_port", 0),
            "PLAINTEXT",
            "PLAINTEXT",
        )
        return Broker(broker.id_, (endpoint,))
    return Broker(
        broker.id_,
        tuple(_endpoint(endpoint) for endpoint in field_or(broker, "endpoints", ())),
        field_or(broker, "rack", None),
    )


def _endpoint(endpoint: request_types.UpdateMetadataEndpoint) -> Endpoint:
    if not 0 <= endpoint.security_protocol < len(SECURITY_PROTOCOLS):
        raise RequestRefused(
            ErrorCode.unknown_server_error,
            f"no security protocol has the id {endpoint.security_protocol}",
        )
    protocol = SECURITY_PROTOCOLS[endpoint.security_protocol]
    # Before version 3, the listener name is the security protocol.
    listener_name = field_or(endpoint, "listener", protocol)
    return Endpoint(endpoint.host, endpoint.port, listener_name, protocol)
