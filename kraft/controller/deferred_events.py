"""Responses that wait until their records are committed.

Source: Kafka ``DeferredEventQueue``.
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

from kafka_common.errors import IllegalState

E = TypeVar("E")


class DeferredEventQueue(Generic[E]):
    """Waiting events, in the order of the offsets they wait for.

    Each belongs to a request that awaits its response, so there are at most
    ``quorum_controller.MAX_PENDING_REQUESTS``.
    """

    def __init__(self) -> None:
        self._pending: deque[tuple[int, E]] = deque()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, offset: int, event: E) -> None:
        """Adds an event; :class:`IllegalState` if another already waits for a later offset."""
        highest = self.highest_pending_offset()
        if highest is not None and offset < highest:
            raise IllegalState(f"an event for {offset} behind one for {highest}")
        self._pending.append((offset, event))

    def complete_up_to(self, offset: int) -> list[E]:
        """Removes and returns the events that wait for that offset or an earlier one."""
        completed = []
        while self._pending and self._pending[0][0] <= offset:
            completed.append(self._pending.popleft()[1])
        return completed

    def fail_all(self) -> list[E]:
        """Removes and returns every event."""
        failed = [event for _, event in self._pending]
        self._pending.clear()
        return failed

    def highest_pending_offset(self) -> int | None:
        """The highest offset that an event waits for; None without events."""
        return self._pending[-1][0] if self._pending else None
