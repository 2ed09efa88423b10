"""A timeline with alarms: what is put off again and again is in the heap once, not each time."""

from __future__ import annotations

import heapq
from functools import partial
from typing import NamedTuple

from zkcontroller_simulation.timeline import Action, Timeline


class _Due(NamedTuple):
    """When an alarm rings; what is scheduled for the same moment has an order, too."""

    time_ms: int
    tie: float
    scheduled: int


class RaftTimeline(Timeline):
    """Runs the actions of one moment in random order, unless ``is_shuffling`` is False."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.is_shuffling = True

    def moment(self, delay_ms: int) -> _Due:
        """A place in the order of all things to happen."""
        tie = self.random.random() if self.is_shuffling else 0.0
        self._scheduled += 1
        return _Due(self.clock.now_ms + delay_ms, tie, self._scheduled)

    def at(self, due: _Due, action: Action) -> None:
        """Schedules an action for a place in that order."""
        heapq.heappush(self._heap, (*due, False, action))
        self._foreground += 1


class Alarm:
    """Rings once, at the time that it was set to last."""

    def __init__(self, timeline: RaftTimeline, action: Action) -> None:
        self._timeline = timeline
        self._action = action
        self._due: _Due | None = None
        self._in_heap: _Due | None = None
        """When it is looked at next: not after it is due."""

    def set(self, delay_ms: int) -> None:
        """It rings then and not before, whatever it was set to."""
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
