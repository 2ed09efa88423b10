"""The controller-event-thread: takes one event after the other and runs it to its end.

No error ends the thread: the error is logged and the next event is taken.  An expired session also
ends only the current event; Expire is then in the queue already.

Source: Kafka ``ControllerEventManager.ControllerEventThread``, ``KafkaController.process``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, Protocol

from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.metrics import Metrics, mbean
from kafka_common.wall_time import wall_time_ms
from zkcontroller.core.effects import Procedure
from zkcontroller.core.events import (
    RATE_AND_TIME_OF,
    STATE_OF,
    ControllerState,
    Event,
    ShutdownEventThread,
    event_text,
)
from zkcontroller.runtime.driver import Driver
from zkcontroller.runtime.event_queue import EventQueue, QueuedEvent
from zkcontroller.runtime.hold_points import HoldPoints
from zkcontroller.state_changes.log_files import log_line

THREAD_NAME: Final = "controller-event-thread"
EVENT_THREAD_LOGGER: Final = "kafka.controller.ControllerEventManager$ControllerEventThread"
KAFKA_CONTROLLER: Final = "kafka.controller.KafkaController"

IDLE_CLEAR_S: Final = 300.0
"""After this many seconds without an event the histogram of queue times is cleared."""

JOIN_TIMEOUT_S: Final = 30.0


class EventHandler(Protocol):
    """The method of KafkaController that the thread needs."""

    def handle(self, event: Event, now_ms: int) -> Procedure[None]:
        """The procedure that processes this event."""
        ...


class EventThread:
    """The thread that takes events from the queue and processes them with the core."""

    def __init__(
        self,
        controller_id: int,
        handler: EventHandler,
        queue: EventQueue,
        driver: Driver,
        metrics: Metrics,
        *,
        refresh_gauges: Callable[[], None],
        on_failure: Callable[[Event, Exception], None],
        monotonic_ms: Callable[[], float],
        idle_clear_s: float = IDLE_CLEAR_S,
        hold_points: HoldPoints | None = None,
    ) -> None:
        """Creates the thread without starting it.  A test may hold it at ``hold_points``.

        The thread calls ``refresh_gauges`` after every event.  It calls ``on_failure`` after an
        event that ended with an error, because a client may wait for its response.
        """
        self.state = ControllerState.IDLE
        """The kind of event that is being processed, for the gauge ControllerState."""
        self._controller_id = controller_id
        self._handler = handler
        self._queue = queue
        self._driver = driver
        self._refresh_gauges = refresh_gauges
        self._on_failure = on_failure
        self._monotonic_ms = monotonic_ms
        self._idle_clear_s = idle_clear_s
        self._hold_points = hold_points
        self._metrics = metrics
        self._metric_names = tuple(
            mbean("kafka.controller", "ControllerEventManager", name)
            for name in ("EventQueueSize", "EventQueueTimeMs")
        )
        metrics.gauge(self._metric_names[0], lambda: len(queue))
        self._queue_time = metrics.histogram(self._metric_names[1])
        self._timers = {
            state: metrics.timer(mbean("kafka.controller", "ControllerStats", name))
            for state, name in RATE_AND_TIME_OF.items()
        }
        # A daemon: the process can end while the thread still waits for ZooKeeper.
        self._thread = threading.Thread(target=self._run, name=THREAD_NAME, daemon=True)

    @property
    def is_at_work(self) -> bool:
        """Whether an event is being processed; from any thread."""
        return self.state is not ControllerState.IDLE

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self, timeout_s: float = JOIN_TIMEOUT_S) -> bool:
        """Preempts queued events, waits for the current event to end, and ends the thread.

        False if the current event did not end in time: it continues, so do not use the core.
        """
        self._log("Shutting down")
        self._queue.clear_and_put(ShutdownEventThread())
        if self._thread.ident is not None:  # it was started
            self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._log("Shutdown completed")
        for name in self._metric_names:
            self._metrics.remove(name)
        return True

    def _run(self) -> None:
        self._log("Starting")
        while True:
            queued = self._queue.take(self._idle_clear_s)
            if queued is None:
                if self._queue_time.count:
                    self._queue_time.clear()
                continue
            self._process(queued)
            if isinstance(queued.event, ShutdownEventThread):
                break
        self._log("Stopped")

    def _process(self, queued: QueuedEvent) -> None:
        event = queued.event
        self.state = STATE_OF[type(event)]
        started_ms = self._monotonic_ms()
        self._queue_time.update(started_ms - queued.enqueued_ms)
        try:
            if self._hold_points is not None:
                self._hold_points.at_event(event)
            self._driver.run(self._handler.handle(event, wall_time_ms()))
        except Exception as error:  # noqa: BLE001 the thread outlives every event
            self._report(event, error)
            self._on_failure(event, error)
        timer = self._timers.get(self.state)
        if timer is not None:
            timer.update(self._monotonic_ms() - started_ms)
        try:
            self._refresh_gauges()
        except Exception as error:  # noqa: BLE001 as above
            self._report(event, error)
        self.state = ControllerState.IDLE

    def _report(self, event: Event, error: Exception) -> None:
        log_line(
            KAFKA_CONTROLLER,
            "ERROR",
            f"[Controller id={self._controller_id}] Error processing event {event_text(event)}",
            throwable_text(error),
        )

    def _log(self, message: str) -> None:
        prefix = f"[ControllerEventThread controllerId={self._controller_id}] "
        log_line(EVENT_THREAD_LOGGER, "INFO", prefix + message)
