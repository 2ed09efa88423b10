"""Clocks that never go back: to wait by, and for code that also stores the time."""

from __future__ import annotations

import time

from kafka_common.wall_time import wall_time_ms


def monotonic_ms() -> int:
    """Milliseconds by which waits and time limits are timed; setting the clock changes none."""
    return time.monotonic_ns() // 1_000_000


class WallClock:
    """Milliseconds since 1970 that never go back: the start time plus the elapsed time.

    They stand in records and time elections and sessions; setting the clock ends none of them.
    """

    def __init__(self) -> None:
        self._since_1970_ms = wall_time_ms() - monotonic_ms()

    def __call__(self) -> int:
        return self._since_1970_ms + monotonic_ms()
