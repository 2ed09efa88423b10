"""Loops in slices, so that one large request does not block the event loop.

A client may put 100,000 elements into one request.  A handler that loops over them at once blocks
every other client for seconds.  So it loops over :func:`in_slices`, which yields to the event loop
every few milliseconds, and raises CancelledError when the client has disconnected.
A controller's request must be completed even if the connection is closed.  Its handler uses
:func:`all_in_slices` and :func:`run_in_slices`, which never end early.

Work without broker state (decoding a request, making and encoding a response) runs in a thread
instead (:mod:`.large_responses`, :mod:`.dispatch`).  Only one thread at a time runs Python, so this
is not parallel.  But the interpreter switches threads twice a millisecond, so the event loop
continues at about half its speed.

Kafka needs none of this: it handles each request in a thread of ``num.io.threads``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from time import perf_counter
from typing import Final, TypeVar

from kafka_common.net.presence import raise_if_abandoned

T = TypeVar("T")

SLICE_S: Final = 0.004
"""The seconds that a loop runs before it yields to the event loop."""
STEPS_AT_ONCE: Final = 16
"""Steps of a control request between two checks of the clock; a step takes some 20 us."""
PIECE: Final = 500
"""The most elements that a coordinator handles in one step."""
GROUPS_AT_ONCE: Final = 100
"""The most groups that a coordinator deletes in one step; each is an append of some 40 us."""


def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """The items; yields every ``SLICE_S``, and raises CancelledError if the client disconnects."""
    return _sliced(items, raise_if_abandoned)


def all_in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """All items as :func:`in_slices`, even if the client has disconnected.

    Source: Kafka completes a request that it has read, and drops the response.
    """
    return _sliced(items, _never_abandon)


async def _sliced(items: Iterable[T], check: Callable[[], None]) -> AsyncIterator[T]:
    due = perf_counter() + SLICE_S
    for item in items:
        yield item
        if perf_counter() >= due:
            await asyncio.sleep(0)
            check()
            due = perf_counter() + SLICE_S


def _never_abandon() -> None:
    pass


async def run_in_slices(steps: Generator[None, None, T]) -> T:
    """Runs all ``steps`` and returns their result; yields to the event loop every ``SLICE_S``.

    All steps run even if the client has disconnected, because they change the broker's state.
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
    """The items in pieces of at most ``size``; yields to the event loop in between.

    Without items, there is one empty piece.  CancelledError if the client disconnects.
    """
    return _pieces(items, size, raise_if_abandoned)


def all_in_pieces(items: Sequence[T], size: int = PIECE) -> AsyncIterator[Sequence[T]]:
    """All items in pieces as :func:`in_pieces`, even if the client has disconnected."""
    return _pieces(items, size, _never_abandon)


async def _pieces(
    items: Sequence[T], size: int, check: Callable[[], None]
) -> AsyncIterator[Sequence[T]]:
    yield items[:size]
    for start in range(size, len(items), size):
        await asyncio.sleep(0)
        check()
        yield items[start : start + size]
