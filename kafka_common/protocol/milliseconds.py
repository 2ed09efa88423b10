"""Durations of the wire as whole milliseconds; kio reads them as ``timedelta``."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

_MILLISECOND: Final = timedelta(milliseconds=1)


def milliseconds(duration: timedelta) -> int:
    """How many they are, rounded down."""
    return duration // _MILLISECOND
