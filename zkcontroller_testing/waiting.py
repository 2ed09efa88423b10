"""Waits until a condition about a cluster holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_S: Final = 30.0
"""Default timeout of a wait, in seconds."""
_POLL_S: Final = 0.02
_LONGEST_POLL_S: Final = 0.1

T = TypeVar("T")


class NotInTime(AssertionError):
    """A wait has timed out; as an AssertionError it makes the test fail."""


class BrokerEnded(NotInTime):
    """A broker's process ended while it was starting, so waiting longer is useless."""


def until(
    look: Callable[[], T | None],
    what: Callable[[], str],
    timeout_s: float = PATIENCE_S,
) -> T:
    """Calls ``look`` until it returns not None; NotInTime with ``what`` after the timeout."""
    began = time.monotonic()
    while True:
        looked = time.monotonic()
        found = look()
        if found is not None:
            return found
        took_s = time.monotonic() - looked
        waited_s = time.monotonic() - began
        if waited_s >= timeout_s:
            raise NotInTime(f"not within {timeout_s:g} s: {what()}")
        # Poll more slowly the longer it takes, for example for the end of a session, and use no
        # more than half of a processor for looks that are expensive.
        time.sleep(max(took_s, min(max(_POLL_S, waited_s / 10), _LONGEST_POLL_S)))
