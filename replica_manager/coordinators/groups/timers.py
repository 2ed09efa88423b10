"""Timers by key: set, moved, cancelled, and taken when due.

Every heartbeat moves the deadline of a session, so a move must be cheap: it changes only the table
of deadlines.  The timer's heap entry is moved to the new deadline when it comes to the top.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Final, NamedTuple

_SLACK: Final = 64
"""Heap entries allowed beyond twice the number of timers, before the heap is rebuilt."""


class TimerKind(Enum):
    """The purpose of a timer."""

    SESSION = "session"
    """A member's session ends, or the time in which to use a pending member id."""
    JOIN = "join"
    """The time ends in which members may join the next generation."""
    SYNC = "sync"
    """The time ends in which members must send SyncGroup."""
    SWEEP = "sweep"
    """Some groups are checked for expired offsets."""
    LOAD = "load"
    """Some more groups of a loaded partition are created."""


class GroupTimer(NamedTuple):
    """One timer: its kind, and its group, member or load."""

    kind: TimerKind
    group_id: str = ""
    member_id: str = ""
    load_id: int = 0


class Timers:
    """All timers of a coordinator; timers with the same deadline fire in a repeatable order."""

    def __init__(self) -> None:
        self._deadlines: dict[GroupTimer, int] = {}
        self._entries: dict[GroupTimer, tuple[int, int, GroupTimer]] = {}
        """The valid heap entry of each timer: (time, sequence, timer), never after its deadline."""
        self._heap: list[tuple[int, int, GroupTimer]] = []
        self._sequence = 0

    def __len__(self) -> int:
        return len(self._deadlines)

    def __iter__(self) -> Iterator[GroupTimer]:
        return iter(self._deadlines)

    def __contains__(self, timer: GroupTimer) -> bool:
        return timer in self._deadlines

    @property
    def heap_size(self) -> int:
        """The number of heap entries: at most about twice the number of timers."""
        return len(self._heap)

    def set(self, timer: GroupTimer, deadline_ms: int) -> None:
        """Sets the timer to ``deadline_ms``, which replaces its earlier deadline."""
        self._deadlines[timer] = deadline_ms
        entry = self._entries.get(timer)
        if entry is None or deadline_ms < entry[0]:
            self._push(timer, deadline_ms)

    def cancel(self, timer: GroupTimer) -> None:
        """Cancels the timer; does nothing if it is not set."""
        if self._deadlines.pop(timer, None) is not None and len(self._heap) > self._bound:
            self._rebuild()

    def next_deadline_ms(self) -> int | None:
        """The deadline of the next timer; None if there are no timers."""
        while self._heap:
            time, _, timer = self._heap[0]
            deadline = self._deadlines.get(timer)
            is_current = self._entries.get(timer) is self._heap[0]
            if is_current and deadline == time:
                return time
            heappop(self._heap)
            if is_current:
                del self._entries[timer]
                if deadline is not None:
                    self._push(timer, deadline)
        return None

    def take_due(self, now_ms: int) -> GroupTimer | None:
        """Removes and returns the earliest due timer; None if none is due."""
        deadline = self.next_deadline_ms()
        if deadline is None or deadline > now_ms:
            return None
        _, _, timer = heappop(self._heap)
        del self._entries[timer], self._deadlines[timer]
        return timer

    @property
    def _bound(self) -> int:
        return 2 * len(self._deadlines) + _SLACK

    def _push(self, timer: GroupTimer, deadline_ms: int) -> None:
        self._sequence += 1
        entry = (deadline_ms, self._sequence, timer)
        self._entries[timer] = entry
        heappush(self._heap, entry)
        if len(self._heap) > self._bound:
            self._rebuild()

    def _rebuild(self) -> None:
        self._entries = {
            timer: entry for timer, entry in self._entries.items() if timer in self._deadlines
        }
        self._heap = list(self._entries.values())
        heapify(self._heap)
