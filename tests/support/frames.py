"""The client's side of a connection: it writes headers of requests and reads those of responses."""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import request_header_version, response_header_version
from kafka_common.protocol.primitives import NO_TAGS, nullable_fixed_string
from kafka_common.protocol.wire_guard import skip_tagged_fields
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.server.context import BrokerContext
from replica_manager.server.dispatch import respond

_CORRELATION_ID: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")


def request_header(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None
) -> bytes:
    """The header in front of a request's body."""
    version = request_header_version(api_key, api_version)
    fixed = _REQUEST.pack(api_key, api_version, correlation_id)
    if version == 0:
        return fixed
    # Never a compact string, not even in version 2: any broker must find the correlation id.
    return fixed + nullable_fixed_string(client_id) + (NO_TAGS if version == 2 else b"")


def parse_response_header(api_key: int, api_version: int, data: bytes) -> tuple[int, int]:
    """The correlation id of a response, and where its body starts."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(data)
        position = _CORRELATION_ID.size
        if response_header_version(api_key, api_version) == 1:
            position = skip_tagged_fields(data, position)
    except (struct_error, IndexError):
        raise InvalidFrame("a response header ends too early") from None
    return correlation_id, position


async def response_frame(data: bytes, peer: Peer, broker: BrokerContext) -> ResponseFrame:
    """The frame of a broker's response to a request, which may have to wait for it."""
    begun = await respond(data, peer, broker)
    return begun if isinstance(begun, ResponseFrame) else await begun()
