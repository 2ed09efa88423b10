"""Clocks that never go back: one for waits, one for times that are stored."""

from __future__ import annotations

import time

from kafka_common.wall_time import wall_time_ms


def monotonic_ms() -> int:
    """Milliseconds for waits and time limits; setting the machine's clock does not change it."""
    return time.monotonic_ns() // 1_000_000


class WallClock:
    """Milliseconds since 1970 that never go back: the start time plus the elapsed time.

    They are stored in records, and elections and sessions are timed by them.  Setting the machine's
    clock therefore ends no session.
    """

    def __init__(self) -> None:
        self._since_1970_ms = wall_time_ms() - monotonic_ms()

    def __call__(self) -> int:
        return self._since_1970_ms + monotonic_ms()
