"""How much memory a call holds."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

_TRIES = 5


def peak_bytes(call: Callable[[], object]) -> int:
    """The most that the call holds at one time.

    Other threads of this process may allocate meanwhile, and what is used for the first time is
    imported: the least of some tries is what the call itself always needs.
    """
    return min(_peak_bytes(call) for _ in range(_TRIES))


def _peak_bytes(call: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
