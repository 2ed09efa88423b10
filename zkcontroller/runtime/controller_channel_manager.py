"""Channels to brokers: each has a queue, one connection and one request in flight.

A channel takes a request from its queue, connects if necessary, sends it, and waits for the
response.  After any failure it logs the failure in ``controller.log``, closes the connection, waits
100 ms and sends *the same request again*, without limit.  When the broker's znode disappears the
controller removes the channel, and the queued requests are lost.  That is harmless: the next
controller, or this one when the broker returns, sends the full state.

Channels run on the asyncio loop.  The event thread passes a batch of effects with one wake-up of
the loop.

Source: Kafka ``ControllerChannelManager`` and ``RequestSendThread``.  Deviation: the line about a
failed request does not print the request's partitions (20 MB a line for 100,000 partitions), only
its size.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from msgspec import Struct

from kafka_common.errors import InvalidFrame
from kafka_common.model import Broker, Endpoint
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.observability.java_values import node
from kafka_common.observability.log_text import throwable_text
from kafka_common.observability.metrics import Metrics, mbean
from zkcontroller.core.broker_requests import REQUEST_NAMES
from zkcontroller.core.effects import (
    AddChannel,
    RemoveAllChannels,
    RemoveChannel,
    SendControlRequest,
)
from zkcontroller.state_changes.log_files import log_line

ChannelEffect: TypeAlias = AddChannel | RemoveChannel | RemoveAllChannels | SendControlRequest

CHANNEL_MANAGER: Final = "kafka.controller.ControllerChannelManager"
REQUEST_SEND_THREAD: Final = "kafka.controller.RequestSendThread"

RETRY_PAUSE_S: Final = 0.1
CLOSE_TIMEOUT_S: Final = 5.0

_PRINTED_NAMES: Final = {
    # The missing "r" of "IsrRequest" and the lone "=" are Kafka's.
    4: "type=LeaderAndIsRequest",
    5: "type=StopReplicaRequest",
    6: "type: UpdateMetadataRequest=",
}


class BrokerResponse(NamedTuple):
    """A broker's response to a request."""

    send: SendControlRequest
    correlation_id: int
    address: str
    """``host:port`` of the broker."""
    rack: str | None
    body: bytes
    """The response without its header."""


class ChannelSettings(Struct, frozen=True):
    """Settings of the channels to brokers; the defaults are Kafka's."""

    controller_id: int
    listener_name: str
    """The brokers' listener to connect to: control-plane or inter-broker listener."""
    connect_timeout_ms: int = 30_000  # controller.socket.timeout.ms
    request_timeout_ms: int = 30_000  # request.timeout.ms
    retry_pause_s: float = RETRY_PAUSE_S
    security: ClientSecurity = PLAINTEXT
    """The TLS and SASL that the listener requires."""


class ControllerChannelManager:
    """The channels of one controller.  Any thread may call ``submit``, the loop all others."""

    def __init__(
        self,
        settings: ChannelSettings,
        loop: asyncio.AbstractEventLoop,
        metrics: Metrics,
        on_response: Callable[[BrokerResponse], None],
    ) -> None:
        """Creates no channels.  ``on_response`` is called on the loop and must not block."""
        self._settings = settings
        self._loop = loop
        self._metrics = metrics
        self._on_response = on_response
        self._channels: dict[int, _Channel] = {}
        self._ending: set[asyncio.Task[None]] = set()
        self._prefix = f"[Channel manager on controller {settings.controller_id}]: "
        metrics.gauge(
            mbean("kafka.controller", "ControllerChannelManager", "TotalQueueSize"),
            lambda: sum(channel.queue_size for channel in list(self._channels.values())),
        )

    def submit(self, effects: Sequence[ChannelEffect]) -> None:
        """Performs these effects in order on the loop, with one wake-up for all of them.

        If the loop is closed, the effects are dropped.
        """
        if effects:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._apply, effects, time.monotonic())

    async def close(self) -> None:
        """Removes every channel and waits for their tasks to end."""
        self._remove_all()
        if self._ending:
            await asyncio.wait(self._ending, timeout=CLOSE_TIMEOUT_S)

    def _apply(self, effects: Sequence[ChannelEffect], submitted_s: float) -> None:
        for effect in effects:
            match effect:
                case SendControlRequest():
                    self._enqueue(effect, submitted_s)
                case AddChannel():
                    self._add(effect.broker)
                case RemoveChannel():
                    self._remove(effect.broker_id)
                case RemoveAllChannels():
                    self._remove_all()

    def _add(self, broker: Broker) -> None:
        if broker.broker_id in self._channels:
            return
        log_line(
            CHANNEL_MANAGER,
            "DEBUG",
            f"{self._prefix}Controller {self._settings.controller_id} "
            f"trying to connect to broker {broker.broker_id}",
        )
        self._channels[broker.broker_id] = _Channel(
            broker, self._settings, self._metrics, self._on_response
        )

    def _remove(self, broker_id: int) -> None:
        channel = self._channels.pop(broker_id, None)
        if channel is None:
            log_line(
                CHANNEL_MANAGER,
                "ERROR",
                f"{self._prefix}Error while removing broker by the controller",
                f"java.util.NoSuchElementException: key not found: {broker_id}",
            )
            return
        task = channel.remove()
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)

    def _remove_all(self) -> None:
        for broker_id in list(self._channels):
            self._remove(broker_id)

    def _enqueue(self, send: SendControlRequest, submitted_s: float) -> None:
        channel = self._channels.get(send.broker_id)
        if channel is not None:
            channel.put(send, submitted_s)
            return
        log_line(
            CHANNEL_MANAGER,
            "WARN",
            f"{self._prefix}Not sending request {REQUEST_NAMES[send.api_key]} with "
            f"controllerId={self._settings.controller_id}, "
            f"controllerEpoch={send.controller_epoch} "
            f"to broker {send.broker_id}, since it is offline.",
        )


class _Channel:
    """One broker's queue and connection, and the task that sends the queued requests."""

    def __init__(
        self,
        broker: Broker,
        settings: ChannelSettings,
        metrics: Metrics,
        on_response: Callable[[BrokerResponse], None],
    ) -> None:
        self._broker = broker
        self._endpoint: Endpoint | None = broker.endpoint(settings.listener_name)
        self._settings = settings
        self._on_response = on_response
        self._queue: deque[tuple[SendControlRequest, float]] = deque()
        self._has_work = asyncio.Event()
        self._connection: Connection | None = None
        # The channel's connections share one counter.
        self._correlation_ids = itertools.count()
        self._prefix = f"[RequestSendThread controllerId={settings.controller_id}] "
        self._metrics = metrics
        tags = {"broker-id": broker.broker_id}
        self._metric_names = tuple(
            mbean("kafka.controller", "ControllerChannelManager", name, tags)
            for name in ("QueueSize", "RequestRateAndQueueTimeMs")
        )
        metrics.gauge(self._metric_names[0], lambda: len(self._queue))
        self._queue_time = metrics.timer(self._metric_names[1])
        name = f"Controller-{settings.controller_id}-to-broker-{broker.broker_id}-send-thread"
        self._task = asyncio.get_running_loop().create_task(self._run(), name=name)

    @property
    def queue_size(self) -> int:
        return len(self._queue)

    @property
    def _address(self) -> str:
        return (
            "unknown:0"
            if self._endpoint is None
            else f"{self._endpoint.host}:{self._endpoint.port}"
        )

    @property
    def _node(self) -> str:
        return node(self._broker.broker_id, self._address, self._broker.rack)

    def put(self, send: SendControlRequest, submitted_s: float) -> None:
        self._queue.append((send, submitted_s))
        self._has_work.set()

    def remove(self) -> asyncio.Task[None]:
        """Ends the channel; queued requests and the one in flight are lost."""
        self._log("INFO", "Shutting down")
        self._queue.clear()
        for name in self._metric_names:
            self._metrics.remove(name)
        self._task.cancel()
        return self._task

    async def _run(self) -> None:
        self._log("INFO", "Starting")
        try:
            while True:
                while not self._queue:
                    self._has_work.clear()
                    await self._has_work.wait()
                send, submitted_s = self._queue.popleft()
                self._queue_time.update((time.monotonic() - submitted_s) * 1000)
                try:
                    await self._deliver(send)
                except Exception as error:  # noqa: BLE001 - one request must not end the channel
                    self._log("ERROR", "Error due to", throwable_text(error))
                    await self._disconnect()
        except asyncio.CancelledError:
            self._log("INFO", "Stopped")
            self._log("INFO", "Shutdown completed")
        except Exception as error:  # noqa: BLE001 a channel must not die unheard
            self._log("ERROR", "Error due to", throwable_text(error))
        finally:
            await self._disconnect()

    async def _deliver(self, send: SendControlRequest) -> None:
        while True:
            connection = await self._connected()
            if connection is not None:
                try:
                    body = await connection.call(send.api_key, send.api_version, send.body)
                except (OSError, InvalidFrame) as error:
                    self._log("WARN", self._failure(send), throwable_text(error))
                else:
                    self._report(send, connection.last_correlation_id, body)
                    return
            await self._disconnect()
            await asyncio.sleep(self._settings.retry_pause_s)

    async def _connected(self) -> Connection | None:
        if self._connection is not None and self._connection.is_usable():
            return self._connection
        await self._disconnect()
        controller_id = self._settings.controller_id
        try:
            self._connection = await self._connect()
        except OSError as error:
            # Kafka logs this sentence for every reason of the operating system.
            cause = f"java.io.IOException: Connection to {self._node} failed.\nCaused by: "
            self._log(
                "WARN",
                f"Controller {controller_id}'s connection to broker {self._node} was unsuccessful",
                cause + throwable_text(error),
            )
            return None
        self._log(
            "INFO",
            f"Controller {controller_id} connected to {self._node} "
            "for sending state change requests",
        )
        return self._connection

    async def _connect(self) -> Connection:
        if self._endpoint is None:
            raise OSError(
                f"broker {self._broker.broker_id} has no listener {self._settings.listener_name}"
            )
        return await Connection.open(
            self._endpoint.host,
            self._endpoint.port,
            client_id=str(self._settings.controller_id),
            connect_timeout_ms=self._settings.connect_timeout_ms,
            request_timeout_ms=self._settings.request_timeout_ms,
            correlation_ids=self._correlation_ids,
            security=self._settings.security,
        )

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    def _report(self, send: SendControlRequest, correlation_id: int, body: bytes) -> None:
        response = BrokerResponse(send, correlation_id, self._address, self._broker.rack, body)
        try:
            self._on_response(response)
        except Exception as error:  # noqa: BLE001 the channel outlives every response
            # The response is malformed: sending the request again would not change that.
            self._log(
                "ERROR",
                f"Controller {self._settings.controller_id} fails to send a request "
                f"to broker {self._node}",
                throwable_text(error),
            )

    def _failure(self, send: SendControlRequest) -> str:
        controller_id = self._settings.controller_id
        size = sum(map(len, send.body))
        return (
            f"Controller {controller_id} epoch {send.controller_epoch} fails to send request "
            f"({_PRINTED_NAMES[send.api_key]}, controllerId={controller_id}, "
            f"controllerEpoch={send.controller_epoch}, bytes={size}) "
            f"to broker {self._node}. Reconnecting to broker."
        )

    def _log(self, level: str, message: str, cause: str | None = None) -> None:
        log_line(REQUEST_SEND_THREAD, level, self._prefix + message, cause)
