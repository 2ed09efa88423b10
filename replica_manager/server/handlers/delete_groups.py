"""DeleteGroups (42): deletes groups without members, with their offsets.

Source: Kafka ``KafkaApis.handleDeleteGroupsRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import DeleteGroups, DeleteGroupsResult
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_responses import write_delete_groups
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import GROUPS_AT_ONCE, in_pieces

API_KEY: Final = ApiKey.DELETE_GROUPS
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.DeleteGroupsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each group, each group once."""
    group_ids = dict.fromkeys(request.groups_names)
    deletable = await allowed_names(
        broker, context, AclOperation.DELETE, ResourceType.GROUP, group_ids
    )
    errors: dict[str, ErrorCode] = {}
    async for piece in in_pieces(list(deletable), GROUPS_AT_ONCE):
        asked = DeleteGroups(broker.records.groups.new_request_id(), tuple(piece))
        errors |= (await broker.records.groups.ask(asked, DeleteGroupsResult)).errors
    refused = dict.fromkeys(
        (group_id for group_id in group_ids if group_id not in deletable),
        ErrorCode.group_authorization_failed,
    )
    result = DeleteGroupsResult({**errors, **refused})
    return await composed(
        len(result.errors), lambda: write_delete_groups(result, context.api_version)
    )


def refuse(
    request: request_types.DeleteGroupsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every group of the request."""
    return write_delete_groups(
        DeleteGroupsResult(dict.fromkeys(request.groups_names, error)), context.api_version
    )
