"""Reads the fields of a record in order, never beyond its end.

Every method raises :class:`GroupRecordCorrupt` if the bytes do not fit.
"""

from __future__ import annotations

from struct import Struct
from struct import error as struct_error
from typing import Final

from kafka_common.errors import InvalidFrame, ZkControllerError
from kafka_common.protocol.wire_guard import read_unsigned_varint, skip_tagged_fields

_INT8: Final = Struct(">b")
_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_INT64: Final = Struct(">q")


class GroupRecordCorrupt(ZkControllerError):
    """Bytes that are not a record of ``__consumer_offsets``."""


class RecordReader:
    """A position in the bytes of one key or value."""

    __slots__ = ("_data", "_position", "_what")

    def __init__(self, data: bytes, what: str) -> None:
        self._data = data
        self._position = 0
        self._what = what

    def int8(self) -> int:
        return self._fixed(_INT8)

    def int16(self) -> int:
        return self._fixed(_INT16)

    def int32(self) -> int:
        return self._fixed(_INT32)

    def int64(self) -> int:
        return self._fixed(_INT64)

    def string(self) -> str:
        return self._text(self._taken(self.int16()))

    def nullable_string(self) -> str | None:
        size = self.int16()
        return None if size == -1 else self._text(self._taken(size))

    def sized_bytes(self) -> bytes:
        return self._taken(self.int32())

    def compact_count(self) -> int:
        """Reads a compact length (unsigned varint); -1 for null."""
        try:
            value, self._position = read_unsigned_varint(self._data, self._position)
        except (IndexError, InvalidFrame):
            raise self._corrupt("no length") from None
        return value - 1

    def compact_bytes(self) -> bytes:
        return self._taken(self.compact_count())

    def compact_string(self) -> str:
        return self._text(self.compact_bytes())

    def nullable_compact_string(self) -> str | None:
        size = self.compact_count()
        return None if size == -1 else self._text(self._taken(size))

    def skip_tagged_fields(self) -> None:
        try:
            self._position = skip_tagged_fields(self._data, self._position)
        except (IndexError, InvalidFrame):
            raise self._corrupt("no tagged fields") from None

    def bounded_count(self, count: int, item_size: int) -> int:
        """``count``, if the remaining bytes suffice for it; an item has at least ``item_size``."""
        left = len(self._data) - self._position
        if count < 0 or count * item_size > left:
            raise self._corrupt(f"{count} items announced, {left} bytes left")
        return count

    def _fixed(self, struct: Struct) -> int:
        try:
            value: int = struct.unpack_from(self._data, self._position)[0]
        except struct_error:
            raise self._corrupt("the bytes end") from None
        self._position += struct.size
        return value

    def _taken(self, size: int) -> bytes:
        start, left = self._position, len(self._data) - self._position
        if not 0 <= size <= left:
            raise self._corrupt(f"{size} bytes announced, {left} left")
        self._position += size
        return self._data[start : self._position]

    def _text(self, raw: bytes) -> str:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise self._corrupt("text that is not UTF-8") from None

    def _corrupt(self, reason: str) -> GroupRecordCorrupt:
        return GroupRecordCorrupt(f"{self._what}, at byte {self._position}: {reason}")
