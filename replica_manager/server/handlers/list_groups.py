"""ListGroups (16): the groups that this broker coordinates.

Source: Kafka ``KafkaApis.handleListGroupsRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import ListGroupsResult
from replica_manager.server.authorization import allowed_names, is_cluster_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_requests import read_list
from replica_manager.server.group_responses import write_list
from replica_manager.server.large_responses import aside

API_KEY: Final = ApiKey.LIST_GROUPS
VERSIONS: Final = (0, 5)


async def handle(
    request: request_types.ListGroupsRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody:
    """The response with the groups that the client may describe.

    These are all groups if it may describe the cluster.
    """
    asked = read_list(request, broker.records.groups.new_request_id())
    result = await broker.records.groups.ask(asked, ListGroupsResult)
    if not is_cluster_allowed(broker, context, AclOperation.DESCRIBE, log_if_denied=False):
        described = await allowed_names(
            broker,
            context,
            AclOperation.DESCRIBE,
            ResourceType.GROUP,
            (group.group_id for group in result.groups),
            log_if_denied=False,
        )
        result = ListGroupsResult(
            result.error, tuple(each for each in result.groups if each.group_id in described)
        )
    return await aside(len(result.groups), lambda: write_list(result, context.api_version))


def refuse(
    _request: request_types.ListGroupsRequest, context: RequestContext, error: ErrorCode
) -> EncodedBody:
    """The response with ``error`` and no groups."""
    return write_list(ListGroupsResult(error, ()), context.api_version)
