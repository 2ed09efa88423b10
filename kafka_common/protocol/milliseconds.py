"""Durations of the wire as whole milliseconds; kio reads them as ``timedelta``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """The duration in whole milliseconds, rounded down."""
    return duration // _MILLISECOND
