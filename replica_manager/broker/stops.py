"""Stops those parts of a broker that have been created, in Kafka's order.

A part adds its stop when it is created.  So a failed start is undone by the same steps as a running
broker, and no step must check whether its part exists.

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
    """The steps of a stop, in their order."""

    FOLLOWING = "following"
    """Stops following changes of the metadata."""
    LISTENERS = "listeners"
    PRODUCER_IDS = "producer ids"
    RECORDS = "records"
    STORAGE = "storage"
    CONTROLLER = "controller"
    """The controller candidate resigns."""
    METADATA = "metadata"
    """Ends the connection to the source of metadata, and so the registration."""
    EXECUTOR = "executor"


class Stops:
    """The stops of one broker.  Used on the event loop, except for :meth:`is_stopping`."""

    def __init__(self) -> None:
        self._stops: dict[StopStep, list[Stop]] = {step: [] for step in StopStep}
        self._has_begun = threading.Event()

    def is_stopping(self) -> bool:
        """Whether :meth:`run` has begun.  For any thread."""
        return self._has_begun.is_set()

    def add(self, step: StopStep, *stops: Stop) -> None:
        """Adds stops to a step, after those that the step already has."""
        self._stops[step] += stops

    async def run(self, log_prefix: str) -> None:
        """Calls all stops; a failure is logged and does not prevent the others."""
        self._has_begun.set()
        for stops in self._stops.values():
            for stop in stops:
                try:
                    await stop()
                except Exception:  # noqa: BLE001 - the other stops must be called
                    _log.exception("%sError while shutting down", log_prefix)
