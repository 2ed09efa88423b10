"""A wall clock that never goes back, for code that stores times and also waits by them."""

from __future__ import annotations

import time

from zkcontroller.wall_time import wall_time_ms


class WallClock:
    """Milliseconds since 1970 that never go back: the start time plus the elapsed time.

    They stand in records and time elections and sessions; setting the clock ends none of them.
    """

    def __init__(self) -> None:
        self._since_1970_ms = wall_time_ms() - time.monotonic_ns() // 1_000_000

    def __call__(self) -> int:
        return self._since_1970_ms + time.monotonic_ns() // 1_000_000
