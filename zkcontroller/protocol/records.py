"""The records within a batch of magic 2: bytes <-> values, and a look that needs no values.

A record is a zigzag varint length, a byte of attributes, then as zigzag varints the deltas to the
batch's base timestamp and base offset, key, value and headers.
Source: Kafka ``DefaultRecord``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from struct import Struct
from typing import Final, NamedTuple

from zkcontroller.errors import InvalidRecord

NO_TIMESTAMP: Final = -1
_VARINT_BYTES: Final = 5
_VARLONG_BYTES: Final = 10
_MASK64: Final = (1 << 64) - 1
_MIN_RECORD_BODY_BYTES: Final = 6
"""Attributes and five numbers of a byte each: what the shortest record has after its length."""
_SHORTEST: Final = _MIN_RECORD_BODY_BYTES << 1
_BELOW_ALL: Final = -(1 << 63)

_NOT_POSITIVE_ZIGZAG: Final = bytes(range(1, 128, 2))
"""The negative ones among the zigzag numbers of one byte."""

_FIRST_RUN: Final = 16
_RUN_GROWTH: Final = 8

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
    """What a control record says: how a producer's transaction ended.

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
        """The marker, None for a control record of another kind; InvalidRecord if malformed."""
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
    """A signed number as a zigzag varint, of up to 64 bits."""
    rest = (value << 1 ^ value >> 63) & _MASK64
    if rest < 0x80:
        return rest.to_bytes(1, "big")
    encoded = bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


def read_zigzag(data: bytes, position: int, longest: int = _VARINT_BYTES) -> tuple[int, int]:
    """The number at ``position`` and where it ends; InvalidRecord if it does not end in time."""
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
    """The ``count`` records from ``position`` to the end of ``data``; InvalidRecord otherwise."""
    for _ in range(count):
        size, start = read_zigzag(data, position)
        position = start + size
        if size < _MIN_RECORD_BODY_BYTES or position > len(data):
            raise InvalidRecord(f"A record of {size} bytes, {len(data) - start} are there")
        yield _record(data, start, position, base_offset, base_timestamp)
    if position != len(data):
        raise InvalidRecord(f"{len(data) - position} bytes follow the {count} records of a batch")


def _record(data: bytes, start: int, end: int, base_offset: int, base_timestamp: int) -> Record:
    timestamp_delta, place = read_zigzag(data, start + 1, _VARLONG_BYTES)
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


def largest_timestamp_delta(data: bytes, position: int, count: int) -> int:
    """The largest timestamp delta of ``count`` records that must fill ``data`` from ``position``.

    Looks at each record's length and timestamp only, so it costs a fifth of a microsecond a record,
    and much less where neighbours are equally long: their lengths and timestamps are columns, which
    slices with a step take out at C's speed.  Raises InvalidRecord if the lengths do not add up.
    """
    end = len(data)
    largest = _BELOW_ALL
    try:
        while count > 0:
            start = position
            size = data[position]
            if size < 0x80:
                body = position + 1
            elif data[position + 1] < 0x80:
                size = size & 0x7F | data[position + 1] << 7
                body = position + 2
            else:
                length, body = read_zigzag(data, position)
                size = length << 1 if length > 0 else 1
            if size & 1 or size < _SHORTEST:
                raise InvalidRecord(f"A record of {size >> 1} bytes")
            position = body + (size >> 1)
            delta = data[body + 1]
            if delta < 0x80:
                delta = (delta >> 1) ^ -(delta & 1)
            elif data[body + 2] < 0x80:
                delta = delta & 0x7F | data[body + 2] << 7
                delta = (delta >> 1) ^ -(delta & 1)
            else:
                delta, _ = read_zigzag(data, body + 1, _VARLONG_BYTES)
            if delta > largest:
                largest = delta
            count -= 1
            if count and position < end and data[start] == data[position]:
                run, in_run = _equal_neighbours(data, start, body, position, count)
                if run:
                    position += run * (position - start)
                    count -= run
                    largest = max(largest, in_run)
    except IndexError:
        raise InvalidRecord("A record goes past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"The records of a batch are {position - end} bytes too long")
    return largest


def _equal_neighbours(
    data: bytes, start: int, body: int, position: int, count: int
) -> tuple[int, int]:
    """How many records from ``position`` are as long as the one at ``start``.

    With them the largest of their timestamp deltas; zero records if a delta has several bytes.
    """
    stride = position - start
    count = min(count, (len(data) - position) // stride)
    run, window, largest = 0, _FIRST_RUN, 0
    while run < count:
        window = min(window, count - run)
        first = position + run * stride
        stop = first + window * stride
        equal = window
        for place in range(body - start):
            column = data[first + place : stop : stride]
            expected = data[start + place : start + place + 1]
            equal = min(equal, len(column) - len(column.lstrip(expected)))
        deltas = data[first + body - start + 1 : first + equal * stride : stride]
        if deltas:
            if max(deltas) >= 0x80:
                return run, largest
            positive = deltas.translate(None, _NOT_POSITIVE_ZIGZAG)
            if len(positive) < len(deltas):
                return run, largest
            largest = max(largest, max(positive) >> 1)
        run += equal
        if equal < window:
            break
        window *= _RUN_GROWTH
    return run, largest
