"""Waiting for what a cluster does by itself."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

PATIENCE_S: Final = 30.0
"""How long a wait lasts at most, unless a test says otherwise."""
_POLL_S: Final = 0.02
_LONGEST_POLL_S: Final = 0.1

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
    began = time.monotonic()
    while True:
        found = look()
        if found is not None:
            return found
        waited_s = time.monotonic() - began
        if waited_s >= timeout_s:
            raise NotInTime(f"not within {timeout_s:g} s: {what()}")
        # What takes long, as the end of a session, is looked at less and less often.
        time.sleep(min(max(_POLL_S, waited_s / 10), _LONGEST_POLL_S))
