"""Waiting for what a cluster does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_S: Final = 30.0
"""How long a wait lasts at most, unless a test says otherwise."""
_POLL_S: Final = 0.02

T = TypeVar("T")


class NotInTime(AssertionError):
    """What a test waited for has not come; a test fails by it, as by an assertion."""


class BrokerEnded(NotInTime):
    """A broker's process ended while it was starting: no wait can help."""


def until(
    look: Callable[[], T | None],
    what: Callable[[], str],
    timeout_s: float = PATIENCE_S,
) -> T:
    """The first answer of ``look`` that is not None; NotInTime, with ``what``, if none comes."""
    deadline = time.monotonic() + timeout_s
    while True:
        found = look()
        if found is not None:
            return found
        if time.monotonic() >= deadline:
            raise NotInTime(f"not within {timeout_s:g} s: {what()}")
        time.sleep(_POLL_S)
