"""Encodes the smallest parts of the wire format: varints, strings and int32 arrays.

Two encodings exist: the *flexible* one of KIP-482 (compact lengths, tagged fields at the end of
each structure) and the older *fixed* one.  Callers choose with :func:`pieces` before their loops.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Final, NamedTuple
from uuid import UUID

NO_TAGS: Final = b"\x00"
"""An empty tagged-field section."""

ZERO_UUID: Final = bytes(16)

MAX_STRING_BYTES: Final = 0x7FFF
"""The longest string that Kafka reads, also where a compact length could be larger."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")

INT32_ARRAY_CACHE_SIZE: Final = 50_000


def unsigned_varint(value: int) -> bytes:
    """The number as a varint: seven bits per byte, least significant first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def compact_length(count: int) -> bytes:
    """Length of a compact string or array: one more than its size, because 0 means null."""
    return _ONE_BYTE[count + 1] if count < len(_ONE_BYTE) - 1 else unsigned_varint(count + 1)


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def compact_string(text: str) -> bytes:
    raw = text.encode()
    return compact_length(len(raw)) + raw


def nullable_compact_string(text: str | None) -> bytes:
    return b"\x00" if text is None else compact_string(text)


def fixed_string(text: str) -> bytes:
    raw = text.encode()
    return _INT16.pack(len(raw)) + raw


def nullable_fixed_string(text: str | None) -> bytes:
    return b"\xff\xff" if text is None else fixed_string(text)


def uuid_bytes(uuid: UUID | None) -> bytes:
    """Sixteen bytes; all zero when there is no id, as Kafka's ``Uuid.ZERO_UUID``."""
    return ZERO_UUID if uuid is None else uuid.bytes


class Int32Arrays(dict[tuple[int, ...], bytes]):
    """A cache of encoded arrays: a cluster of a million partitions has few distinct replica lists.

    It is cleared when it has INT32_ARRAY_CACHE_SIZE entries.
    """

    __slots__ = ("_length",)

    def __init__(self, length: Callable[[int], bytes]) -> None:
        super().__init__()
        self._length = length

    def __missing__(self, values: tuple[int, ...]) -> bytes:
        if len(self) >= INT32_ARRAY_CACHE_SIZE:
            self.clear()
        encoded = self._length(len(values)) + Struct(f">{len(values)}i").pack(*values)
        self[values] = encoded
        return encoded


class Pieces(NamedTuple):
    """Writes lengths, strings and int32 arrays in the flexible or the fixed encoding.

    ``tags`` ends a structure: an empty tagged-field section, or nothing in the fixed encoding.
    """

    length: Callable[[int], bytes]
    string: Callable[[str], bytes]
    nullable_string: Callable[[str | None], bytes]
    int32_array: Int32Arrays
    tags: bytes


_FLEXIBLE: Final = Pieces(
    compact_length, compact_string, nullable_compact_string, Int32Arrays(compact_length), NO_TAGS
)
_FIXED: Final = Pieces(
    _INT32.pack, fixed_string, nullable_fixed_string, Int32Arrays(_INT32.pack), b""
)


def pieces(*, is_flexible: bool) -> Pieces:
    return _FLEXIBLE if is_flexible else _FIXED
