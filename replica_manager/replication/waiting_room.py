"""Lets coroutines wait for operations in a purgatory, until these are complete or time out.

One timer serves all of them; it is set to the next deadline.  Used on the event loop.

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
    """A purgatory, and the futures of the coroutines that wait for its operations."""

    def __init__(self) -> None:
        self.purgatory: Purgatory[Key, Operation] = Purgatory()
        self._futures: dict[int, asyncio.Future[bool]] = {}
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of waiting operations: gauge ``PurgatorySize``."""
        return len(self.purgatory)

    async def wait(self, operation: Operation, keys: Iterable[Key], timeout_ms: int) -> bool:
        """Waits until the operation is complete; False if it timed out before.

        If too many operations wait already, the result is True without a wait, and the operation
        may be incomplete.  CancelledError if the request's client disconnects.
        """
        future = self.park(operation, keys, timeout_ms)
        return True if future is None else await self.ended(operation, future)

    def park(
        self, operation: Operation, keys: Iterable[Key], timeout_ms: int
    ) -> asyncio.Future[bool] | None:
        """Begins the wait, for :meth:`ended`; None if :meth:`wait` would not wait."""
        loop = asyncio.get_running_loop()
        deadline_ms = math.ceil(loop.time() * 1000) + timeout_ms
        if not self.purgatory.park(operation, keys, deadline_ms):
            return None
        future: asyncio.Future[bool] = loop.create_future()
        self._futures[id(operation)] = future
        self._set_timer(loop)
        return future

    async def ended(self, operation: Operation, future: asyncio.Future[bool]) -> bool:
        """Waits for the end of a wait that was begun; the result and the error of :meth:`wait`."""
        try:
            with abandonable():
                return await future
        finally:
            if self._futures.pop(id(operation), None) is not None:
                self.purgatory.remove(operation)  # the wait was cancelled

    def check(self, key: Key) -> None:
        """Ends the wait of the operations that a change of ``key`` completed."""
        for operation in self.purgatory.check(key, self._fail):
            self._finish(operation, is_complete=True)

    def _finish(self, operation: Operation, *, is_complete: bool) -> None:
        future = self._futures.pop(id(operation))
        if not future.done():
            future.set_result(is_complete)

    def _fail(self, operation: Operation, error: Exception) -> None:
        """Ends the wait with ``error``, because the check of the operation failed."""
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
            # The loop's clock may be slightly before the deadline: so round up.
            for operation in self.purgatory.expire(math.ceil(loop.time() * 1000)):
                self._finish(operation, is_complete=False)
        finally:
            self._set_timer(loop)
