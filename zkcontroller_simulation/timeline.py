"""Virtual time: one heap of scheduled actions, one source of randomness, one history.

The whole simulation is a function of its seed.  Nothing in it looks at a real clock, starts a
thread or iterates over a set of strings, so the same seed gives the same history in every process.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from random import Random

Action = Callable[[], None]
Bounds = tuple[int, int]


class FakeClock:
    """A clock in milliseconds that only the timeline advances."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self.started_ms = now_ms
        self.now_ms = now_ms

    @property
    def elapsed_ms(self) -> int:
        """Milliseconds since the simulation began."""
        return self.now_ms - self.started_ms


def _ignore(_: str) -> None:
    pass


class Timeline:
    """The scheduled actions, ordered by (time, tie-breaker, order of scheduling)."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = FakeClock()
        self.history: list[str] = []
        self.on_line: Callable[[str], None] = _ignore
        """Called with each line of the history."""
        self.is_shuffling = False
        """Whether actions of the same millisecond happen in random order."""
        self._heap: list[tuple[int, float, int, bool, Action]] = []
        self._scheduled = 0
        self._foreground = 0

    @property
    def is_quiet(self) -> bool:
        """Whether only background actions are left."""
        return self._foreground == 0

    def within(self, bounds: Bounds) -> int:
        """A random number of milliseconds, both bounds included."""
        low, high = bounds
        return low if low == high else self.random.randint(low, high)

    def happens(self, probability: float) -> bool:
        """True with that probability; draws no random number if that is 0."""
        return probability > 0 and self.random.random() < probability

    def after(
        self, delay_ms: int, action: Action, *, background: bool = False, in_order: bool = False
    ) -> None:
        """Schedules an action.

        ``background`` actions do not keep the world from being quiet; ``in_order`` ones never
        overtake each other within a millisecond.
        """
        tie = self.random.random() if self.is_shuffling and not in_order else 0.0
        self._scheduled += 1
        entry = (self.clock.now_ms + delay_ms, tie, self._scheduled, background, action)
        heapq.heappush(self._heap, entry)
        self._foreground += not background

    def run_next(self) -> None:
        """Moves the clock to the next action and runs it."""
        time_ms, _, _, background, action = heapq.heappop(self._heap)
        self._foreground -= not background
        assert time_ms >= self.clock.now_ms, "time never goes back"
        self.clock.now_ms = time_ms
        action()

    def tell(self, line: str) -> None:
        """Adds a line in plain words to the history."""
        seconds, milliseconds = divmod(self.clock.elapsed_ms, 1000)
        self.history.append(f"{seconds:4}.{milliseconds:03} {line}")
        self.on_line(line)


class Lane:
    """One direction of a connection, which keeps the order of messages."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._last_arrival_ms = 0

    def send(self, delay_ms: int, action: Action) -> None:
        """Schedules the arrival of a message, never before that of an earlier message."""
        now_ms = self._timeline.clock.now_ms
        self._last_arrival_ms = max(now_ms + delay_ms, self._last_arrival_ms)
        self._timeline.after(self._last_arrival_ms - now_ms, action, in_order=True)
