"""The wall clock of this process: the machine's, and what a test has set it forward or back by.

A broker of the test kit has a clock of its own, so that a test can let it jump.  Any other process
has the machine's: the offset counts only where ``ZKCONTROLLER_HOLD_SOCKET`` names the socket of a
test as well (:mod:`zkcontroller.runtime.hold_points`).  Waits and time limits go by the monotonic
clock, which never jumps; lines of log files keep the machine's time, so that the logs of several
brokers stay in order.
"""

from __future__ import annotations

import os
import time
from typing import Final

SOCKET_VARIABLE: Final = "ZKCONTROLLER_HOLD_SOCKET"
OFFSET_VARIABLE: Final = "ZKCONTROLLER_CLOCK_OFFSET_MS"
"""By how much the clock of a new process is set forward, in milliseconds."""
MOST_OFFSET_MS: Final = 20 * 365 * 24 * 3_600_000
"""Twenty years: no further can a clock be set."""


class _Offset:
    """What is added to the machine's clock.  Any thread reads it, one sets it."""

    ns = 0


_offset: Final = _Offset()


def wall_time_ns() -> int:
    """Nanoseconds since 1970 by this process's clock, which may be set back."""
    return time.time_ns() + _offset.ns


def wall_time_ms() -> int:
    """Milliseconds since 1970, likewise."""
    return wall_time_ns() // 1_000_000


def set_wall_time_by_environment() -> None:
    """Sets the clock as a test asked when it started this process; call it first of all."""
    asked = os.environ.get(OFFSET_VARIABLE, "") if os.environ.get(SOCKET_VARIABLE) else ""
    set_wall_time_offset(int(asked or 0))


def set_wall_time_offset(offset_ms: int) -> None:
    """Sets this process's clock forward, or back, from the machine's."""
    _offset.ns = offset_ms * 1_000_000
