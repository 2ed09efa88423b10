"""A timeline with alarms, which may be set again and again without filling the heap."""

from __future__ import annotations

import heapq
from functools import partial
from typing import NamedTuple

from zkcontroller_simulation.timeline import Action, Timeline


class _Due(NamedTuple):
    """The time of an action, with its order among actions of the same millisecond."""

    time_ms: int
    tie: float
    scheduled: int


class RaftTimeline(Timeline):
    """Runs the actions of one moment in random order, unless ``is_shuffling`` is False."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_shuffling = True

    def moment(self, delay_ms: int) -> _Due:
        """A time ``delay_ms`` from now, with its order among actions of that millisecond."""
        tie = self.random.random() if self.is_shuffling else 0.0
        self._scheduled += 1
        return _Due(self.clock.now_ms + delay_ms, tie, self._scheduled)

    def at(self, due: _Due, action: Action) -> None:
        """Schedules an action for a time that :meth:`moment` returned."""
        heapq.heappush(self._heap, (*due, False, action))
        self._foreground += 1


class Alarm:
    """Runs its action once, at the time to which it was set last."""

    def __init__(self, timeline: RaftTimeline, action: Action) -> None:
        self._timeline = timeline
        self._action = action
        self._due: _Due | None = None
        self._in_heap: _Due | None = None
        """The time of the alarm's entry in the heap, at or before its due time; None: no entry."""

    def set(self, delay_ms: int) -> None:
        """Sets the alarm to ``delay_ms`` from now, and cancels its earlier time."""
        due = self._due = self._timeline.moment(delay_ms)
        if self._in_heap is None or due < self._in_heap:
            self._wait_for(due)

    def _wait_for(self, due: _Due) -> None:
        self._in_heap = due
        self._timeline.at(due, partial(self._look, due))

    def _look(self, seen: _Due) -> None:
        if seen != self._in_heap:
            return
        due, self._in_heap = self._due, None
        if due == seen:
            self._due = None
            self._action()
        elif due is not None:
            self._wait_for(due)
