"""JoinGroup (11): a member joins a group and waits until the others have joined.

Source: Kafka ``KafkaApis.handleJoinGroupRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import JoinResult
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.group_requests import read_join
from replica_manager.server.group_responses import write_join
from replica_manager.server.large_responses import aside

API_KEY: Final = ApiKey.JOIN_GROUP
VERSIONS: Final = (0, 9)


async def handle(
    request: request_types.JoinGroupRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with the group's new generation; the leader's also has all members."""
    check_group(broker, context, AclOperation.READ, request.group_id)
    read = partial(
        read_join,
        request,
        broker.records.groups.new_request_id(),
        context.api_version,
        client_id=context.client_id,
        client_host=context.client_address,
    )
    asked = await aside(len(request.protocols), read)
    return write_join(await broker.records.groups.ask(asked, JoinResult), context.api_version)


def refuse(
    _request: request_types.JoinGroupRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``, without a generation and members."""
    return write_join(JoinResult(error), context.api_version)
