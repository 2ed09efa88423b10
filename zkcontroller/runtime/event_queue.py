"""The queue between the threads: any thread puts events, the event thread takes them.

Source: Kafka ``ControllerEventManager`` and ``QueuedEvent``.  Two deviations:

* **A watch that already waits is not queued again.**  A watch event carries no data; it says "read
  that again".  The waiting one has not been processed, so its read still lies ahead and will see
  whatever made the second watch fire.  An event that is being processed is no longer waiting: its
  read may be over, so the next one is queued.
* **Requests from outside have a bound.**  Kafka's queue has none.  Watch events are bounded by
  their deduplication, responses by what was sent, and the controller's own events are one at a
  time of each kind; but anyone may send requests.  A request is what carries a ``request_id``.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_common.errors import EventQueueFull, IllegalState
from zkcontroller.core.events import WATCH_EVENTS, Event, RequestEvent

REQUEST_CAPACITY: Final = 1_000
"""Requests that may wait; the next one is refused."""


@dataclass(eq=False, slots=True)
class QueuedEvent:
    """An event with the moment it was put; runs at most once, preempted or processed."""

    event: Event
    enqueued_ms: float
    """Monotonic clock."""
    is_spent: bool = False


class EventQueue:
    """First in, first out; ``put`` from any thread, ``take`` from the event thread alone."""

    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], float],
        preempt: Callable[[Event], None],
        request_capacity: int = REQUEST_CAPACITY,
    ) -> None:
        """An empty queue.

        ``preempt`` is called for every event that ``clear_and_put`` drops, in that caller's
        thread: a client may be waiting for its response.
        """
        self._monotonic_ms = monotonic_ms
        self._preempt = preempt
        self._request_capacity = request_capacity
        self._changed = threading.Condition()
        self._waiting: deque[QueuedEvent] = deque()
        self._waiting_watches: dict[Event, QueuedEvent] = {}
        self._requests = 0

    def __len__(self) -> int:
        """Events that wait (the gauge ``EventQueueSize``)."""
        return len(self._waiting)

    def put(self, event: Event) -> QueuedEvent:
        """Queues the event; an equal watch event that already waits is returned instead.

        Raises EventQueueFull for a request when ``request_capacity`` of them wait.
        """
        with self._changed:
            already_waiting = self._waiting_watches.get(event)
            if already_waiting is not None:
                return already_waiting
            if _is_request(event) and self._requests >= self._request_capacity:
                raise EventQueueFull(self._request_capacity)
            return self._append(event)

    def clear_and_put(self, event: Event) -> QueuedEvent:
        """In one step: drains the queue, preempts what was in it, and queues the event."""
        with self._changed:
            drained = list(self._waiting)
            self._waiting.clear()
            self._waiting_watches.clear()
            self._requests = 0
            for queued in drained:
                self._spend(queued)
                self._preempt(queued.event)
            return self._append(event)

    def take(self, timeout_s: float | None = None) -> QueuedEvent | None:
        """The next event, or None if none came in time; releases those who await its processing."""
        with self._changed:
            if not self._changed.wait_for(lambda: bool(self._waiting), timeout_s):
                return None
            queued = self._waiting.popleft()
            if isinstance(queued.event, WATCH_EVENTS):
                del self._waiting_watches[queued.event]
            elif _is_request(queued.event):
                self._requests -= 1
            self._spend(queued)
            return queued

    def _append(self, event: Event) -> QueuedEvent:
        queued = QueuedEvent(event, self._monotonic_ms())
        self._waiting.append(queued)
        if isinstance(event, WATCH_EVENTS):
            self._waiting_watches[event] = queued
        elif _is_request(event):
            self._requests += 1
        self._changed.notify_all()
        return queued

    @staticmethod
    def _spend(queued: QueuedEvent) -> None:
        if queued.is_spent:
            raise IllegalState(f"{queued.event} was processed or preempted already")
        queued.is_spent = True


def _is_request(event: Event) -> bool:
    """Whether a client sent it; the controller and watches put elections too."""
    return isinstance(event, RequestEvent) and event.request_id is not None
