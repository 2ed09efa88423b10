"""What stops a broker's parts, in Kafka's order, whichever of them have been started.

A part adds its stop when it is made.  So a start that fails midway is undone by the same steps as a
running broker, and no step has to find out whether its part exists.

Source: Kafka ``KafkaServer.shutdown``.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Awaitable, Callable
from enum import Enum
from typing import TypeAlias

_log = logging.getLogger("kafka.server.KafkaServer")

Stop: TypeAlias = Callable[[], Awaitable[object]]


class StopStep(Enum):
    """The steps, in their order."""

    FOLLOWING = "following"
    """Changes of the metadata are followed no more."""
    LISTENERS = "listeners"
    PRODUCER_IDS = "producer ids"
    RECORDS = "records"
    STORAGE = "storage"
    CONTROLLER = "controller"
    """The controller candidate resigns."""
    METADATA = "metadata"
    """The connection to the source of metadata, and with it the registration, ends."""
    EXECUTOR = "executor"


class Stops:
    """The stops of one broker.  For the event loop, but for :attr:`is_stopping`."""

    def __init__(self) -> None:
        self._stops: dict[StopStep, list[Stop]] = {step: [] for step in StopStep}
        self._has_begun = threading.Event()

    def is_stopping(self) -> bool:
        """Whether :meth:`run` has begun; from any thread."""
        return self._has_begun.is_set()

    def add(self, step: StopStep, *stops: Stop) -> None:
        """Adds stops of one step, which follow those that it has."""
        self._stops[step] += stops

    async def run(self, log_prefix: str) -> None:
        """Calls every stop; each is tried even if another one failed, which is logged."""
        self._has_begun.set()
        for stops in self._stops.values():
            for stop in stops:
                try:
                    await stop()
                except Exception:  # noqa: BLE001 - whatever it is, the others must be tried too
                    _log.exception("%sError while shutting down", log_prefix)
