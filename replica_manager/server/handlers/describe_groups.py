"""DescribeGroups (15): groups and their members.

Source: Kafka ``KafkaApis.handleDescribeGroupsRequest``.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.groups.requests import DescribedGroup, DescribeGroups, DescribeResult
from replica_manager.server.authorization import NOT_ASKED, allowed_names, authorized_operations
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.group_answers import write_describe
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation, ResourceType

API_KEY: Final = ApiKey.DESCRIBE_GROUPS
VERSIONS: Final = (0, 5)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """Those that the client may not see first, then the others."""
    described = allowed_names(
        broker, context, AclOperation.DESCRIBE, ResourceType.GROUP, request.groups
    )
    hidden = tuple(
        DescribedGroup(group_id, ErrorCode.group_authorization_failed)
        for group_id in request.groups
        if group_id not in described
    )
    group_ids = tuple(group_id for group_id in request.groups if group_id in described)
    asked = DescribeGroups(broker.groups.new_request_id(), group_ids)
    result = await broker.groups.ask(asked, DescribeResult)

    def operations(group_id: str) -> int:
        if not getattr(request, "include_authorized_operations", False):
            return NOT_ASKED
        return authorized_operations(broker, context, ResourceType.GROUP, group_id)

    return write_describe(DescribeResult(hidden + result.groups), context.api_version, operations)


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The code for every group."""
    groups = tuple(DescribedGroup(group_id, error) for group_id in request.groups)
    return write_describe(DescribeResult(groups), context.api_version)
