"""The table of the controller's APIs, and the handling of a request.

Source: Kafka ``ControllerApis.handle``, ``AuthHelper.authorizeClusterOperation``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from kio.static.protocol import ResponsePayload

from kafka_common.api_error import ApiException
from kafka_common.errors import UnsupportedVersion
from kafka_common.protocol.api_versions import ApiKey, api
from kafka_common.protocol.framing import RequestHeader
from kafka_common.protocol.messages import read_request
from kafka_common.protocol.responses import write_response
from kraft.node.controller_apis.acls import ACL_APIS
from kraft.node.controller_apis.call import Call, ControllerApi
from kraft.node.controller_apis.clients import CLIENT_APIS
from kraft.node.controller_apis.cluster import CLUSTER_APIS
from kraft.node.controller_apis.configs import CONFIG_APIS
from kraft.node.controller_apis.describe_cluster import DESCRIBE_CLUSTER_APIS
from kraft.node.controller_apis.describe_configs import DESCRIBE_CONFIGS_APIS
from kraft.node.controller_apis.partitions import PARTITION_APIS
from kraft.node.controller_apis.tokens import TOKEN_APIS
from kraft.node.controller_apis.topics import TOPIC_APIS
from kraft.node.controller_apis.unhandled import UNHANDLED_APIS
from kraft.node.controller_apis.voters import VOTER_APIS
from replica_manager.server.context import EncodedBody
from replica_manager.server.large_responses import READ_ASIDE_BYTES
from replica_manager.server.throttled_responses import throttled

_APIS: Final[Mapping[int, ControllerApi]] = {
    **CLUSTER_APIS,
    **PARTITION_APIS,
    **TOPIC_APIS,
    **CONFIG_APIS,
    **CLIENT_APIS,
    **ACL_APIS,
    **DESCRIBE_CLUSTER_APIS,
    **DESCRIBE_CONFIGS_APIS,
    **TOKEN_APIS,
    **VOTER_APIS,
    **UNHANDLED_APIS,
}
ENVELOPE_VERSIONS: Final = (0, 0)

OFFERED_BY_CONTROLLER: Final[Mapping[int, tuple[int, int]]] = {
    **{key: (row.first_version, row.last_version) for key, row in _APIS.items()},
    ApiKey.ENVELOPE: ENVELOPE_VERSIONS,
}
"""The controller's APIs, besides the quorum's: first and last version by API key."""


class ResponseBody(NamedTuple):
    """The body of a response, and the throttle time, in which its connection is not read."""

    body: bytes
    throttle_ms: int = 0


async def respond(data: bytes, start: int, call: Call) -> ResponseBody:
    """The response to the request at ``start``; InvalidFrame if the request is malformed."""
    api_key = call.context.api_key
    if len(data) < READ_ASIDE_BYTES:
        request = read_request(api_key, call.version, data, start)
    else:
        request = await asyncio.to_thread(read_request, api_key, call.version, data, start)
    row = _APIS[api_key]
    if row.cluster_operation is not None:
        try:
            call.check_cluster(row.cluster_operation)
        except ApiException as refused:
            call = replace(call, refusal=refused)
    mutations, strict_since = call.services.mutations, row.quota_is_strict_since
    if mutations is None or strict_since is None:
        return ResponseBody(_written(await row.respond(request, call)))
    client = call.context
    is_strict = call.version >= strict_since
    quota = mutations.of(client.client_id, is_strict=is_strict, user=client.principal.name)
    response = await row.respond(request, replace(call, quota=quota))
    assert not isinstance(response, EncodedBody), "no API that has a quota"
    throttle_ms = quota.throttle_ms
    # A broker that forwarded the request throttles its client itself.
    mute_ms = 0 if client.is_forwarded else throttle_ms
    return ResponseBody(write_response(throttled(response, throttle_ms)), mute_ms)


def _written(response: ResponsePayload | EncodedBody) -> bytes:
    if not isinstance(response, EncodedBody):
        return write_response(response)
    [body] = response.chunks
    assert isinstance(body, bytes), "no records are sent"
    return body


def check_version(header: RequestHeader) -> None:
    """UnsupportedVersion for an API or version that is not offered."""
    first, last = OFFERED_BY_CONTROLLER.get(header.api_key, (0, -1))
    if not first <= header.api_version <= last:
        name = api(header.api_key).name
        raise UnsupportedVersion(f"{name} version {header.api_version} is not answered here")
