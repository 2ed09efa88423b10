"""Times, durations and counts as short texts for people."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

_SECOND_MS: Final = 1000
_MINUTE_MS: Final = 60 * _SECOND_MS
_HOUR_MS: Final = 60 * _MINUTE_MS
_DAY_MS: Final = 24 * _HOUR_MS


def moment(time_ms: int | None) -> str:
    """``2026-11-20 18:08:31.404`` in UTC; a dash for None."""
    if time_ms is None:
        return "-"
    seconds, rest = divmod(time_ms, _SECOND_MS)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S}.{rest:03d}"


def clock(time_ms: int | None) -> str:
    """``18:08:31.404`` in UTC; a dash for None."""
    return moment(time_ms)[11:] if time_ms is not None else "-"


def duration(milliseconds: float | None) -> str:
    """``14 ms``, ``3.2 s``, ``4 min 10 s``, ``2 h 5 min`` or ``3 d 4 h``; a dash for None."""
    if milliseconds is None:
        return "-"
    whole = round(milliseconds)
    if whole < _SECOND_MS:
        return f"{whole} ms"
    if whole < _MINUTE_MS:
        return f"{whole / _SECOND_MS:.1f} s"
    if whole < _HOUR_MS:
        return f"{whole // _MINUTE_MS} min {whole % _MINUTE_MS // _SECOND_MS} s"
    if whole < _DAY_MS:
        return f"{whole // _HOUR_MS} h {whole % _HOUR_MS // _MINUTE_MS} min"
    return f"{whole // _DAY_MS} d {whole % _DAY_MS // _HOUR_MS} h"


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 partition``, ``3 partitions``, ``12,000 partitions``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
