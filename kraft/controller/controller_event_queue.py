"""The controller's event queue, with deadlines and deferred events.

Source: Kafka ``KafkaEventQueue``.  There a thread waits on it; here its owner asks what is next.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

E = TypeVar("E")

# Entries of the heap that were taken out otherwise stay until they come up, or are this many.
_MAX_STALE: Final = 1024


class Taken(NamedTuple, Generic[E]):
    """An event taken from the queue."""

    event: E
    is_timed_out: bool
    """Its deadline came before its turn."""
    since_ns: int | None
    """When it was put, as its owner said."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[E]):
    event: E | None
    """None when it is gone: its place among the deadlines outlives it, perhaps by a minute."""
    deadline_ms: int | None
    tag: str | None
    since_ns: int | None = None

    @property
    def is_gone(self) -> bool:
        return self.event is None


class ControllerEventQueue(Generic[E]):
    """Events in order; an event whose deadline passes is taken early, as timed out.

    Its owner bounds it: raft's events come one at a time, and requests are admitted up to
    ``quorum_controller.MAX_UNANSWERED_REQUESTS``.
    """

    def __init__(self) -> None:
        self._queue: deque[_Entry[E]] = deque()
        self._by_deadline: list[tuple[int, int, _Entry[E]]] = []
        self._by_tag: dict[str, _Entry[E]] = {}
        self._sequence = 0
        self._stale = 0

    def append(self, event: E, deadline_ms: int | None = None, since_ns: int | None = None) -> None:
        """Adds the event at the end."""
        entry = _Entry(event, deadline_ms, None, since_ns)
        self._queue.append(entry)
        self._index(entry)

    def prepend(self, event: E) -> None:
        """Adds the event at the front; only for the event that completes an activation."""
        self._queue.appendleft(_Entry(event, None, None))

    def schedule_deferred(self, tag: str, at_ms: int, event: E) -> None:
        """Schedules the event; one with the same tag keeps the earlier of both times.

        It takes the other one's place.
        """
        previous = self._by_tag.get(tag)
        if previous is not None:
            assert previous.deadline_ms is not None
            at_ms = min(at_ms, previous.deadline_ms)
            self._remove(previous)
        entry = _Entry(event, at_ms, tag)
        self._by_tag[tag] = entry
        self._index(entry)

    def cancel_deferred(self, tag: str) -> None:
        """Removes the deferred event with that tag, if there is one."""
        entry = self._by_tag.get(tag)
        if entry is not None:
            self._remove(entry)

    def take(self, now_ms: int) -> Taken[E] | None:
        """The next event to run, if any.

        What is due by time comes first.  So an overloaded controller still fences silent brokers.
        """
        entry = self._first_by_deadline()
        if entry is not None:
            assert entry.deadline_ms is not None
            if entry.deadline_ms <= now_ms:
                return Taken(self._remove(entry), entry.tag is None, entry.since_ns)
        while self._queue:
            entry = self._queue.popleft()
            if not entry.is_gone:
                return Taken(self._remove(entry), False, entry.since_ns)
        return None

    def next_time_ms(self, now_ms: int) -> int | None:
        """When to call :meth:`take` next; None if no event is queued."""
        while self._queue and self._queue[0].is_gone:
            self._queue.popleft()
        if self._queue:
            return now_ms
        entry = self._first_by_deadline()
        return None if entry is None else entry.deadline_ms

    def _index(self, entry: _Entry[E]) -> None:
        if entry.deadline_ms is not None:
            self._sequence += 1
            heapq.heappush(self._by_deadline, (entry.deadline_ms, self._sequence, entry))

    def _first_by_deadline(self) -> _Entry[E] | None:
        while self._by_deadline and self._by_deadline[0][2].is_gone:
            heapq.heappop(self._by_deadline)
            self._stale -= 1
        return self._by_deadline[0][2] if self._by_deadline else None

    def _remove(self, entry: _Entry[E]) -> E:
        event, entry.event = entry.event, None
        assert event is not None, "it is gone already"
        if entry.tag is not None:
            del self._by_tag[entry.tag]
        if entry.deadline_ms is not None:
            self._stale += 1
            self._drop_stale()
        return event

    def _drop_stale(self) -> None:
        if self._stale > _MAX_STALE and self._stale * 2 > len(self._by_deadline):
            self._by_deadline = [item for item in self._by_deadline if not item[2].is_gone]
            heapq.heapify(self._by_deadline)
            self._stale = 0
