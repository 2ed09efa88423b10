"""The controller's event queue, with deadlines and deferred events.

Source: Kafka ``KafkaEventQueue``.  There a thread waits for events; here the owner calls ``take``.
"""

from __future__ import annotations

import heapq
from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, NamedTuple, TypeVar

E = TypeVar("E")

# Entries that were taken stay in the heap until their deadline comes, or until they are this many.
_MAX_STALE: Final = 1024


class Taken(NamedTuple, Generic[E]):
    """An event taken from the queue."""

    event: E
    is_timed_out: bool
    """Whether the event's deadline passed before it was taken."""
    since_ns: int | None
    """The ``since_ns`` that was passed to :meth:`ControllerEventQueue.append`."""


@dataclass(slots=True, eq=False)
class _Entry(Generic[E]):
    event: E | None
    """None after the event was removed: its entry stays in the heap until the deadline."""
    deadline_ms: int | None
    tag: str | None
    since_ns: int | None = None

    @property
    def is_gone(self) -> bool:
        return self.event is None


class ControllerEventQueue(Generic[E]):
    """Events in order; an event whose deadline has passed is taken first, as timed out.

    The owner limits its size: the quorum's events come one at a time, and at most
    ``quorum_controller.MAX_PENDING_REQUESTS`` requests are accepted.
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
        """Schedules the event; replaces the one with the same tag, at the earlier of both times."""
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
        """Removes and returns the next event to run; None if there is none.

        Events whose time has come are taken first.  So an overloaded controller still fences
        brokers whose session has ended.
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
        """The time of the next call of :meth:`take`; None if no event is queued."""
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
