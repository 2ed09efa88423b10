"""The wall clock of this process: the machine's clock plus an offset that a test may set.

A test may set the clock of a test-kit broker forward or back.  Any other process has the machine's
clock: the offset is used only if ``ZKCONTROLLER_HOLD_SOCKET`` also names the socket of a test
(:mod:`zkcontroller.runtime.hold_points`).  Waits and time limits use the monotonic clock, which
never jumps.  Lines of log files have the machine's time, so that the logs of several brokers stay
in order.
"""

from __future__ import annotations

import os
import time
from typing import Final

SOCKET_VARIABLE: Final = "ZKCONTROLLER_HOLD_SOCKET"
OFFSET_VARIABLE: Final = "ZKCONTROLLER_CLOCK_OFFSET_MS"
"""Environment variable: milliseconds by which the clock of a new process is set forward."""
MOST_OFFSET_MS: Final = 20 * 365 * 24 * 3_600_000
"""The largest offset: twenty years."""


class _Offset:
    """Nanoseconds added to the machine's clock.  Any thread reads it, one thread sets it."""

    ns = 0


_offset: Final = _Offset()


def wall_time_ns() -> int:
    """Nanoseconds since 1970 by this process's clock, which may jump back."""
    return time.time_ns() + _offset.ns


def wall_time_ms() -> int:
    """Milliseconds since 1970 by this process's clock, which may jump back."""
    return wall_time_ns() // 1_000_000


def set_wall_time_by_environment() -> None:
    """Sets the clock by the environment that a test gave this process; call it first of all."""
    asked = os.environ.get(OFFSET_VARIABLE, "") if os.environ.get(SOCKET_VARIABLE) else ""
    set_wall_time_offset(int(asked or 0))


def set_wall_time_offset(offset_ms: int) -> None:
    """Sets this process's clock to the machine's plus ``offset_ms``, which may be negative."""
    _offset.ns = offset_ms * 1_000_000
