"""Checks the records of a batch of magic 2 without making values of them.

A leader must check every length and every timestamp of a batch before it appends the batch.  The
*walk* does that in about a microsecond per record.  It is much faster for a *run*: neighbouring
records with equal lengths.  The same field of all records in a run is a *column*, which a Python
slice with a step reads at C's speed.

A batch of a few kilobytes can hold millions of records once it is unpacked.  The walk is therefore
a generator that yields after each slice of work, so that its caller can stop it or continue it in
another thread.

Source: Kafka ``DefaultRecord.readFrom``, ``DefaultRecordBatch``.
"""

from __future__ import annotations

from collections.abc import Generator
from mmap import mmap
from typing import Final, NamedTuple, TypeVar

from kafka_common.errors import InvalidRecord, MessageTooLarge
from kafka_common.protocol.records import (
    MIN_RECORD_BODY_BYTES,
    VARINT_BYTES,
    VARLONG_BYTES,
    read_zigzag,
)

T = TypeVar("T")

RECORDS_AT_ONCE: Final = 1_000
"""The walk yields after this many records and headers, about a millisecond of work."""
MOST_HEADERS: Final = 2_000_000
"""The limit of record headers in one batch; Kafka has no limit."""

_SHORTEST: Final = MIN_RECORD_BODY_BYTES << 1
_BELOW_ALL: Final = -(1 << 63)
_NOT_POSITIVE_ZIGZAG: Final = bytes(range(1, 128, 2))
"""All zigzag numbers of one byte that are negative."""
_OFFSET_BYTES: Final = 2
"""The most bytes of an offset delta in a column; they hold deltas up to 8191."""
_NULL: Final = 1
"""The zigzag number -1 as a byte."""
_FIRST_RUN: Final = 16
_RUN_GROWTH: Final = 8
_MOST_IN_RUN: Final = 8_192
"""The longest run that is checked in one step."""
_LONGEST_REST: Final = 64
"""The most records for which the walk does not look for a run, after short runs."""


_ONE_BYTE: Final = bytes(range(0, 128, 2))
"""The offset deltas 0 to 63 as zigzag varints of one byte each."""
_TWO_BYTES: Final = (
    bytes(delta << 1 & 0x7F | 0x80 for delta in range(8_192)),
    bytes(delta >> 6 for delta in range(8_192)),
)
"""First and second bytes of zigzag varints of two bytes, indexed by the offset delta."""


class Walked(NamedTuple):
    """The result of a walk over records."""

    largest_delta: int
    """The largest timestamp delta, in milliseconds."""
    is_counted: bool
    """Whether the offset deltas are 0, 1, 2…; True if they were not checked."""


def finish(work: Generator[None, None, T]) -> T:
    """Runs a generator to its end and returns its result."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            value: T = done.value
            return value


def walk_records(  # noqa: C901 - one loop: a call would cost what it does
    data: bytes | mmap, position: int, end: int, count: int, *, counts: bool = False
) -> Generator[None, None, Walked]:
    """The largest timestamp delta of ``count`` records that must fill ``data`` up to ``end``.

    Every length in every record is checked, as decoding would do; with ``counts`` the offset deltas
    are checked too.  Raises InvalidRecord if a record is malformed or the lengths do not add up,
    and MessageTooLarge for more than MOST_HEADERS headers.
    """
    largest = _BELOW_ALL
    total, is_counted = count, True
    headers_left = MOST_HEADERS
    rest = longer_rest = 0
    try:
        while count > 0:
            # The walk yields when ``pause_at`` records are left; a header counts as a record.
            pause_at = max(0, count - RECORDS_AT_ONCE)
            while count > pause_at:
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
                    delta, offset_at = read_zigzag(data, body + 1, VARLONG_BYTES)
                if delta > largest:
                    largest = delta
                key_at = offset_at + 1
                while data[key_at - 1] >= 0x80:
                    key_at += 1
                if counts and not _is_delta(data, offset_at, total - count):
                    counts = is_counted = False
                # The fast cases: a key that is null or short, a value below 8 KiB.
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
                if (
                    data[headers_at]
                    or headers_at + 1 != position
                    or key_at - offset_at > VARINT_BYTES
                ):
                    headers, place = _header_count(data, headers_at, position)
                    headers_left -= headers
                    if headers_left < 0:
                        raise MessageTooLarge(
                            f"A batch has more than {MOST_HEADERS} record headers"
                        )
                    pause_at += headers
                    if headers > RECORDS_AT_ONCE:
                        yield
                        yield from _walk_headers(data, place, position, headers)
                    else:
                        _check_headers(data, place, position, headers)
                count -= 1
                if rest:
                    rest -= 1
                elif count and position < end and data[start] == data[position]:
                    layout = _Layout(start, body, offset_at, key_at, value_at, headers_at, position)
                    run, in_run, is_counted_on = _equal_neighbours(
                        data, end, layout, count, total - count if counts else None
                    )
                    if not is_counted_on:
                        counts = is_counted = False
                    if run:
                        position += run * (position - start)
                        count -= run
                        pause_at = max(0, pause_at - run + (run >> 4))
                        if in_run > largest:
                            largest = in_run
                    if run >= _FIRST_RUN:
                        longer_rest = 0
                    else:
                        # Looking for a run costs what several records do: lengths chosen to make
                        # each run short must not make the walk slow.
                        rest = longer_rest
                        longer_rest = min(2 * longer_rest + 1, _LONGEST_REST)
            if count > 0:
                yield
    except IndexError:
        raise InvalidRecord("A record goes past the end of its batch") from None
    if position != end:
        raise InvalidRecord(f"The records of a batch are {position - end} bytes too long")
    return Walked(largest, is_counted)


def _is_delta(data: bytes | mmap, position: int, delta: int) -> bool:
    """Whether the varint at ``position`` is ``delta``; deltas below 8192 must be minimal."""
    if delta < 64:
        return data[position] == delta << 1
    if delta < 8_192:
        first, second = _TWO_BYTES
        return data[position] == first[delta] and data[position + 1] == second[delta]
    return read_zigzag(data, position, VARLONG_BYTES)[0] == delta


def _after_field(data: bytes | mmap, position: int) -> int:
    """The end of the field whose length begins at ``position``; a negative length means null."""
    size = data[position]
    if size < 0x80:
        return position + 1 if size & 1 else position + 1 + (size >> 1)
    length, position = read_zigzag(data, position)
    return position + length if length > 0 else position


def _header_count(data: bytes | mmap, position: int, end: int) -> tuple[int, int]:
    count, place = read_zigzag(data, position)
    if not 0 <= count <= end - place:
        raise InvalidRecord(f"Found invalid number of record headers {count}")
    return count, place


def _check_headers(data: bytes | mmap, place: int, end: int, count: int) -> None:
    """InvalidRecord unless ``count`` headers begin at ``place`` and end at ``end``."""
    place = _after_headers(data, place, count)
    if place != end:
        raise InvalidRecord(
            f"Invalid record size: its fields end {abs(place - end)} bytes from where it does"
        )


def _walk_headers(
    data: bytes | mmap, place: int, end: int, count: int
) -> Generator[None, None, None]:
    """Checks headers as :func:`_check_headers` does, but yields after RECORDS_AT_ONCE headers."""
    while count > RECORDS_AT_ONCE:
        place = _after_headers(data, place, RECORDS_AT_ONCE)
        count -= RECORDS_AT_ONCE
        yield
    _check_headers(data, place, end, count)


def _after_headers(data: bytes | mmap, place: int, count: int) -> int:
    for _ in range(count):
        if data[place] & 1:  # the sign, however many bytes follow
            raise InvalidRecord("Invalid negative header key size")
        place = _after_field(data, _after_field(data, place))
    return place


class _Layout(NamedTuple):
    """Where the parts of a record begin."""

    start: int
    body: int
    offset: int
    key: int
    value: int
    headers: int
    end: int


def _equal_neighbours(
    data: bytes | mmap, end: int, layout: _Layout, count: int, offset_delta: int | None
) -> tuple[int, int, bool]:
    """The number of records after this one with the same lengths at the same places: a run.

    Also the largest timestamp delta of the run, and whether the offset deltas in it continue from
    ``offset_delta`` (True if that is None).  A run ends before a timestamp delta that is negative
    or has several bytes; records with headers form no run.
    """
    start, body, offset, key, value, headers, position = layout
    if offset != body + 2 or key - offset > _OFFSET_BYTES or data[headers]:
        return 0, 0, True
    stride = position - start
    count = min(count, (end - position) // stride, _MOST_IN_RUN)
    fixed = [
        *range(body - start),
        *_length_bytes(data, start, key),
        *_length_bytes(data, start, value),
        headers - start,
    ]
    run, window, largest, is_counted = 0, _FIRST_RUN, 0, True
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
        if offset_delta is not None and is_counted:
            offsets = first + offset - start
            is_counted = _are_deltas(
                data, offsets, stop, stride, key - offset, offset_delta + run, equal
            )
        largest = max(largest, max(deltas) >> 1)
        run += equal
        if equal < window:
            break
        window *= _RUN_GROWTH
    return run, largest, is_counted


def _length_bytes(data: bytes | mmap, start: int, position: int) -> range:
    """The bytes of the varint at ``position``, as distances from ``start``."""
    end = position
    while data[end] >= 0x80:
        end += 1
    return range(position - start, end + 1 - start)


def _ends_with(data: bytes | mmap, first: int, stop: int, stride: int, size: int) -> bool:
    """Whether the varints in these columns all have ``size`` bytes, 1 or 2."""
    return max(data[first + size - 1 : stop : stride]) < 0x80 and (
        size == 1 or min(data[first:stop:stride]) >= 0x80
    )


def _are_deltas(
    data: bytes | mmap, first: int, stop: int, stride: int, size: int, delta: int, count: int
) -> bool:
    """Whether the varints of ``size`` bytes in these columns are ``delta``, ``delta`` + 1, …."""
    tables = (_ONE_BYTE,) if size == 1 else _TWO_BYTES
    return all(
        data[first + place : stop : stride] == table[delta : delta + count]
        for place, table in enumerate(tables)
    )
