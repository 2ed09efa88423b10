"""Heartbeat (12): renews a member's session; the error says whether to rejoin.

Source: Kafka ``KafkaApis.handleHeartbeatRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import HeartbeatResult
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.group_requests import read_heartbeat
from replica_manager.server.group_responses import write_heartbeat

API_KEY: Final = ApiKey.HEARTBEAT
VERSIONS: Final = (0, 4)


async def handle(
    request: request_types.HeartbeatRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with the error of the heartbeat."""
    check_group(broker, context, AclOperation.READ, request.group_id)
    asked = read_heartbeat(request, broker.records.groups.new_request_id())
    return write_heartbeat(
        await broker.records.groups.ask(asked, HeartbeatResult), context.api_version
    )


def refuse(
    _request: request_types.HeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``."""
    return write_heartbeat(HeartbeatResult(error), context.api_version)
