"""Long loops in slices, so that one request does not keep the event loop from others.

A client may put 100,000 elements into one request.  A handler that looks at all of them at once
holds up every other client for seconds.  Such a loop runs over :func:`in_slices`: after some
milliseconds it lets the event loop serve others.  There it also ends when its client has gone.

What needs no state of the broker (reading a request, composing and encoding an answer) is done in
a thread instead (:mod:`.large_answers`, :mod:`.dispatch`).  A thread does not make that work
parallel, because only one thread at a time runs Python; but the interpreter switches between
threads twice a millisecond, so that the event loop goes on at about half its speed.

Kafka needs none of this: each request has a thread of its own there, of ``num.io.threads``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Sequence
from time import perf_counter
from typing import Final, TypeVar

from zkcontroller.runtime.presence import raise_if_abandoned

T = TypeVar("T")

SLICE_S: Final = 0.004
"""A loop runs so long before others get their turn."""
STEPS_AT_ONCE: Final = 16
"""Steps of a control request between two looks at the clock; a step takes some 20 us."""
PIECE: Final = 500
"""So many elements a coordinator takes in one step."""
GROUPS_AT_ONCE: Final = 100
"""So many groups it deletes in one step: each is an append of its own, and takes 40 us."""


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; every ``SLICE_S`` the event loop serves others before the next one comes."""
    due = perf_counter() + SLICE_S
    for item in items:
        yield item
        if perf_counter() >= due:
            await asyncio.sleep(0)
            raise_if_abandoned()
            due = perf_counter() + SLICE_S


async def run_in_slices(steps: Generator[None, None, T]) -> T:
    """What ``steps`` returns; every ``SLICE_S`` the event loop serves others before the next step.

    The steps are all taken, also when the client has gone: they change the broker's state.
    """
    due = perf_counter() + SLICE_S
    try:
        while True:
            for _ in range(STEPS_AT_ONCE):
                next(steps)
            if perf_counter() >= due:
                await asyncio.sleep(0)
                due = perf_counter() + SLICE_S
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        steps.close()


async def in_pieces(items: Sequence[T], size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """The items, at most ``size`` at once and at least one piece; others are served in between."""
    yield items[:size]
    for start in range(size, len(items), size):
        await asyncio.sleep(0)
        raise_if_abandoned()
        yield items[start : start + size]
