"""Cancels a request whose client has disconnected, where that is safe.

A connection notes its client's :class:`ClientPresence` for its own task.  A handler that has done
all its writing, and only waits for what it will answer, waits in an :func:`abandonable` block; one
that goes over many items calls :func:`raise_if_abandoned` between them, as long as it only reads.
There, and nowhere else, a request without a client ends: an effect that has begun is finished.

Tasks that a handler starts have no client and are never ended by this.

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
        # A value that held its key would be kept as long as the process, with its connection.
        self._task: ref[asyncio.Task[object]] = ref(task)
        self.is_gone = False
        self.waits = 0
        """How many abandonable blocks the task is in."""
        _PRESENT[task] = self

    def leave(self) -> None:
        """The client disconnected: cancels its request now, or where it next may be abandoned."""
        self.is_gone = True
        if self.waits and (task := self._task()) is not None:
            task.cancel()


_PRESENT: WeakKeyDictionary[asyncio.Task[object], ClientPresence] = WeakKeyDictionary()


@contextmanager
def abandonable() -> Iterator[None]:
    """In this block CancelledError ends the current request once its client disconnected."""
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
    """CancelledError if the client of the current task's request has disconnected."""
    presence = _present()
    if presence is not None and presence.is_gone:
        raise asyncio.CancelledError


def _present() -> ClientPresence | None:
    task = asyncio.current_task()
    return None if task is None else _PRESENT.get(task)
