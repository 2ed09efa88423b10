"""Responses that coroutines wait for, by the id of their requests.

A request goes to a thread or a queue as a value with an id, and its response comes back as a value
with the same id.  Meanwhile the request's coroutine waits here.  A response is dropped if its
request has ended, because the client disconnected or the request timed out.

Source: Kafka ``CompletableFuture`` in ``QuorumController.ControllerWriteEvent``,
``KafkaRaftClient.RaftRequest.Inbound``.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, TypeVar

_R = TypeVar("_R")


class AwaitedResponses(Generic[_R]):
    """The requests that wait for a response.  Use it in the event loop's thread only.

    It has no bound: the senders of requests limit how many are in flight.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[_R]] = {}

    def __len__(self) -> int:
        """The number of requests that wait for a response."""
        return len(self._waiting)

    def new_id(self) -> int:
        """A request id that no other request has."""
        return next(self._ids)

    @contextmanager
    def expected(self, request_id: int) -> Iterator[asyncio.Future[_R]]:
        """A future for the response to a request that is sent within the block.

        After the block a response to the request is dropped.
        """
        response: asyncio.Future[_R] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = response
        try:
            yield response
        finally:
            self._waiting.pop(request_id, None)

    def complete(self, request_id: int, result: _R) -> None:
        """Sets the response of a request, unless the request has ended."""
        waiting = self._waiting.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_result(result)

    def refuse(self, request_id: int, error: Exception) -> None:
        """Makes a request raise that error, unless the request has ended."""
        waiting = self._waiting.get(request_id)
        if waiting is not None and not waiting.done():
            waiting.set_exception(error)

    def refuse_all(self, error: Callable[[], Exception]) -> None:
        """Makes every request raise a new error, which ``error`` creates."""
        for request_id in list(self._waiting):
            self.refuse(request_id, error())

    def cancel_all(self) -> None:
        """Cancels every request."""
        for waiting in list(self._waiting.values()):
            waiting.cancel()
        self._waiting.clear()
