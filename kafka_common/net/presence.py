"""Cancels a request whose client has disconnected, where that is safe.

A connection's task has a :class:`ClientPresence`.  A handler that has finished all its writes, and
only waits for its response, waits in an :func:`abandonable` block.  A handler that only reads many
items calls :func:`raise_if_abandoned` between them.
A request whose client has disconnected is cancelled at these places only, so that a write which has
begun is finished.

Tasks that a handler starts have no client and are never cancelled here.

Source: Kafka closes the connection and forgets the response; its purgatory keeps the operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary, ref


class ClientPresence:
    """Whether the client of a task's requests is still connected."""

    def __init__(self) -> None:
        """Watches the current task."""
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        # A weak reference: with a strong one the entry in _PRESENT would never be removed.
        self._task: ref[asyncio.Task[object]] = ref(task)
        self.is_gone = False
        self.waits = 0
        """The number of nested :func:`abandonable` blocks that the task is in."""
        _PRESENT[task] = self

    def leave(self) -> None:
        """Records that the client disconnected, and cancels its request at the next safe place."""
        self.is_gone = True
        if self.waits and (task := self._task()) is not None:
            task.cancel()


_PRESENT: WeakKeyDictionary[asyncio.Task[object], ClientPresence] = WeakKeyDictionary()


@contextmanager
def abandonable() -> Iterator[None]:
    """A block in which the request is cancelled (CancelledError) if its client disconnects."""
    presence = _present()
    if presence is None:
        yield
        return
    raise_if_abandoned()
    presence.waits += 1
    try:
        yield
    finally:
        presence.waits -= 1


def raise_if_abandoned() -> None:
    """Raises CancelledError if the client of the current task has disconnected."""
    presence = _present()
    if presence is not None and presence.is_gone:
        raise asyncio.CancelledError


def _present() -> ClientPresence | None:
    task = asyncio.current_task()
    return None if task is None else _PRESENT.get(task)
