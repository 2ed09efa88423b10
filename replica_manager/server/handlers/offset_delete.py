"""OffsetDelete (47): deletes offsets of a group for topics without subscribers.

Source: Kafka ``KafkaApis.handleOffsetDeleteRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import DeleteOffsetsResult
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_partitions import (
    deleted,
    named_count,
    partitions_in_slices,
    refused_partitions,
)
from replica_manager.server.group_requests import read_delete_offsets
from replica_manager.server.group_responses import write_delete_offsets
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.OFFSET_DELETE
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.OffsetDeleteRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each partition, or one for the group."""
    check_group(broker, context, AclOperation.DELETE, request.group_id)
    partitions = await partitions_in_slices(request.topics)
    refused = await refused_partitions(partitions, context, broker)
    known = {each async for each in in_slices(partitions) if each not in refused}
    asked = await aside(
        named_count(request.topics),
        partial(read_delete_offsets, request, broker.records.groups.new_request_id(), known),
    )
    result = await deleted(asked, broker)
    if result.error is ErrorCode.none:
        result = DeleteOffsetsResult(ErrorCode.none, refused | dict(result.partitions))
    return await composed(
        len(result.partitions), lambda: write_delete_offsets(result, context.api_version)
    )


def refuse(
    _request: request_types.OffsetDeleteRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for the group."""
    return write_delete_offsets(DeleteOffsetsResult(error, {}), context.api_version)
