"""Long loops in slices, so that one request does not keep the event loop from others.

A client may put 100,000 elements into one request.  A handler that looks at all of them at once
holds up every other client for seconds.  Such a loop runs over :func:`in_slices`: after some
milliseconds it lets the event loop serve others.  There it also ends when its client has gone.
A controller's request is carried out whether its connection lasts or not: it goes over
:func:`all_in_slices` and :func:`run_in_slices`, which never end early.

What needs no state of the broker (reading a request, composing and encoding a response) is done in
a thread instead (:mod:`.large_responses`, :mod:`.dispatch`).  A thread does not make that work
parallel, because only one thread at a time runs Python; but the interpreter switches between
threads twice a millisecond, so that the event loop goes on at about half its speed.

Kafka needs none of this: each request has a thread of its own there, of ``num.io.threads``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from time import perf_counter
from typing import Final, TypeVar

from kafka_common.net.presence import raise_if_abandoned

T = TypeVar("T")

SLICE_S: Final = 0.004
"""A loop runs so long before others get their turn."""
STEPS_AT_ONCE: Final = 16
"""Steps of a control request between two looks at the clock; a step takes some 20 us."""
PIECE: Final = 500
"""So many elements a coordinator takes in one step."""
GROUPS_AT_ONCE: Final = 100
"""So many groups it deletes in one step: each is an append of its own, and takes 40 us."""


def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; every ``SLICE_S`` the event loop serves others before the next one comes."""
    return _sliced(items, raise_if_abandoned)


def all_in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """As :func:`in_slices`, but all of the items, also when the client has gone.

    Source: Kafka carries out a request that it has read, and drops the response.
    """
    return _sliced(items, _go_on)


async def _sliced(items: Iterable[T], check: Callable[[], None]) -> AsyncIterator[T]:
    due = perf_counter() + SLICE_S
    for item in items:
        yield item
        if perf_counter() >= due:
            await asyncio.sleep(0)
            check()
            due = perf_counter() + SLICE_S


def _go_on() -> None:
    pass


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


def in_pieces(items: Sequence[T], size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """The items, at most ``size`` at once and at least one piece; others are served in between."""
    return _pieces(items, size, raise_if_abandoned)


def all_in_pieces(items: Sequence[T], size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """As :func:`in_pieces`, but all of the items, also when the client has gone."""
    return _pieces(items, size, _go_on)


async def _pieces(
    items: Sequence[T], size: int, check: Callable[[], None]
) -> AsyncIterator[Sequence[T]]:
    yield items[:size]
    for start in range(size, len(items), size):
        await asyncio.sleep(0)
        check()
        yield items[start : start + size]
