"""Measures how long a piece of work occupies the event loop, which delays all other clients.

A coroutine runs in turns, and waits between them while others run.  Only the turns count, in wall
clock time: a turn that waits for the kernel or the interpreter delays the others as well.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class LoopTime:
    """The total event loop time of one piece of work."""

    __slots__ = ("_began_ns", "_ended_ns", "_now_ns")

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._ended_ns = 0
        self._began_ns: int | None = None

    @property
    def total_ns(self) -> int:
        """The nanoseconds of all turns, with the current one."""
        if self._began_ns is None:
            return self._ended_ns
        return self._ended_ns + self._now_ns() - self._began_ns

    def begin(self) -> None:
        """Starts to measure a turn."""
        self._began_ns = self._now_ns()

    def end(self) -> None:
        """Ends the measured turn and records its duration."""
        self._ended_ns = self.total_ns
        self._began_ns = None

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Measures the block as a turn."""
        self.begin()
        try:
            yield
        finally:
            self.end()


class Timed(Generic[T]):
    """Awaits a coroutine, and adds its turns to a LoopTime."""

    def __init__(self, coroutine: Coroutine[Any, Any, T], loop_time: LoopTime) -> None:
        self.coroutine = coroutine
        self._loop_time = loop_time

    def __await__(self) -> Generator[Any, Any, T]:
        sent: Any = None
        thrown: BaseException | None = None
        while True:
            self._loop_time.begin()
            try:
                if thrown is None:
                    awaited = self.coroutine.send(sent)
                else:
                    awaited = self.coroutine.throw(thrown)
            except StopIteration as done:
                value: T = done.value
                return value
            finally:
                self._loop_time.end()
            sent = thrown = None
            try:
                sent = yield awaited
            except BaseException as raised:  # noqa: BLE001 - the coroutine must get it
                thrown = raised
