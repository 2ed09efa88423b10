"""Bodies of requests and responses: bytes to kio's message classes and back.

Whatever is wrong with the bytes, the caller sees :class:`~kafka_common.errors.InvalidFrame`, and no
input can make the reader allocate more than the input justifies (:mod:`.wire_guard`).  Bytes behind
a message are ignored, as Kafka does.
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
    """The class that a request is read as; UnsupportedVersion if there is none.

    The durations in requests about delegation tokens are numbers of milliseconds: a client may ask
    for any, and kio's durations do not hold the largest.
    """
    kind = request_type(api_key, version)
    return with_numbers(kind) if api_key in _NUMERIC else kind


def read_request(api_key: int, version: int, buffer: bytes, offset: int = 0) -> RequestPayload:
    """The request that starts at ``offset``, of its :func:`read_type`; InvalidFrame if none does.

    For a handler it is one of the :mod:`.request_types`.
    """
    return read(read_type(api_key, version), buffer, offset)


def read_response(api_key: int, version: int, buffer: bytes, offset: int = 0) -> ResponsePayload:
    """The response that starts at ``offset``; InvalidFrame if none does."""
    return read(response_type(api_key, version), buffer, offset)


def read(entity_type: type[E], buffer: bytes, offset: int = 0) -> E:
    """The message of that class that starts at ``offset``; InvalidFrame if none does."""
    data, start = checked(entity_type, buffer, offset)
    try:
        entity, _ = entity_reader(entity_type)(data, start)
    except (SerialError, ValueError, OverflowError, LookupError) as error:
        # Overflow: a point in time or a duration beyond what datetime holds.
        raise InvalidFrame(f"{entity_type.__name__}: {error}") from error
    return entity


def write(entity: Entity) -> bytes:
    """The bytes of a message.  A value that its field cannot hold is the caller's mistake."""
    buffer = BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
