"""DescribeGroups (15): groups and their members.

Source: Kafka ``KafkaApis.handleDescribeGroupsRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from replica_manager.coordinators.groups.requests import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResult,
)
from replica_manager.server.authorization import NOT_ASKED, allowed_names, authorized_operations
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_responses import write_describe
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_pieces, in_slices

API_KEY: Final = ApiKey.DESCRIBE_GROUPS
VERSIONS: Final = (0, 5)


async def handle(
    request: request_types.DescribeGroupsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with each group once; the groups that the client may not describe are first."""
    names = dict.fromkeys(request.groups)
    described = await allowed_names(
        broker, context, AclOperation.DESCRIBE, ResourceType.GROUP, names
    )
    groups = [
        DescribedGroup(group_id, ErrorCode.group_authorization_failed)
        async for group_id in in_slices(names)
        if group_id not in described
    ]
    async for piece in in_pieces(tuple(described)):
        asked = DescribeGroups(broker.records.groups.new_request_id(), tuple(piece))
        groups += (await broker.records.groups.ask(asked, DescribeGroupsResult)).groups
    operations: dict[str, int] = {}
    if field_or(request, "include_authorized_operations", False):
        operations = {
            name: authorized_operations(broker, context, ResourceType.GROUP, name)
            async for name in in_slices(described)
        }
    count = sum(1 + len(group.members) for group in groups)
    return await composed(
        count,
        lambda: write_describe(
            DescribeGroupsResult(tuple(groups)),
            context.api_version,
            lambda group_id: operations.get(group_id, NOT_ASKED),
        ),
    )


def refuse(
    request: request_types.DescribeGroupsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every group of the request."""
    groups = tuple(DescribedGroup(group_id, error) for group_id in request.groups)
    return write_describe(DescribeGroupsResult(groups), context.api_version)
