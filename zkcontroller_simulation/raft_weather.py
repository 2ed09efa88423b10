"""The faults of nodes and their network: delays in milliseconds, and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkcontroller_simulation.timeline import Bounds


@dataclass(frozen=True, slots=True)
class RaftWeather:
    """Delays (least, most) in milliseconds, and probabilities of faults."""

    delay_ms: Bounds = (1, 3)
    """Delay of a message."""
    late: float = 0.0
    """Probability that a message takes ``lateness_ms`` more, so that others overtake it."""
    lateness_ms: Bounds = (0, 0)
    loss: float = 0.0
    """Probability that a request or response is lost."""
    repetition: float = 0.0
    """Probability that a message arrives twice."""
    told_of_loss: float = 0.5
    """Probability that a sender learns of a loss, as with a broken connection."""
    persist_ms: Bounds = (0, 2)
    flush_ms: Bounds = (0, 2)
    listener_ms: Bounds = (0, 5)
    """Time that a state machine needs for one call."""
    crash_at_disk: float = 0.0
    """Probability that a node crashes before or after a durable write."""
    power_loss: float = 1.0
    """Probability that a crash is a loss of power, so that unflushed data is lost."""


CALM: Final = RaftWeather()

GREY: Final = RaftWeather(
    delay_ms=(0, 40),
    late=0.02,
    lateness_ms=(100, 1_500),
    loss=0.02,
    repetition=0.05,
    persist_ms=(0, 10),
    flush_ms=(0, 20),
    listener_ms=(0, 60),
    crash_at_disk=0.002,
    power_loss=0.7,
)

STORMY: Final = RaftWeather(
    delay_ms=(0, 150),
    late=0.1,
    lateness_ms=(100, 4_000),
    loss=0.1,
    repetition=0.1,
    persist_ms=(0, 100),
    flush_ms=(0, 200),
    listener_ms=(0, 300),
    crash_at_disk=0.01,
    power_loss=0.7,
)
