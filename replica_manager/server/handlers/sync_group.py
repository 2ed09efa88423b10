"""SyncGroup (14): distributes the group leader's assignment to the members.

Source: Kafka ``KafkaApis.handleSyncGroupRequest``.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.coordinators.groups.requests import SyncResult
from replica_manager.request_errors import RequestRefused
from replica_manager.server.authorization import check_group
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.group_requests import lacks_protocol, read_sync
from replica_manager.server.group_responses import write_sync
from replica_manager.server.large_responses import aside

API_KEY: Final = ApiKey.SYNC_GROUP
VERSIONS: Final = (0, 5)


async def handle(
    request: request_types.SyncGroupRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with the member's assignment, once the leader has sent it."""
    if lacks_protocol(request, context.api_version):
        raise RequestRefused(ErrorCode.inconsistent_group_protocol)
    check_group(broker, context, AclOperation.READ, request.group_id)
    asked = await aside(
        len(request.assignments),
        partial(read_sync, request, broker.records.groups.new_request_id()),
    )
    return write_sync(await broker.records.groups.ask(asked, SyncResult), context.api_version)


def refuse(
    _request: request_types.SyncGroupRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` and no assignment."""
    return write_sync(SyncResult(error), context.api_version)
