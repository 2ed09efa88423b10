"""LeaveGroup (13): members leave, or an administrator sends them away.

Source: Kafka ``KafkaApis.handleLeaveGroupRequest``.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.groups.requests import LeaveResult
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.group_answers import write_leave
from replica_manager.server.group_requests import read_leave
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation

API_KEY: Final = ApiKey.LEAVE_GROUP
VERSIONS: Final = (0, 5)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """What became of each member."""
    check_group(broker, context, AclOperation.READ, request.group_id)
    asked = read_leave(request, broker.groups.new_request_id())
    return write_leave(await broker.groups.ask(asked, LeaveResult), context.api_version)


def refuse(_request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The code at the top, nobody below."""
    return write_leave(LeaveResult(error), context.api_version)
