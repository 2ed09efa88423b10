"""Assembles one controller candidate: core, queue, thread, channels and session.

Data flows in one direction: a fired watch becomes an event, the event waits in the queue, and the
event thread runs the core.  The core's questions go to ZooKeeper, its requests to the brokers, and
the brokers' responses come back as events.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Final, assert_never
from uuid import UUID, uuid4

from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved, EventQueueFull, SessionExpired
from kafka_common.net.awaited_responses import AwaitedResponses
from kafka_common.net.presence import abandonable
from kafka_common.observability.metrics import Metrics, mbean
from zkcontroller.core.broker_requests import REQUEST_NAMES, event_for_response
from zkcontroller.core.controller import ControllerConfig, KafkaController
from zkcontroller.core.effects import (
    AddChannel,
    CancelPuts,
    ControlledShutdownResult,
    Effect,
    LogLine,
    MarkMeter,
    Put,
    RemoveAllChannels,
    RemoveChannel,
    RequestResponse,
    Result,
    SendControlRequest,
    StateChanges,
)
from zkcontroller.core.events import (
    ControlledShutdown,
    Event,
    Expire,
    RegisterBrokerAndReelect,
    RequestEvent,
    Startup,
)
from zkcontroller.core.watches import event_for_watch
from zkcontroller.runtime.controller_channel_manager import (
    BrokerResponse,
    ChannelEffect,
    ChannelSettings,
    ControllerChannelManager,
)
from zkcontroller.runtime.driver import Driver, Session
from zkcontroller.runtime.event_queue import EventQueue
from zkcontroller.runtime.event_thread import KAFKA_CONTROLLER, EventThread
from zkcontroller.runtime.hold_points import effect_text, hold_points, point_of_effect
from zkcontroller.runtime.response_text import response_text
from zkcontroller.runtime.session_metrics import SessionMetrics
from zkcontroller.state_changes.log_files import StateChangeSink, log_line
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import SessionState
from zkcontroller.zookeeper.session_router import SessionRouter

RESPONSE_TIMEOUT_S: Final = 30.0
"""A broker waits so long for a response (``controller.socket.timeout.ms``)."""

CHANNELS_CLOSE_TIMEOUT_S: Final = 10.0

"""What Kafka's ControllerMovedException is on the wire."""


class ControllerRuntime:
    """The controller of one broker.

    ``put``, ``on_watch`` and ``on_session_state`` may be called from any thread and never block;
    call ``controlled_shutdown`` on the loop.  ``shutdown`` blocks: call it in another thread.
    """

    def __init__(
        self,
        *,
        config: ControllerConfig,
        session: Session,
        loop: asyncio.AbstractEventLoop,
        register_broker: Callable[[], int],
        state_changes: StateChangeSink,
        metrics: Metrics,
        channel_settings: ChannelSettings | None = None,
        new_uuid: Callable[[], UUID] | None = None,
        logs_in_by_sasl: bool = False,
    ) -> None:
        """Creates the controller without starting it; events may be put before :meth:`start`.

        ``logs_in_by_sasl``: each connection to ZooKeeper begins with a SASL login.

        ``register_broker`` registers the broker in a new ZooKeeper session and returns its epoch;
        it is called in the event thread and may block.
        """
        self._config = config
        self._loop = loop
        self._state_changes = state_changes
        self._metrics = metrics
        self._session_metrics = SessionMetrics(metrics, logs_in_by_sasl=logs_in_by_sasl)
        self._controller = KafkaController(config, new_uuid or uuid4)
        self._channels = ControllerChannelManager(
            channel_settings or ChannelSettings(config.broker_id, config.listener_name),
            loop,
            metrics,
            self._on_response,
        )
        self._queue = EventQueue(monotonic_ms=_monotonic_ms, preempt=self._preempt)
        self._hold_points = hold_points(config.broker_id)
        self._driver = Driver(
            self._controller.outbox,
            session,
            register_broker,
            self._do,
            hold_points=self._hold_points,
        )
        self._thread = EventThread(
            config.broker_id,
            self._controller,
            self._queue,
            self._driver,
            metrics,
            refresh_gauges=self._refresh_gauges,
            on_failure=self._respond_failed,
            monotonic_ms=_monotonic_ms,
            hold_points=self._hold_points,
        )
        self._has_expired = False
        self._is_shutting_down = False
        self._responses: AwaitedResponses[Result] = AwaitedResponses()
        self._delayed: set[asyncio.TimerHandle] = set()
        self._gauges = self._register_gauges()

    @property
    def is_active(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""
        return self._controller.is_active

    @property
    def is_at_work(self) -> bool:
        """Whether an event is being processed; from any thread."""
        return self._thread.is_at_work

    @property
    def controller_epoch(self) -> int:
        """The epoch of this controller; 0 while it is not active."""
        return self._controller.context.epoch

    def start(self) -> None:
        """Starts the event thread; the broker then tries to become controller."""
        self._queue.put(Startup())
        self._thread.start()

    def shutdown(self) -> None:
        """Preempts queued events, ends the thread, resigns, and closes the channels.

        ``/controller`` is not deleted here: it disappears with the session.
        """
        assert not self._is_on_loop(), "shutdown waits for the loop"
        self._is_shutting_down = True
        try:
            if self._thread.close():
                self._driver.run(self._controller.resign())
            else:
                log_line(
                    KAFKA_CONTROLLER,
                    "WARN",
                    f"[Controller id={self._config.broker_id}] The event under way did not end; "
                    "leaving it behind",
                )
        finally:
            self._close_channels()
            if self._hold_points is not None:
                self._hold_points.close()
            for name in self._gauges:
                self._metrics.remove(name)

    def follow(self, session: SessionRouter) -> None:
        """Adds the controller's routes: states, latencies and every path without a route."""
        session.follow_other_paths(self.on_watch)
        session.follow_states(self.on_session_state)
        session.follow_latency(self.on_request_latency)

    def put(self, event: Event) -> None:
        """Queues an event."""
        self._queue.put(event)

    def on_watch(self, fired: WatchFired) -> None:
        """A watch of the session has fired."""
        event = event_for_watch(fired)
        if event is not None:
            self._queue.put(event)

    def on_session_state(self, state: SessionState) -> None:
        """The session has changed its state."""
        self._session_metrics.entered(state)
        if state is SessionState.EXPIRED:
            self._has_expired = True
            self._queue.clear_and_put(Expire())
        elif state is SessionState.CONNECTED and self._has_expired:
            self._has_expired = False
            self._queue.put(RegisterBrokerAndReelect())

    def on_request_latency(self, latency_ms: float) -> None:
        """ZooKeeper has replied to a request after ``latency_ms``."""
        self._session_metrics.request_latency.update(latency_ms)

    async def controlled_shutdown(
        self, broker_id: int, broker_epoch: int
    ) -> ControlledShutdownResult:
        """The controller's response to a broker that wants to stop.

        Its error code is STALE_CONTROLLER_EPOCH if this broker is not the controller or ceases to
        be it, REQUEST_TIMED_OUT if there is no response in time or too many requests wait, and
        UNKNOWN_SERVER_ERROR if the core failed.
        """
        result = await self.ask(
            lambda request_id: ControlledShutdown(broker_id, broker_epoch, request_id)
        )
        if result is None:
            return ControlledShutdownResult(ErrorCode.request_timed_out)
        assert isinstance(result, ControlledShutdownResult)
        return result

    async def ask(self, make: Callable[[int], RequestEvent], timeout_ms: int = 0) -> Result | None:
        """Puts the event that ``make`` builds from a request id, and waits for its response.

        None if there is no response within ``timeout_ms`` or RESPONSE_TIMEOUT_S, whichever is
        longer, or if too many requests wait.  Kafka waits without limit and ignores the client's
        timeout, because a late response still shows what happened.  If this broker is not the
        controller, or ceases to be it, the response is the request's own refusal.
        """
        timeout_s = max(RESPONSE_TIMEOUT_S, timeout_ms / 1000)
        request_id = self._responses.new_id()
        event = make(request_id)
        with self._responses.expected(request_id) as response:
            try:
                self._queue.put(event)
                if self._is_shutting_down:  # perhaps the caller has given up
                    return self._controller.refusal(event)
                with abandonable():  # the event is in the queue, and is handled in any case
                    async with asyncio.timeout(timeout_s):
                        return await response
            except (EventQueueFull, TimeoutError):
                return None

    def _preempt(self, event: Event) -> None:
        self._refuse(event, None)

    def _respond_failed(self, event: Event, error: Exception) -> None:
        is_over = isinstance(error, ControllerMoved | SessionExpired)
        self._refuse(event, None if is_over else ErrorCode.unknown_server_error)

    def _refuse(self, event: Event, error_code: ErrorCode | None) -> None:
        if isinstance(event, RequestEvent):
            result = self._controller.refusal(event, error_code)
            if result is not None and event.request_id is not None:
                self._respond(RequestResponse(event.request_id, result))

    def _close_channels(self) -> None:
        if self._loop.is_running():
            closing = asyncio.run_coroutine_threadsafe(self._channels.close(), self._loop)
            with contextlib.suppress(TimeoutError):
                closing.result(CHANNELS_CLOSE_TIMEOUT_S)

    def _is_on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _respond(self, response: RequestResponse) -> None:
        # RuntimeError: the loop is closed, so no caller waits for the response.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(
                self._responses.complete, response.request_id, response.result
            )

    def _put_later(self, put: Put) -> None:
        def due() -> None:
            self._delayed.discard(handle)
            self._queue.put(put.event)

        handle = self._loop.call_later(put.delay_ms / 1000, due)
        self._delayed.add(handle)

    def _cancel_puts(self) -> None:
        for handle in self._delayed:
            handle.cancel()
        self._delayed.clear()

    def _do(self, effects: Sequence[Effect]) -> None:
        for_channels: list[ChannelEffect] = []
        for effect in effects:
            if self._hold_points is not None and (point := point_of_effect(effect)) is not None:
                if self._hold_points.is_held(point):
                    # Send the effects before this point, then hold the thread.
                    self._channels.submit(for_channels)
                    for_channels = []
                self._hold_points.at(point, effect_text(effect))
            match effect:
                case SendControlRequest() | AddChannel() | RemoveChannel() | RemoveAllChannels():
                    for_channels.append(effect)
                case LogLine(level, logger, message, exception):
                    log_line(logger, level, message, exception)
                case StateChanges():
                    self._state_changes.write(effect.records)
                case RequestResponse():
                    self._respond(effect)
                case Put(event=event, delay_ms=0):
                    self._queue.put(event)
                case Put():
                    self._on_loop(self._put_later, effect)
                case CancelPuts():
                    self._on_loop(self._cancel_puts)
                case MarkMeter():
                    name = mbean("kafka.controller", "ControllerStats", effect.name)
                    self._metrics.meter(name).mark(effect.count)
                case _:
                    assert_never(effect)
        self._channels.submit(for_channels)

    def _on_loop(self, call: Callable[..., None], *arguments: object) -> None:
        # A closed loop has no delayed events left.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(call, *arguments)

    def _on_response(self, response: BrokerResponse) -> None:
        send = response.send
        if self._config.trace_state_changes:
            self._state_changes.write([self._response_record(response)])
        event = event_for_response(send, response.body)
        if event is not None:
            self._queue.put(event)

    def _response_record(self, response: BrokerResponse) -> StateChange:
        send = response.send
        return StateChange(
            Kind.RESPONSE_RECEIVED,
            "controller",
            self._config.broker_id,
            controller_epoch=send.controller_epoch,
            request=REQUEST_NAMES[send.api_key],
            correlation_id=response.correlation_id,
            peer=send.broker_id,
            peer_address=response.address,
            peer_rack=response.rack,
            response=response_text(send.api_key, send.api_version, response.body),
        )

    def _register_gauges(self) -> tuple[str, ...]:
        def name_of(gauge: str) -> str:
            return mbean("kafka.controller", "KafkaController", gauge)

        computed: dict[str, Callable[[], int]] = {
            name_of("ActiveControllerCount"): lambda: int(self._controller.is_active),
            name_of("ControllerState"): lambda: int(self._thread.state),
            mbean("kafka.server", "MetadataLoader", "CurrentControllerId"): (
                lambda: self._controller.active_controller_id
            ),
        }
        for name, read in computed.items():
            self._metrics.gauge(name, read)
        # Kafka registers these meters at the start, not at the first occurrence.
        self._metrics.meter(
            mbean("kafka.controller", "ControllerStats", "UncleanLeaderElectionsPerSec"),
            "elections",
        )
        values = self._controller.gauges()
        self._refreshed = {
            gauge: self._metrics.gauge(name_of(gauge))
            for gauge in values
            if name_of(gauge) not in computed
        }
        self._refresh_gauges()
        return (*computed, *map(name_of, self._refreshed))

    def _refresh_gauges(self) -> None:
        for gauge, value in self._controller.gauges().items():
            if gauge in self._refreshed:
                self._refreshed[gauge].set(value)


def _monotonic_ms() -> float:
    return time.monotonic() * 1000
