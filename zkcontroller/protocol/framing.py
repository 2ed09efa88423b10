"""Frames on a connection: four bytes of size, a header, a body.

:class:`FrameSplitter` turns whatever arrives into frames; the functions below read and write
headers.  Header versions follow from the API and its version
(:func:`~zkcontroller.protocol.api_versions.request_header_version`).
Source: Kafka ``NetworkReceive``, ``RequestHeader``, ``ResponseHeader``.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from struct import error as struct_error
from typing import Final, NamedTuple

from zkcontroller.errors import InvalidFrame
from zkcontroller.protocol.api_versions import request_header_version, response_header_version
from zkcontroller.protocol.primitives import NO_TAGS, nullable_fixed_string
from zkcontroller.protocol.wire_guard import skip_tagged_fields

MAX_FRAME_BYTES: Final = 100 * 1024 * 1024
"""Default of Kafka's ``socket.request.max.bytes``."""

_SIZE: Final = Struct(">i")
_REQUEST: Final = Struct(">hhi")
_INT16: Final = Struct(">h")


class FrameSplitter:
    """Takes bytes as they arrive, gives frames as they are complete (each without its size).

    ``max_frame_bytes`` may be changed between calls: a listener with SASL allows less before login.
    After an InvalidFrame nothing more can be read from the connection.
    """

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray()

    @property
    def pending_bytes(self) -> int:
        """How much has arrived of frames that are not complete."""
        return len(self._buffer)

    def feed(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """The frames that ``data`` completes; InvalidFrame for a size that is not allowed."""
        buffer = self._buffer
        buffer += data
        frames: list[bytes] = []
        position = 0
        while len(buffer) - position >= _SIZE.size:
            (size,) = _SIZE.unpack_from(buffer, position)
            if not 0 <= size <= self.max_frame_bytes:
                raise InvalidFrame(f"a frame of {size} bytes, {self.max_frame_bytes} are allowed")
            end = position + _SIZE.size + size
            if end > len(buffer):
                break
            frames.append(bytes(buffer[position + _SIZE.size : end]))
            position = end
        del buffer[:position]
        return frames


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
    """None where the header has none; Kafka treats that as the empty name."""


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


def parse_request_header(data: bytes) -> tuple[RequestHeader, int]:
    """The header of a request, and where its body starts.

    UnsupportedVersion (an InvalidFrame) if Kafka 3.9 has no such API.  The version is not checked:
    that is for :func:`~zkcontroller.protocol.api_versions.check_version`.
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
        # Java replaces what is not UTF-8, too; a name is no reason to close a connection.
        client_id = data[start:end].decode("utf-8", "replace") if size >= 0 else None
        position = skip_tagged_fields(data, end) if version == 2 else end
    except (struct_error, IndexError):
        raise InvalidFrame("a request header ends too early") from None
    return RequestHeader(api_key, api_version, correlation_id, client_id), position


def response_header(api_key: int, api_version: int, correlation_id: int) -> bytes:
    """The header in front of a response's body."""
    tags = NO_TAGS if response_header_version(api_key, api_version) == 1 else b""
    return _SIZE.pack(correlation_id) + tags


def parse_response_header(api_key: int, api_version: int, data: bytes) -> tuple[int, int]:
    """The correlation id of a response, and where its body starts."""
    try:
        (correlation_id,) = _SIZE.unpack_from(data)
        position = _SIZE.size
        if response_header_version(api_key, api_version) == 1:
            position = skip_tagged_fields(data, position)
    except (struct_error, IndexError):
        raise InvalidFrame("a response header ends too early") from None
    return correlation_id, position
