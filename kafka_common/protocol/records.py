"""The records within a batch of magic 2: bytes <-> values.

A record is its length, a byte of attributes, the deltas to the batch's base timestamp and base
offset, then key, value and headers.  All lengths and deltas are zigzag varints.
:mod:`kafka_common.protocol.record_walk` checks records without making values of them.

Source: Kafka ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from mmap import mmap
from struct import Struct
from typing import Final, NamedTuple

from kafka_common.errors import InvalidRecord

NO_TIMESTAMP: Final = -1
VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
_MASK64: Final = (1 << 64) - 1
MIN_RECORD_BODY_BYTES: Final = 6
"""Size of the shortest record without its length: attributes and five varints of one byte."""

_MARKER_KEY: Final = Struct(">hh")
_MARKER_VALUE: Final = Struct(">hi")
ABORT: Final = 0
COMMIT: Final = 1


class Record(NamedTuple):
    """One record of a batch."""

    offset: int
    timestamp: int
    """Milliseconds since 1970, -1 if there is none."""
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[bytes, bytes | None], ...] = ()


class EndTransactionMarker(NamedTuple):
    """A control record: whether a producer's transaction was committed or aborted.

    Source: Kafka ``EndTransactionMarker``.
    """

    is_commit: bool
    coordinator_epoch: int

    def encode(self) -> tuple[bytes, bytes]:
        """Key and value of the control record."""
        return (
            _MARKER_KEY.pack(0, COMMIT if self.is_commit else ABORT),
            _MARKER_VALUE.pack(0, self.coordinator_epoch),
        )

    @staticmethod
    def decode(record: Record) -> EndTransactionMarker | None:
        """The marker, or None if it is another control record; InvalidRecord if malformed."""
        if record.key is None or len(record.key) < _MARKER_KEY.size:
            raise InvalidRecord("A control record has no key of at least 4 bytes")
        version, kind = _MARKER_KEY.unpack_from(record.key)
        if version < 0:
            raise InvalidRecord(f"Invalid version found for control record: {version}")
        if kind not in (ABORT, COMMIT):
            return None
        if record.value is None or len(record.value) < _MARKER_VALUE.size:
            raise InvalidRecord("A transaction marker has no value of at least 6 bytes")
        version, coordinator_epoch = _MARKER_VALUE.unpack_from(record.value)
        if version < 0:
            raise InvalidRecord(f"Invalid version found for end transaction marker: {version}")
        return EndTransactionMarker(kind == COMMIT, coordinator_epoch)


def zigzag(value: int) -> bytes:
    """A signed number of up to 64 bits as a zigzag varint."""
    rest = (value << 1 ^ value >> 63) & _MASK64
    if rest < 0x80:
        return rest.to_bytes(1, "big")
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_zigzag(data: bytes | mmap, position: int, longest: int = VARINT_BYTES) -> tuple[int, int]:
    """The zigzag varint at ``position``, and the position after it.

    Raises InvalidRecord if it has more than ``longest`` bytes.
    """
    value = shift = 0
    for place in range(position, min(position + longest, len(data))):
        byte = data[place]
        if byte < 0x80:
            value |= byte << shift
            return (value >> 1) ^ -(value & 1), place + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    raise InvalidRecord("A number of variable length does not end")


def encode_records(records: Iterable[Record], base_offset: int, base_timestamp: int) -> bytes:
    """The records one after the other, as they stand in an uncompressed batch."""
    pieces: list[bytes] = []
    for offset, timestamp, key, value, headers in records:
        body = bytearray(b"\x00")
        body += zigzag(timestamp - base_timestamp)
        body += zigzag(offset - base_offset)
        for field in (key, value):
            _append_field(body, field)
        body += zigzag(len(headers))
        for name, content in headers:
            _append_field(body, name)
            _append_field(body, content)
        pieces += (zigzag(len(body)), bytes(body))
    return b"".join(pieces)


def _append_field(body: bytearray, field: bytes | None) -> None:
    if field is None:
        body += b"\x01"
    else:
        body += zigzag(len(field))
        body += field


def iterate_records(
    data: bytes, position: int, count: int, base_offset: int, base_timestamp: int
) -> Iterator[Record]:
    """The ``count`` records that fill ``data`` from ``position``; InvalidRecord if malformed."""
    for _ in range(count):
        size, start = read_zigzag(data, position)
        position = start + size
        if size < MIN_RECORD_BODY_BYTES or position > len(data):
            raise InvalidRecord(f"A record of {size} bytes, {len(data) - start} are there")
        yield _record(data, start, position, base_offset, base_timestamp)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the {count} records of a batch")


def _record(data: bytes, start: int, end: int, base_offset: int, base_timestamp: int) -> Record:
    timestamp_delta, place = read_zigzag(data, start + 1, VARLONG_BYTES)
    offset_delta, place = read_zigzag(data, place)
    key, place = _field(data, place, end)
    value, place = _field(data, place, end)
    header_count, place = read_zigzag(data, place)
    if not 0 <= header_count <= end - place:
        raise InvalidRecord(f"Found invalid number of record headers {header_count}")
    headers: list[tuple[bytes, bytes | None]] = []
    for _ in range(header_count):
        name, place = _field(data, place, end)
        if name is None:
            raise InvalidRecord("Invalid negative header key size -1")
        content, place = _field(data, place, end)
        headers.append((name, content))
    if place != end:
        raise InvalidRecord(
            f"Invalid record size: expected to read {end - start} bytes in record payload, but "
            f"instead read {place - start}"
        )
    return Record(
        base_offset + offset_delta, base_timestamp + timestamp_delta, key, value, tuple(headers)
    )


def _field(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    size, position = read_zigzag(data, position)
    if size < 0:
        return None, position
    if size > end - position:
        raise InvalidRecord(f"A field of {size} bytes, {end - position} are left in the record")
    return data[position : position + size], position + size
