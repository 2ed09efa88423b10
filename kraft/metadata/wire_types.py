"""The types of Kafka's message schemas as a metadata record has them: bytes <-> values, and JSON.

Every record is *flexible* (KIP-482): a length is written as an unsigned varint of length + 1, and 0
means null.  A read never goes beyond the end of the bytes.  A count is refused if the remaining
bytes cannot hold that many items.  Malformed bytes raise IndexError, :class:`struct.error`,
:class:`UnicodeDecodeError` or InvalidFrame, which :mod:`.codec` turns into one error.

Source: Kafka ``MessageDataGenerator``, ``JsonConverterGenerator``.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import lru_cache
from struct import Struct
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafka_common.errors import InvalidFrame
from kafka_common.json_values import JsonValue
from kafka_common.protocol.primitives import MAX_STRING_BYTES, compact_length
from kafka_common.protocol.uuid_text import uuid_text
from kafka_common.protocol.wire_guard import read_unsigned_varint

UUID_CACHE_SIZE: Final = 50_000
"""A log of a million partitions has few distinct ids of topics and directories."""

_UUID_BYTES: Final = 16


class WireType(NamedTuple):
    """How values of one type are written, read and printed."""

    encode: Callable[[Any], bytes]
    decode: Callable[[bytes, int], tuple[Any, int]]
    """(data, position) to the value and the position behind it."""
    to_json: Callable[[Any], JsonValue]
    least_bytes: int = 1
    """No value is shorter."""


def _as_it_is(value: Any) -> Any:
    return value


def _number(code: str) -> WireType:
    layout = Struct(f">{code}")
    size, unpack = layout.size, layout.unpack_from

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return unpack(data, at)[0], at + size

    return WireType(layout.pack, decode, _as_it_is, size)


BOOL: Final = _number("?")
INT8: Final = _number("b")
INT16: Final = _number("h")
UINT16: Final = _number("H")
INT32: Final = _number("i")
INT64: Final = _number("q")
FLOAT64: Final = _number("d")


@lru_cache(maxsize=UUID_CACHE_SIZE)
def _uuid_of(raw: bytes) -> UUID:
    return UUID(bytes=raw)


def _decode_uuid(data: bytes, at: int) -> tuple[UUID, int]:
    end = _end(data, at, _UUID_BYTES)
    return _uuid_of(data[at:end]), end


UUID_TYPE: Final = WireType(lambda value: value.bytes, _decode_uuid, uuid_text, _UUID_BYTES)


def _end(data: bytes, at: int, size: int) -> int:
    if size > len(data) - at:
        raise InvalidFrame(f"{size} bytes announced, {max(len(data) - at, 0)} left")
    return at + size


def _size(data: bytes, at: int) -> tuple[int, int]:
    """A length that is not null, and the position behind it."""
    size = data[at]
    if 0 < size < 0x80:  # nearly always
        return size - 1, at + 1
    size, at = read_unsigned_varint(data, at)
    if size == 0:
        raise InvalidFrame("null where the schema has none")
    return size - 1, at


def _encode_string(value: str) -> bytes:
    raw = value.encode()
    if len(raw) > MAX_STRING_BYTES:
        raise ValueError(f"a string of {len(raw)} bytes, {MAX_STRING_BYTES} at most")
    return compact_length(len(raw)) + raw


def _decode_string(data: bytes, at: int) -> tuple[str, int]:
    size, at = _size(data, at)
    if size > MAX_STRING_BYTES:
        raise InvalidFrame(f"a string of {size} bytes, {MAX_STRING_BYTES} at most")
    end = _end(data, at, size)
    return str(data[at:end], "utf-8"), end


def _encode_bytes(value: bytes) -> bytes:
    return compact_length(len(value)) + value


def _decode_bytes(data: bytes, at: int) -> tuple[bytes, int]:
    size, at = _size(data, at)
    end = _end(data, at, size)
    return data[at:end], end


STRING: Final = WireType(_encode_string, _decode_string, _as_it_is)
BYTES: Final = WireType(_encode_bytes, _decode_bytes, lambda value: b64encode(value).decode())


def nullable(inner: WireType) -> WireType:
    """A string or an array that may be null."""

    def encode(value: Any) -> bytes:
        return b"\x00" if value is None else inner.encode(value)

    def decode(data: bytes, at: int) -> tuple[Any, int]:
        return (None, at + 1) if data[at] == 0 else inner.decode(data, at)

    def to_json(value: Any) -> JsonValue:
        return None if value is None else inner.to_json(value)

    return WireType(encode, decode, to_json)


def array(item: WireType) -> WireType:
    """A row of values, read as a tuple."""

    def encode(values: tuple[Any, ...]) -> bytes:
        return compact_length(len(values)) + b"".join(map(item.encode, values))

    def decode(data: bytes, at: int) -> tuple[tuple[Any, ...], int]:
        count, at = _size(data, at)
        _end(data, at, count * item.least_bytes)
        values = []
        for _ in range(count):
            value, at = item.decode(data, at)
            values.append(value)
        return tuple(values), at

    def to_json(values: tuple[Any, ...]) -> list[JsonValue]:
        return [item.to_json(value) for value in values]

    return WireType(encode, decode, to_json)


def _encode_int32s(values: tuple[int, ...]) -> bytes:
    return compact_length(len(values)) + _int32s(len(values)).pack(*values)


def _decode_int32s(data: bytes, at: int) -> tuple[tuple[int, ...], int]:
    count, at = _size(data, at)
    end = _end(data, at, count * INT32.least_bytes)
    return _int32s(count).unpack_from(data, at), end


@lru_cache(maxsize=64)
def _int32s(count: int) -> Struct:
    return Struct(f">{count}i")


INT32_ARRAY: Final = WireType(_encode_int32s, _decode_int32s, list)
"""Replicas are read at once: there are four such lists in every partition."""
