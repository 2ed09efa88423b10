"""The error of a broken invariant: the last actions in plain words, and how to replay them."""

from __future__ import annotations

from typing import Final

from zkcontroller_simulation.timeline import Timeline

LINES_SHOWN: Final = 60


class BrokenWorldError(AssertionError):
    """An invariant is broken; the message has the history and the command to replay it."""

    def __init__(self, timeline: Timeline, broken: str) -> None:
        shown = "\n".join(timeline.history[-LINES_SHOWN:])
        super().__init__(
            f"{broken}\n\nseed {timeline.seed}, after {timeline.clock.elapsed_ms} ms; "
            f"the last of {len(timeline.history)} lines of history:\n{shown}\n\n"
            f"replay: pytest tests/simulation/test_seeds.py --seed={timeline.seed}"
        )
