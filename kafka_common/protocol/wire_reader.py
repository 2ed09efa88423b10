"""Reads one message field by field, in the fixed or in the flexible encoding.

It is for messages that are too frequent or too large for a message library.  No memory is reserved
by an announced count: items are read one by one.  A message that ends too early raises IndexError,
:class:`struct.error` or InvalidFrame; text that is not UTF-8 raises UnicodeDecodeError.

Source: Kafka ``ByteBufferAccessor``; KIP-482.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, Generic, TypeVar

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.wire_guard import (
    check_string_size,
    read_unsigned_varint,
    skip_tagged_fields,
)

_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_INT64: Final = Struct(">q").unpack_from

BytesT = TypeVar("BytesT", bytes, memoryview)


class WireReader(Generic[BytesT]):
    """A position in a message; each method moves the position past the field that it reads.

    Slices of ``bytes`` are copies, slices of a ``memoryview`` are views.
    """

    def __init__(self, data: BytesT, position: int, *, is_flexible: bool) -> None:
        self._data: BytesT = data
        self._at = position
        self._is_flexible = is_flexible

    def _int16(self) -> int:
        (value,) = _INT16(self._data, self._at)
        self._at += 2
        return int(value)

    def _int32(self) -> int:
        (value,) = _INT32(self._data, self._at)
        self._at += 4
        return int(value)

    def _int64(self) -> int:
        (value,) = _INT64(self._data, self._at)
        self._at += 8
        return int(value)

    def _varint(self) -> int:
        value, self._at = read_unsigned_varint(self._data, self._at)
        return value

    def _count(self) -> int:
        """Reads the length of an array or of bytes; negative for null."""
        return self._varint() - 1 if self._is_flexible else self._int32()

    def _nullable_text(self) -> str | None:
        size = self._varint() - 1 if self._is_flexible else self._int16()
        check_string_size(size)
        return None if size < 0 else str(self._bytes(size), "utf-8")

    def _bytes(self, size: int) -> BytesT:
        start, end = self._at, self._at + size
        if end > len(self._data):
            raise InvalidFrame(f"{size} bytes announced, {len(self._data) - start} left")
        self._at = end
        return self._data[start:end]

    def _skip_tags(self) -> None:
        if self._is_flexible:
            self._at = skip_tagged_fields(self._data, self._at)

    def _tags(self, wanted: int) -> BytesT | None:
        """Reads all tagged fields: the bytes of field ``wanted``, or None if it is absent."""
        found: BytesT | None = None
        for _ in range(self._varint() if self._is_flexible else 0):
            tag = self._varint()
            value = self._bytes(self._varint())
            if tag == wanted:
                found = value
        return found
