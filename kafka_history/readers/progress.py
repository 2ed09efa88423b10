"""Reports the progress of a long job while its caller waits for the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Final

INTERVAL_S: Final = 3.0
"""Seconds between two reports."""


@contextmanager
def telling(
    tell: Callable[[int, int], None] | None, done: Callable[[], int], total: int
) -> Iterator[None]:
    """While the ``with`` block runs, calls ``tell(done(), total)`` each time it has changed."""
    if tell is None:
        yield
        return
    is_over = Event()

    def watch() -> None:
        before = 0
        while not is_over.wait(INTERVAL_S):
            now = done()
            if now != before:
                tell(now, total)
            before = now

    thread = Thread(target=watch, name="history-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
