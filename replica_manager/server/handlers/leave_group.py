"""LeaveGroup (13): members leave a group, or an administrator removes them.

Source: Kafka ``KafkaApis.handleLeaveGroupRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from msgspec.structs import replace

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from replica_manager.coordinators.groups.requests import LeaveResult, LeftMember
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.group_requests import read_leave
from replica_manager.server.group_responses import write_leave
from replica_manager.server.large_responses import aside, composed
from replica_manager.server.slices import in_pieces

API_KEY: Final = ApiKey.LEAVE_GROUP
VERSIONS: Final = (0, 5)


async def handle(
    request: request_types.LeaveGroupRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per member."""
    check_group(broker, context, AclOperation.READ, request.group_id)
    count = len(field_or(request, "members", ()))
    asked = await aside(count, partial(read_leave, request, broker.records.groups.new_request_id()))
    error, members = ErrorCode.none, list[LeftMember]()
    async for piece in in_pieces(asked.members):
        part = replace(
            asked, request_id=broker.records.groups.new_request_id(), members=tuple(piece)
        )
        result = await broker.records.groups.ask(part, LeaveResult)
        error = result.error
        if error is not ErrorCode.none:
            break
        members += result.members
    left = LeaveResult(error, tuple(members))
    return await composed(len(members), lambda: write_leave(left, context.api_version))


def refuse(
    _request: request_types.LeaveGroupRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``, without members."""
    return write_leave(LeaveResult(error), context.api_version)
