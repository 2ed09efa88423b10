"""ListOffsets (2): a partition's offset for a timestamp, or its first or last offset.

Source: Kafka ``KafkaApis.handleListOffsetRequest`` (KIP-79, KIP-207, KIP-734, KIP-1005).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.errors import ZkControllerError
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_code_for
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.log.log_values import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.offset_lookup import (
    READ_COMMITTED,
    READ_UNCOMMITTED,
    FoundOffset,
    OffsetReader,
    find_offset,
    legacy_offsets,
)
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.LIST_OFFSETS
VERSIONS: Final = (0, 9)

AT_ONCE: Final = 500
"""Partitions looked up before the handler yields to other tasks of the event loop: some 5 ms."""

_SPECIAL_SINCE: Final = {
    EARLIEST_TIMESTAMP: 0,
    LATEST_TIMESTAMP: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
}
_OFFSET_NOT_AVAILABLE_SINCE: Final = 5
_log = logging.getLogger("kafka.server.KafkaApis")


async def handle(
    request: request_types.ListOffsetsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per partition; unauthorized topics are at the end."""
    topics = request.topics
    allowed = await allowed_names(
        broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, [each.name for each in topics]
    )
    reader = OffsetReader(
        request.replica_id, field_or(request, "isolation_level", READ_UNCOMMITTED)
    )
    counts = Counter[TopicPartition]()
    async for topic in in_slices(topics):
        async for each in in_slices(topic.partitions):
            counts[TopicPartition(topic.name, each.partition_index)] += 1
    count = 0
    is_legacy = context.api_version == 0
    responses: list[tuple[str, list[tuple[int, FoundOffset]]]] = []
    for topic in topics:
        if topic.name not in allowed:
            continue
        found: list[tuple[int, FoundOffset]] = []
        for wanted in topic.partitions:
            tp = TopicPartition(topic.name, wanted.partition_index)
            if counts[tp] > 1 and not is_legacy:
                response = FoundOffset(ErrorCode.invalid_request)
            else:
                response = await _answer(tp, wanted, reader, context, broker)
            found.append((wanted.partition_index, response))
            count += 1
            if count % AT_ONCE == 0:
                await asyncio.sleep(0)
        responses.append((topic.name, found))
    denied = FoundOffset(ErrorCode.topic_authorization_failed)
    async for topic in in_slices(topics):
        if topic.name not in allowed:
            responses.append(
                (topic.name, [(each.partition_index, denied) for each in topic.partitions])
            )
            count += len(topic.partitions)
    # A partition that is named twice has two results, so count results and not partitions.
    return await composed(count, lambda: _response(context, responses))


def refuse(
    request: request_types.ListOffsetsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition of the request."""
    response = FoundOffset(error)
    return _response(
        context,
        [
            (topic.name, [(each.partition_index, response) for each in topic.partitions])
            for topic in request.topics
        ],
    )


async def _answer(
    tp: TopicPartition,
    wanted: request_types.ListOffsetsPartition,
    reader: OffsetReader,
    context: RequestContext,
    broker: BrokerContext,
) -> FoundOffset:
    timestamp, version = wanted.timestamp, context.api_version
    if timestamp < 0 and version < _SPECIAL_SINCE.get(timestamp, version + 1):
        return FoundOffset(ErrorCode.unsupported_version)
    if reader.is_client and reader.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return FoundOffset(ErrorCode.unknown_server_error)
    try:
        if version == 0:
            return legacy_offsets(
                broker, tp, timestamp, field_or(wanted, "max_num_offsets", 1), reader
            )
        epoch = field_or(wanted, "current_leader_epoch", NO_EPOCH)
        found = await find_offset(broker, tp, timestamp, reader, epoch)
    except RequestRefused as refused:
        found = FoundOffset(refused.error)
    except ZkControllerError as failure:
        _log.error("[KafkaApi-%d] Error while responding to offset request: %s",
                   broker.broker_id, failure)  # fmt: skip
        found = FoundOffset(error_code_for(failure))
    if found.error is ErrorCode.offset_not_available and version < _OFFSET_NOT_AVAILABLE_SINCE:
        return FoundOffset(ErrorCode.leader_not_available)
    return found


def _response(
    context: RequestContext, responses: list[tuple[str, list[tuple[int, FoundOffset]]]]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        topics=tuple(
            schema.part(
                "ListOffsetsTopicResponse",
                name=name,
                partitions=tuple(
                    schema.part(
                        "ListOffsetsPartitionResponse",
                        partition_index=index,
                        error_code=found.error,
                        timestamp=found.timestamp,
                        offset=found.offset,
                        leader_epoch=found.leader_epoch,
                        old_style_offsets=found.old_style_offsets,
                    )
                    for index, found in partitions
                ),
            )
            for name, partitions in responses
        )
    )
