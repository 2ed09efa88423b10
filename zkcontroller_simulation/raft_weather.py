"""How badly nodes and the network between them behave: milliseconds, and probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from zkcontroller_simulation.timeline import Bounds


@dataclass(frozen=True, slots=True)
class RaftWeather:
    """The conditions that hold from now on."""

    delay_ms: Bounds = (1, 3)
    """Of a message."""
    late: float = 0.0
    """That a message takes ``lateness_ms`` more, and so is overtaken by others."""
    lateness_ms: Bounds = (0, 0)
    loss: float = 0.0
    """Of a message, request or answer."""
    repetition: float = 0.0
    """That a message arrives twice."""
    told_of_loss: float = 0.5
    """That the sender of a request learns of its loss, as with a broken connection."""
    persist_ms: Bounds = (0, 2)
    flush_ms: Bounds = (0, 2)
    listener_ms: Bounds = (0, 5)
    """How long a state machine takes for what it is given."""
    crash_at_disk: float = 0.0
    """That a node crashes before or after it writes something durably."""
    power_loss: float = 1.0
    """That a crash is one of the machine: what was not flushed is lost."""


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
