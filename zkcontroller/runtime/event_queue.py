"""The queue between the threads: any thread puts events, the event thread takes them.

Source: Kafka ``ControllerEventManager`` and ``QueuedEvent``.  Three deviations:

* **A watch event that already waits is not queued again.**  A watch event has no data; it only
  says which znodes to read again.  The waiting event will read them later, and will see the change
  that fired the second watch.  An event that is being processed may have read them already, so an
  equal event is then queued.
* **Requests from clients are limited.**  Kafka's queue has no limit.  The number of watch events is
  limited because equal ones are dropped, that of responses by the requests sent, and the
  controller's own events wait at most once per kind.  Only clients may send any number of events:
  those with a ``request_id``.
* **A changed default of unclean elections outlives a session**, as its event carries the value.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from kafka_common.errors import EventQueueFull, IllegalState
from zkcontroller.core.events import (
    WATCH_EVENTS,
    Event,
    RequestEvent,
    UncleanLeaderElectionEnable,
)

REQUEST_CAPACITY: Final = 1_000
"""The number of requests that may wait; the next one is refused."""
_LASTING: Final = UncleanLeaderElectionEnable
"""An event that carries what Kafka reads from its configuration when it elects."""


@dataclass(eq=False, slots=True)
class QueuedEvent:
    """An event and the time it was queued; it is processed or preempted, and only once."""

    event: Event
    enqueued_ms: float
    """Milliseconds of the monotonic clock at which the event was queued."""
    is_spent: bool = False


class EventQueue:
    """First in, first out.  Any thread may call ``put``, only the event thread ``take``."""

    def __init__(
        self,
        *,
        monotonic_ms: Callable[[], float],
        preempt: Callable[[Event], None],
        request_capacity: int = REQUEST_CAPACITY,
    ) -> None:
        """Creates an empty queue.

        ``clear_and_put`` calls ``preempt`` for every event that it drops, because a client may wait
        for its response.
        """
        self._monotonic_ms = monotonic_ms
        self._preempt = preempt
        self._request_capacity = request_capacity
        self._changed = threading.Condition()
        self._waiting: deque[QueuedEvent] = deque()
        self._waiting_watches: dict[Event, QueuedEvent] = {}
        self._requests = 0

    def __len__(self) -> int:
        """The number of events that wait (the gauge ``EventQueueSize``)."""
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
        """Removes and preempts all waiting events and queues the event, in one atomic step.

        The last change of a configuration stays, behind the event: nothing would bring it again.
        """
        with self._changed:
            drained = list(self._waiting)
            lasting = [each.event for each in drained if isinstance(each.event, _LASTING)][-1:]
            self._waiting.clear()
            self._waiting_watches.clear()
            self._requests = 0
            for queued in drained:
                self._spend(queued)
                self._preempt(queued.event)
            first = self._append(event)
            for each in lasting:
                self._append(each)
            return first

    def take(self, timeout_s: float | None = None) -> QueuedEvent | None:
        """Waits for the next event and removes it from the queue; None after ``timeout_s``."""
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
    """Whether the event is a client's request.

    The controller and watches put elections too, without a ``request_id``.
    """
    return isinstance(event, RequestEvent) and event.request_id is not None
