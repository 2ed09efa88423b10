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

_OFFSET_BYTES: Final = 2
"""Offset deltas of up to 8191 are looked at in columns."""
_NULL: Final = 1
"""The zigzag number -1 as a byte."""
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


def largest_timestamp_delta(  # noqa: C901 - one loop: a call would cost what it does
    data: bytes, position: int, count: int
) -> int:
    """The largest timestamp delta of ``count`` records that must fill ``data`` from ``position``.

    Every length in every record is checked, as if they were all decoded, but no value is made: it
    costs half a microsecond a record, and much less where neighbours are equally long; then their
    lengths and timestamps are columns, which slices with a step take out at C's speed.  Raises
    InvalidRecord if a record is malformed or the lengths do not add up.
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
                offset_at = body + 2
            else:
                delta, offset_at = read_zigzag(data, body + 1, _VARLONG_BYTES)
            if delta > largest:
                largest = delta
            key_at = offset_at + 1
            while data[key_at - 1] >= 0x80:
                key_at += 1
            # Most keys are null or short and most values have lengths of one or two bytes.
            field = data[key_at]
            if field == _NULL:
                value_at = key_at + 1
            elif field < 0x80 and not field & 1:
                value_at = key_at + 1 + (field >> 1)
            else:
                value_at = _after_field(data, key_at)
            field = data[value_at]
            if field < 0x80 or field & 1 or data[value_at + 1] >= 0x80:
                headers_at = _after_field(data, value_at)
            else:
                headers_at = value_at + 2 + ((field & 0x7F | data[value_at + 1] << 7) >> 1)
            if data[headers_at] or headers_at + 1 != position or key_at - offset_at > _VARINT_BYTES:
                _check_headers(data, headers_at, position)
            count -= 1
            if count and position < end and data[start] == data[position]:
                layout = _Layout(start, body, offset_at, key_at, value_at, headers_at, position)
                run, in_run = _equal_neighbours(data, layout, count)
                if run:
                    position += run * (position - start)
                    count -= run
                    largest = max(largest, in_run)
    except IndexError:
        raise InvalidRecord("A record goes past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"The records of a batch are {position - end} bytes too long")
    return largest


def _after_field(data: bytes, position: int) -> int:
    """Where the field ends whose length stands at ``position``; a negative length means null."""
    size = data[position]
    if size < 0x80:
        return position + 1 if size & 1 else position + 1 + (size >> 1)
    length, position = read_zigzag(data, position)
    return position + length if length > 0 else position


def _check_headers(data: bytes, position: int, end: int) -> None:
    """InvalidRecord unless a record's headers begin at ``position`` and end at ``end``."""
    count, place = read_zigzag(data, position)
    if not 0 <= count <= end - place:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    for _ in range(count):
        if data[place] & 1:  # the sign, however many bytes follow
            raise InvalidRecord("Invalid negative header key size")
        place = _after_field(data, _after_field(data, place))
    if place != end:
        raise InvalidRecord(
            f"Invalid record size: its fields end {abs(place - end)} bytes from where it does"
        )


class _Layout(NamedTuple):
    """Where the parts of a record begin."""

    start: int
    body: int
    offset: int
    key: int
    value: int
    headers: int
    end: int


def _equal_neighbours(data: bytes, layout: _Layout, count: int) -> tuple[int, int]:
    """How many records after this one have every length in the same place and of the same value.

    With them the largest of their timestamp deltas; none if a delta has several bytes, or the
    record has headers.
    """
    start, body, offset, key, value, headers, position = layout
    if offset != body + 2 or key - offset > _OFFSET_BYTES or data[headers]:
        return 0, 0
    stride = position - start
    count = min(count, (len(data) - position) // stride)
    fixed = [
        *range(body - start),
        *_length_bytes(data, start, key),
        *_length_bytes(data, start, value),
        headers - start,
    ]
    run, window, largest = 0, _FIRST_RUN, 0
    while run < count:
        window = min(window, count - run)
        first = position + run * stride
        stop = first + window * stride
        equal = window
        for place in fixed:
            column = data[first + place : stop : stride]
            expected = data[start + place : start + place + 1]
            equal = min(equal, len(column) - len(column.lstrip(expected)))
        if equal == 0:
            break
        stop = first + equal * stride
        deltas = data[first + body + 1 - start : stop : stride]
        if max(deltas) >= 0x80 or len(deltas.translate(None, _NOT_POSITIVE_ZIGZAG)) < equal:
            break
        if not _ends_with(data, first + offset - start, stop, stride, key - offset):
            break
        largest = max(largest, max(deltas) >> 1)
        run += equal
        if equal < window:
            break
        window *= _RUN_GROWTH
    return run, largest


def _length_bytes(data: bytes, start: int, position: int) -> range:
    """Places of the bytes of the length at ``position``, counted from ``start``."""
    end = position
    while data[end] >= 0x80:
        end += 1
    return range(position - start, end + 1 - start)


def _ends_with(data: bytes, first: int, stop: int, stride: int, size: int) -> bool:
    """Whether the numbers in these columns all have ``size`` bytes."""
    return max(data[first + size - 1 : stop : stride]) < 0x80 and (
        size == 1 or min(data[first:stop:stride]) >= 0x80
    )
