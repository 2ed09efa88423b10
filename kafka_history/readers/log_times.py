"""Converts log4j's times of many records at once to milliseconds since 1970.

log4j writes local time without a zone.  In autumn one hour occurs twice: its times count as those
of the first one.  In spring one hour is left out: times in it count as those of the hour after it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from functools import cache
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from kafka_history.readers.problems import HistoryInvalid

Longs: TypeAlias = NDArray[np.int64]
Flags: TypeAlias = NDArray[np.bool_]

NO_TIME: Final = -(2**62)
"""Result for digits that are no valid time, such as a 31 February."""

_PATTERN: Final = b"26-11-20 18:08:31,404] "
_DIGITS: Final = [place for place, byte in enumerate(_PATTERN) if chr(byte).isdigit()]
_MARKS: Final = [place for place in range(len(_PATTERN)) if place not in _DIGITS]
_DAY_MS: Final = 86_400_000
_QUARTER_MS: Final = 900_000
"""Time zones change their offset only at multiples of this."""
_OFFSET: Final = re.compile(r"(?:UTC|GMT)?([+-])(\d\d?)(?::?(\d\d))?")


def zone_of(name: str) -> tzinfo:
    """The zone of that name, such as ``Europe/Berlin`` or ``+02:00``.

    Raises:
        HistoryInvalid: there is none.
    """
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        ahead = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-ahead if offset[1] == "-" else ahead)
    if name in ("UTC", "GMT", "Z"):
        return UTC
    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        raise HistoryInvalid(f"no time zone {name!r}; there is Europe/Berlin, or +02:00") from None


def times_ms(records: Sequence[bytes], zone: tzinfo) -> tuple[Longs, Flags]:
    """The time of each record in ms, and whether the record begins with a time at all.

    ``records``: without the ``[20`` with which their dates begin.
    """
    size = len(_PATTERN)
    heads = b"".join([record[:size] for record in records])
    if len(heads) != size * len(records):
        heads = b"".join([record[:size].ljust(size, b"\0") for record in records])
    text = np.frombuffer(heads, np.uint8).reshape(len(records), size)
    digits = text[:, _DIGITS] - np.uint8(ord("0"))
    marks = np.frombuffer(_PATTERN, np.uint8)[_MARKS]
    is_head: Flags = (digits <= 9).all(axis=1) & (text[:, _MARKS] == marks).all(axis=1)
    local = _local_ms(digits)
    return (local if zone is UTC else _to_utc(local, zone)), is_head


def _local_ms(digits: NDArray[np.uint8]) -> Longs:
    year, month, day, hour, minute, second = (
        digits[:, n].astype(np.int64) * 10 + digits[:, n + 1] for n in range(0, 12, 2)
    )
    days, places = np.unique((year * 100 + month) * 100 + day, return_inverse=True)
    begins = np.array([_day_ms(int(one)) for one in days], np.int64)[places]
    millis = digits[:, 12].astype(np.int64) * 100 + digits[:, 13] * np.int64(10) + digits[:, 14]
    is_time = (hour < 24) & (minute < 60) & (second < 60) & (begins != NO_TIME)
    return np.where(is_time, begins + ((hour * 60 + minute) * 60 + second) * 1000 + millis, NO_TIME)


def _day_ms(yymmdd: int) -> int:
    try:
        day = date(2000 + yymmdd // 10_000, yymmdd // 100 % 100, yymmdd % 100)
    except ValueError:
        return NO_TIME
    return (day - date(1970, 1, 1)).days * _DAY_MS


def _to_utc(local: Longs, zone: tzinfo) -> Longs:
    quarters, places = np.unique(local // _QUARTER_MS, return_inverse=True)
    offsets = [0 if n < 0 else _offset_ms(int(n) * _QUARTER_MS, zone) for n in quarters]
    return np.where(local == NO_TIME, NO_TIME, local - np.array(offsets, np.int64)[places])


@cache
def _offset_ms(local_ms: int, zone: tzinfo) -> int:
    moment = datetime(1970, 1, 1, tzinfo=zone) + timedelta(milliseconds=local_ms)
    offset: Any = moment.utcoffset()
    return int(offset.total_seconds() * 1000)
