"""Frames on a connection: four bytes of size, a header, a body.

The functions below read the header of a request and write that of a response; a listener cuts the
frames (:mod:`replica_manager.network.connection`).  Header versions follow from the API and its
version (:func:`~kafka_common.protocol.api_versions.request_header_version`).
Source: Kafka ``NetworkReceive``, ``RequestHeader``, ``ResponseHeader``.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.api_versions import request_header_version, response_header_version
from kafka_common.protocol.primitives import NO_TAGS
from kafka_common.protocol.wire_guard import skip_tagged_fields

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Default of Kafka's ``socket.request.max.bytes``."""

_SIZE: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
_INT16: Final = Struct(">h")


def frame(chunks: Iterable[bytes]) -> bytes:
    """The chunks, headers included, as one frame with its size in front."""
    payload = b"".join(chunks)
    return _SIZE.pack(len(payload)) + payload


class RequestHeader(NamedTuple):
    """API key, version, correlation id and client id of a request."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    """None if the header has no client id; Kafka treats that as an empty one."""


def parse_request_header(data: bytes) -> tuple[RequestHeader, int]:
    """The header of a request, and the position where its body starts.

    Raises UnsupportedVersion (an InvalidFrame) if Kafka 3.9 has no such API.  The caller must check
    the version.
    """
    try:
        api_key, api_version, correlation_id = _REQUEST.unpack_from(data)
        version = request_header_version(api_key, api_version)
        if version == 0:
            return RequestHeader(api_key, api_version, correlation_id, None), _REQUEST.size
        (size,) = _INT16.unpack_from(data, _REQUEST.size)
        start = _REQUEST.size + _INT16.size
        end = start + max(size, 0)
        if size < -1 or end > len(data):
            raise InvalidFrame(f"a client id of {size} bytes")
        # Invalid UTF-8 is replaced, as in Java: a bad client id must not close the connection.
        client_id = data[start:end].decode("utf-8", "replace") if size >= 0 else None
        position = skip_tagged_fields(data, end) if version == 2 else end
    except (struct_error, IndexError):
        raise InvalidFrame("a request header ends too early") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header in front of a response's body."""
    tags = NO_TAGS if response_header_version(api_key, api_version) == 1 else b""
    return _SIZE.pack(correlation_id) + tags
