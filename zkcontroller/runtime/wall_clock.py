"""The wall clock, as those need it who both write the time down and wait by it."""

from __future__ import annotations

import time


class WallClock:
    """Milliseconds since 1970 that never go back: the wall clock as it was, and what passed since.

    They stand in records and time elections and sessions; whoever sets the clock ends none by it.
    """

    def __init__(self) -> None:
        self._since_1970_ms = time.time_ns() // 1_000_000 - time.monotonic_ns() // 1_000_000

    def __call__(self) -> int:
        return self._since_1970_ms + time.monotonic_ns() // 1_000_000
