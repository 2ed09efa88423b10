"""Delayed operations: requests that wait for a change or for a timeout.

The caller of ``park`` names the keys whose change could complete the operation.  Code that changes
something calls :meth:`Purgatory.check` with its key and gets the operations that are complete now.
:meth:`Purgatory.expire` returns those that have timed out.  No operation is returned
twice.  This module reads no clock and sends no response.

Source: Kafka ``DelayedOperationPurgatory``.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

MOST_WAITING: Final = 100_000
"""Limit of operations parked at once.

A connection parks one at a time, so a limit of connections or open files is mostly reached first.
"""


class DelayedOperation(Protocol):
    """An operation that waits."""

    def is_complete(self) -> bool:
        """Whether the operation can complete now; may store what it has checked."""


Key = TypeVar("Key", bound=Hashable)
Operation = TypeVar("Operation", bound=DelayedOperation)


@dataclass(eq=False, slots=True)
class _Parked(Generic[Key, Operation]):
    operation: Operation
    keys: tuple[Key, ...]
    deadline_ms: int
    is_waiting: bool = True


class Purgatory(Generic[Key, Operation]):
    """Parked operations of one kind; each waits for the change of one or more keys."""

    def __init__(self, most_waiting: int = MOST_WAITING) -> None:
        self._most_waiting = most_waiting
        self._watchers: dict[Key, dict[int, _Parked[Key, Operation]]] = {}
        # (deadline, number, operation); the number keeps the order of arrival.  Entries of removed
        # operations stay until they are on top or make up more than half of the heap.
        self._deadlines: list[tuple[int, int, _Parked[Key, Operation]]] = []
        self._waiting: dict[int, _Parked[Key, Operation]] = {}
        # The number of each waiting operation by its ``id()``, which is unique while it waits.
        self._numbers: dict[int, int] = {}
        self._arrivals = 0

    def __len__(self) -> int:
        """The number of waiting operations: gauge ``PurgatorySize``."""
        return len(self._waiting)

    @property
    def watched(self) -> int:
        """The number of (key, operation) pairs; 0 once nothing waits."""
        return sum(len(watchers) for watchers in self._watchers.values())

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call :meth:`expire` next; None if nothing waits."""
        self._forget_done()
        return self._deadlines[0][0] if self._deadlines else None

    def park(self, operation: Operation, keys: Iterable[Key], deadline_ms: int) -> bool:
        """Adds an operation; False if it is complete already, or if too many wait.

        Then the caller sends the response without a wait.
        """
        if operation.is_complete() or len(self._waiting) >= self._most_waiting:
            return False
        parked = _Parked(operation, tuple(dict.fromkeys(keys)), deadline_ms)
        number = self._arrivals
        self._arrivals += 1
        for key in parked.keys:
            self._watchers.setdefault(key, {})[number] = parked
        self._waiting[number] = parked
        self._numbers[id(operation)] = number
        heapq.heappush(self._deadlines, (deadline_ms, number, parked))
        return True

    def watching(self, key: Key) -> list[Operation]:
        """The operations that wait for a change of ``key``, in order of arrival."""
        return [parked.operation for parked in self._watchers.get(key, {}).values()]

    def check(
        self, key: Key, failed: Callable[[Operation, Exception], None] | None = None
    ) -> list[Operation]:
        """Removes and returns the complete operations that wait for ``key``, in order of arrival.

        An operation whose check raises an exception is removed as well and passed to ``failed``, so
        that neither the other operations nor the caller fail.  Without ``failed`` the exception is
        raised.
        """
        watchers = self._watchers.get(key)
        if watchers is None:
            return []
        done: list[int] = []
        broken: dict[int, Exception] = {}
        for number, parked in watchers.items():
            try:
                if parked.operation.is_complete():
                    done.append(number)
            except Exception as error:  # noqa: BLE001 - passed to ``failed`` below
                broken[number] = error
        for number, failure in broken.items():
            operation = self._take_out(number)
            if failed is None:
                raise failure
            failed(operation, failure)
        return [self._take_out(number) for number in done]

    def expire(self, now_ms: int) -> list[Operation]:
        """Removes and returns the timed-out operations, the earliest first."""
        expired: list[Operation] = []
        while self._deadlines and self._deadlines[0][0] <= now_ms:
            _, number, parked = heapq.heappop(self._deadlines)
            if parked.is_waiting:
                expired.append(self._take_out(number))
        return expired

    def remove(self, operation: Operation) -> None:
        """Removes an operation without completing it, as when its client has disconnected."""
        number = self._numbers.get(id(operation))
        if number is not None:
            self._take_out(number)

    def _take_out(self, number: int) -> Operation:
        parked = self._waiting.pop(number)
        parked.is_waiting = False
        del self._numbers[id(parked.operation)]
        for key in parked.keys:
            watchers = self._watchers[key]
            del watchers[number]
            if not watchers:
                del self._watchers[key]
        if len(self._deadlines) > 2 * len(self._waiting) + 1:
            self._deadlines = [entry for entry in self._deadlines if entry[2].is_waiting]
            heapq.heapify(self._deadlines)
        return parked.operation

    def _forget_done(self) -> None:
        while self._deadlines and not self._deadlines[0][2].is_waiting:
            heapq.heappop(self._deadlines)
