"""Bodies of requests and responses: bytes to kio's message classes and back.

Malformed bytes raise :class:`~kafka_common.errors.InvalidFrame`, and a small input cannot make the
reader allocate much memory (:mod:`.wire_guard`).  Bytes after a message are ignored, as in Kafka.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import Final, TypeVar

from kio.index import KioIndexError, load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.serial.errors import SerialError
from kio.static.protocol import Entity, RequestPayload, ResponsePayload

from kafka_common.errors import InvalidFrame, UnsupportedVersion
from kafka_common.protocol.numeric_fields import with_numbers
from kafka_common.protocol.wire_guard import checked

E = TypeVar("E", bound=Entity)

_NUMERIC: Final = frozenset((38, 39, 40))
"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken."""


@cache
def request_type(api_key: int, version: int) -> type[RequestPayload]:
    """The class of a request; UnsupportedVersion if Kafka 3.9 has no such API or version."""
    try:
        return load_request_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(f"no request of API {api_key} version {version}") from None


@cache
def response_type(api_key: int, version: int) -> type[ResponsePayload]:
    """The class of a response; UnsupportedVersion if Kafka 3.9 has no such API or version."""
    try:
        return load_response_schema(api_key, version)
    except KioIndexError:
        raise UnsupportedVersion(f"no response of API {api_key} version {version}") from None


def read_type(api_key: int, version: int) -> type[RequestPayload]:
    """The class that a request is read as; UnsupportedVersion if Kafka 3.9 has no such request.

    In requests about delegation tokens durations are read as numbers of milliseconds, because a
    client may send a duration that is too large for kio's ``timedelta``.
    """
    kind = request_type(api_key, version)
    return with_numbers(kind) if api_key in _NUMERIC else kind


def read_request(api_key: int, version: int, buffer: bytes, offset: int = 0) -> RequestPayload:
    """The request that starts at ``offset``, of class :func:`read_type`.

    Raises InvalidFrame if it is malformed.  A handler annotates it with one of the
    :mod:`.request_types`.
    """
    return read(read_type(api_key, version), buffer, offset)


def read_response(api_key: int, version: int, buffer: bytes, offset: int = 0) -> ResponsePayload:
    """The response that starts at ``offset``; InvalidFrame if it is malformed."""
    return read(response_type(api_key, version), buffer, offset)


def read(entity_type: type[E], buffer: bytes, offset: int = 0) -> E:
    """The message of that class that starts at ``offset``; InvalidFrame if it is malformed."""
    data, start = checked(entity_type, buffer, offset)
    try:
        entity, _ = entity_reader(entity_type)(data, start)
    except (SerialError, ValueError, OverflowError, LookupError) as error:
        # OverflowError: a time or a duration that datetime or timedelta cannot hold.
        raise InvalidFrame(f"{entity_type.__name__}: {error}") from error
    return entity


def write(entity: Entity) -> bytes:
    """The bytes of a message; raises kio's error if a field cannot hold its value."""
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
