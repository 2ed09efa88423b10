"""Where coroutines wait for a purgatory: until their operation is complete, or their time is over.

One timer serves them all: it stands on the next deadline.  For the event loop.

Source: Kafka ``DelayedOperationPurgatory`` with its ``SystemTimer``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable
from typing import Generic

from kafka_common.net.presence import abandonable
from replica_manager.replication.purgatory import Key, Operation, Purgatory


class WaitingRoom(Generic[Key, Operation]):
    """A purgatory, and the futures of those who wait for its operations."""

    def __init__(self) -> None:
        self.purgatory: Purgatory[Key, Operation] = Purgatory()
        self._futures: dict[int, asyncio.Future[bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Gauge ``PurgatorySize``."""
        return len(self.purgatory)

    async def wait(self, operation: Operation, keys: Iterable[Key], timeout_ms: int) -> bool:
        """Returns when the operation is complete; False if its time was over before.

        Too many wait already: True at once, and the caller answers with what there is.
        CancelledError if the request's client goes away.
        """
        loop = asyncio.get_running_loop()
        deadline_ms = math.ceil(loop.time() * 1000) + timeout_ms
        if not self.purgatory.park(operation, keys, deadline_ms):
            return True
        future: asyncio.Future[bool] = loop.create_future()
        self._futures[id(operation)] = future
        self._set_timer(loop)
        try:
            with abandonable():
                return await future
        finally:
            if self._futures.pop(id(operation), None) is not None:
                self.purgatory.remove(operation)  # the request has ended without it

    def check(self, key: Key) -> None:
        """Something about ``key`` has changed: lets those go on that are complete now."""
        for operation in self.purgatory.check(key, self._fail):
            self._finish(operation, is_complete=True)

    def _finish(self, operation: Operation, *, is_complete: bool) -> None:
        future = self._futures.pop(id(operation))
        if not future.done():
            future.set_result(is_complete)

    def _fail(self, operation: Operation, error: Exception) -> None:
        """The request of an operation that cannot be looked at ends with that error."""
        future = self._futures.pop(id(operation))
        if not future.done():
            future.set_exception(error)

    def _set_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        next_ms = self.purgatory.next_deadline_ms
        if next_ms is None:
            return
        if self._timer is not None:
            if self._timer.when() * 1000 <= next_ms:
                return
            self._timer.cancel()
        self._timer = loop.call_at(next_ms / 1000, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        try:
            # The loop's clock may stand a hair before the deadline that it has called for.
            for operation in self.purgatory.expire(math.ceil(loop.time() * 1000)):
                self._finish(operation, is_complete=False)
        finally:
            self._set_timer(loop)
