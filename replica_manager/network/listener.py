"""Listening sockets: accepts connections within the limits, one socket for each listener.

A listener is first *bound*, then it *accepts*.  Port 0 is bound early, because the broker's
registration needs the real port; connections wait in its backlog.  A fixed port is bound only when
the broker is ready, so that no client can connect before.

Source: Kafka ``SocketServer``, ``Acceptor``, ``ConnectionQuotas``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Mapping
from functools import partial
from itertools import count
from typing import Final

from msgspec import Struct, field

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kafka_common.observability.metrics import Metrics
from kafka_common.process.resource_limits import (
    exhausted_limit,
    first_reserved_descriptor,
    most_open_files,
)
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from replica_manager.network.connection import ClientConnection, Respond
from replica_manager.network.connection_quotas import ConnectionQuotas
from replica_manager.network.connection_rates import ConnectionRates, log_rate
from replica_manager.network.hang_ups import HangUps
from replica_manager.network.listener_authenticator import ListenerAuthenticator
from replica_manager.network.listening_sockets import listening_socket, readable
from replica_manager.network.request_memory import RequestMemory, request_memory_bytes
from replica_manager.network.selector_metrics import ConnectionMetrics, SelectorMetrics

ACCEPT_PAUSE_S: Final = 1.0
"""The pause after a failed accept, and between two checks of the limit of open files."""
MOST_UNFINISHED: Final = 500
"""The most requests that may still run after their clients have disconnected.

Kafka queues as many.  At the limit, no connections are accepted.
"""
MOST_REFUSED: Final = 1_000
"""The most connections kept open after a refusal by rate; then the oldest is closed early."""

_log = logging.getLogger("kafka.network.SocketServer")
_acceptor_log = logging.getLogger("kafka.network.DataPlaneAcceptor")


class ServerLimits(Struct, frozen=True):
    """Limits of connections, requests and memory."""

    max_request_bytes: int = 104_857_600
    max_queued_request_bytes: int = -1
    """The limit for all requests together; below 1, a quarter of the machine's memory."""
    max_idle_ms: int = 600_000
    """``connections.max.idle.ms``; a negative value is no limit."""
    max_connections: int = 2**31 - 1
    listener_max_connections: Mapping[str, int] = field(default_factory=dict)
    """The limits of listeners that have their own, by listener name."""
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = 2**31 - 1
    """New connections per second of all listeners together, except the protected one."""
    listener_connection_creation_rates: Mapping[str, int] = field(default_factory=dict)
    """New connections per second of listeners that have their own limit."""
    backlog: int = 50
    send_buffer_bytes: int = 102_400
    """-1 is the default of the operating system."""
    receive_buffer_bytes: int = 102_400

    def creation_rate_of(self, listener_name: str) -> int:
        """New connections per second of one listener."""
        return self.listener_connection_creation_rates.get(
            listener_name, self.max_connection_creation_rate
        )


class SocketServer:
    """Every listener of a broker, on one event loop."""

    def __init__(
        self,
        endpoints: tuple[Endpoint, ...],
        limits: ServerLimits,
        respond: Respond,
        *,
        broker_id: int,
        protected_listener: str,
        authenticators: Mapping[str, ListenerAuthenticator] | None = None,
        rates: ConnectionRates | None = None,
        metrics: Metrics | None = None,
        listener_type: str = "ZK_BROKER",
    ) -> None:
        """``protected_listener`` may exceed ``max_connections`` if there are other listeners.

        ``authenticators``: by listener name; a listener without one accepts every peer.
        ``rates``: None for no limits of connection rates.  ``metrics``: where connections and
        requests are counted; None to count nothing.  ``listener_type``: as in Kafka's log,
        ``ZK_BROKER`` or ``CONTROLLER``.
        """
        self._authenticators = dict(authenticators or {})
        self._rates = rates
        self._metrics = metrics
        self._selectors: dict[str, SelectorMetrics] = {}
        self._processors = count()
        self._refused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._endpoints = {each.listener_name: each for each in endpoints}
        self.limits = limits
        self._respond = respond
        self._quotas = ConnectionQuotas(protected_listener if len(endpoints) > 1 else None)
        self._prefix = f"[SocketServer listenerType={listener_type}, nodeId={broker_id}] "
        self._sockets: dict[str, socket.socket] = {}
        self._acceptors: dict[str, asyncio.Task[None]] = {}
        """The accepting tasks by listener name."""
        self._connections: dict[ClientConnection, asyncio.Task[None]] = {}
        self._unfinished: dict[ClientConnection, asyncio.Task[None]] = {}
        """Closed connections whose last request still runs."""
        self._hang_ups: HangUps | None = None
        self.request_memory = RequestMemory(
            request_memory_bytes(limits.max_queued_request_bytes, limits.max_request_bytes)
        )
        self._has_room = asyncio.Event()
        self.expired_count = 0
        """The number of connections closed because the client did not re-authenticate in time."""
        for endpoint in endpoints:
            self._create(endpoint.listener_name)

    def _create(self, listener_name: str) -> None:
        if self._metrics is not None:
            self._selectors[listener_name] = SelectorMetrics(
                self._metrics, listener_name, next(self._processors)
            )
        log_rate(self.limits.creation_rate_of(listener_name))
        text = "%sCreated data-plane acceptor and processors for endpoint : ListenerName(%s)"
        _log.info(text, self._prefix, listener_name)

    def _log_change(self, change: str, endpoint: Endpoint) -> None:
        name, protocol = endpoint.listener_name, endpoint.security_protocol
        _log.info(
            "%s%s data-plane listeners for endpoints "
            "ArrayBuffer(EndPoint(%s,%d,ListenerName(%s),%s))",
            self._prefix, change, endpoint.host or "null", endpoint.port, name, protocol,
        )  # fmt: skip

    def bind_ephemeral(self) -> None:
        """Binds the listeners whose port is 0; after that :attr:`ports` has the real ports."""
        for endpoint in self._endpoints.values():
            if endpoint.port == 0:
                self._bind(endpoint)

    def open(self) -> None:
        """Binds all other listeners and begins to accept; ConfigInvalid for a port in use."""
        for endpoint in self._endpoints.values():
            if endpoint.listener_name not in self._sockets:
                self._bind(endpoint)
        self._hang_ups = HangUps()
        _log.info("%sEnabling request processing.", self._prefix)
        for listener_name in self._sockets:
            self._begin_to_accept(listener_name)

    def add(self, endpoint: Endpoint, authenticator: ListenerAuthenticator | None) -> None:
        """Binds one more listener and begins to accept there; ConfigInvalid for a port in use."""
        self._log_change("Adding", endpoint)
        self._create(endpoint.listener_name)
        self._bind(endpoint)
        self._endpoints[endpoint.listener_name] = endpoint
        if authenticator is not None:
            self._authenticators[endpoint.listener_name] = authenticator
        self._begin_to_accept(endpoint.listener_name)

    def remove(self, listener_name: str) -> None:
        """Closes a listener with its connections; does nothing if there is no such listener."""
        acceptor = self._acceptors.pop(listener_name, None)
        if acceptor is not None:
            self._log_change("Removing", self._endpoints.pop(listener_name))
            acceptor.cancel()
            self._sockets.pop(listener_name).close()
        self._authenticators.pop(listener_name, None)
        if (selector := self._selectors.pop(listener_name, None)) is not None:
            selector.remove()
        for connection, task in self._connections.items():
            if connection.listener_name == listener_name:
                task.cancel()

    def _begin_to_accept(self, listener_name: str) -> None:
        accepting = self._accept(listener_name, self._sockets[listener_name])
        self._acceptors[listener_name] = asyncio.create_task(accepting)

    def limit(self, limits: ServerLimits) -> None:
        """Sets other limits while the server runs.

        Connections of clients above ``max_connections`` are closed, those idle for longest first;
        the other limits apply to new connections.
        """
        self.limits = limits
        self._has_room.set()
        excess = self._quotas.total - limits.max_connections
        for connection in self._clients_by_idleness()[: max(excess, 0)]:
            connection.disconnect()

    @property
    def ports(self) -> dict[str, int]:
        """Listener name to the port that is bound."""
        return {name: sock.getsockname()[1] for name, sock in self._sockets.items()}

    @property
    def connection_count(self) -> int:
        return self._quotas.total

    @property
    def unfinished_count(self) -> int:
        """The number of running requests whose clients have disconnected."""
        return len(self._unfinished)

    async def close(self) -> None:
        """Stops accepting and closes every connection."""
        _log.info("%sStopping socket server request processors", self._prefix)
        tasks = [*self._acceptors.values(), *self._connections.values(), *self._unfinished.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for refused in list(self._refused):
            self._close_refused(refused)
        for listening in self._sockets.values():
            listening.close()
        if self._hang_ups is not None:
            self._hang_ups.close()
            self._hang_ups = None
        self._acceptors.clear()
        self._sockets.clear()
        _log.info("%sStopped socket server request processors", self._prefix)

    def _bind(self, endpoint: Endpoint) -> None:
        try:
            listening = listening_socket(
                endpoint,
                backlog=self.limits.backlog,
                receive_buffer_bytes=self.limits.receive_buffer_bytes,
            )
        except (OSError, UnicodeError) as failure:
            # UnicodeError is raised for a host name with an empty or too long label.
            reason = failure.strerror if isinstance(failure, OSError) else None
            raise ConfigInvalid(
                "listeners",
                f"{endpoint.listener_name}://{endpoint.host}:{endpoint.port}",
                f"an address and port that can be bound ({reason or failure})",
            ) from failure
        self._sockets[endpoint.listener_name] = listening
        _acceptor_log.info(
            "Awaiting socket connections on %s:%d.",
            endpoint.host or "0.0.0.0",
            listening.getsockname()[1],
        )

    async def _accept(self, listener_name: str, listening: socket.socket) -> None:
        while True:
            await self._wait_for_room(listener_name)
            await self._wait_for_descriptors(listener_name, listening)
            try:
                # Not loop.sock_accept: if the acceptor were cancelled at the moment of a new
                # connection, its socket would be lost and stay open.
                await readable(listening)
                if not SPARE_DESCRIPTORS.are_there():
                    await self._pause()
                    continue
                sock, peer = listening.accept()
            except BlockingIOError:
                continue  # the client has closed the connection already
            except OSError as failure:
                reason = exhausted_limit(failure) or failure
                _log.error("%sError while accepting connection: %s", self._prefix, reason)
                await self._pause()
                continue
            # On a socket for both families, an IPv4 address has the form ::ffff:127.0.0.1.
            address = str(peer[0]).removeprefix("::ffff:")
            try:
                # Other listeners may have accepted connections since.
                await self._wait_for_room(listener_name)
                if not await self._exceeds_ip_rate(sock, address, listener_name):
                    if self._is_over_ip_limit(address):
                        sock.close()
                    else:
                        self._serve(sock, address, listener_name)
            except Exception:  # noqa: BLE001 - one connection must not end the acceptor
                _log.exception("%sError while accepting the connection from %s",
                               self._prefix, address)  # fmt: skip
                sock.close()
            except BaseException:  # the listener ends
                sock.close()
                raise

    async def _exceeds_ip_rate(self, sock: socket.socket, address: str, listener_name: str) -> bool:
        """Whether the connection exceeds the connection rate of its address.

        Waits first for as long as the rates of the broker and of the listener demand.  The caller
        closes a connection that exceeds its rate, after the throttle time.
        """
        if self._rates is None:
            return False
        limits = self.limits
        broker_bound = limits.max_connection_creation_rate
        wait_ms = self._rates.accept(
            listener_name, broker_bound, limits.creation_rate_of(listener_name)
        )
        if wait_ms > 0:
            await asyncio.sleep(wait_ms / 1000)
            await self._wait_for_room(listener_name)  # others may have connected since
        refused_ms = self._rates.refuse(listener_name, address)
        if refused_ms == 0:
            return False
        if len(self._refused) >= MOST_REFUSED:
            self._close_refused(next(iter(self._refused)))
        loop = asyncio.get_running_loop()
        self._refused[sock] = loop.call_later(refused_ms / 1000, self._close_refused, sock)
        return True

    def _close_refused(self, sock: socket.socket) -> None:
        self._refused.pop(sock).cancel()
        sock.close()

    def _serve(self, sock: socket.socket, address: str, listener_name: str) -> None:
        limits = self.limits
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if limits.send_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, limits.send_buffer_bytes)
        selector = self._selectors.get(listener_name)
        connection = ClientConnection(
            sock,
            address,
            listener_name,
            max_request_bytes=limits.max_request_bytes,
            max_idle_s=None if limits.max_idle_ms < 0 else limits.max_idle_ms / 1000,
            respond=self._respond,
            authenticator=self._authenticators.get(listener_name),
            memory=self.request_memory,
            metrics=None if selector is None else ConnectionMetrics(selector),
            on_closing=partial(self._closing, sock),
        )
        assert self._hang_ups is not None
        self._hang_ups.watch(sock, connection.hung_up)
        task = asyncio.create_task(connection.serve())
        self._connections[connection] = task
        task.add_done_callback(lambda _: self._ended(connection))
        self._quotas.opened(listener_name, address)
        if self._quotas.is_protected(listener_name) and self._quotas.is_exceeded(limits):
            self._make_room()

    def _closing(self, sock: socket.socket, connection: ClientConnection) -> None:
        """Removes a connection whose socket is about to be closed; its task may still run."""
        task = self._connections.pop(connection, None)
        if task is None:
            return
        self.expired_count += connection.is_login_over
        if self._hang_ups is not None:
            self._hang_ups.forget(sock)
        self._quotas.closed(connection.listener_name, connection.address)
        if not task.done():
            self._unfinished[connection] = task
        self._has_room.set()

    def _ended(self, connection: ClientConnection) -> None:
        # A task that is cancelled before its first step does not close its connection.
        connection.close()
        self._unfinished.pop(connection, None)
        self._has_room.set()

    async def _wait_for_room(self, listener_name: str) -> None:
        while (
            not self._quotas.has_room(listener_name, self.limits)
            or len(self._unfinished) >= MOST_UNFINISHED
        ):
            self._has_room.clear()
            await self._has_room.wait()

    async def _wait_for_descriptors(self, listener_name: str, listening: socket.socket) -> None:
        """Waits while only the file descriptors reserved for logs and brokers are left.

        Does not wait if there are fewer connections than reserved descriptors, so that the logs'
        files cannot exclude all clients.
        """
        if self._quotas.is_protected(listener_name):
            return
        is_paused = False
        while True:
            most, reserved_from = most_open_files(), first_reserved_descriptor()
            next_descriptor = _next_descriptor(listening)
            if self._quotas.total < most - reserved_from or next_descriptor < reserved_from:
                break
            if not is_paused:
                is_paused = True
                _log.warning(
                    "%sListener %s accepts no connection for now: the process may open %d files "
                    "(ulimit -n), and the last %d are kept for logs and other brokers",
                    self._prefix,
                    listener_name,
                    most,
                    most - reserved_from,
                )
            await self._pause()
        if is_paused:
            _log.info("%sListener %s accepts connections again", self._prefix, listener_name)

    async def _pause(self) -> None:
        """Waits until a connection ends, at most ACCEPT_PAUSE_S."""
        self._has_room.clear()
        try:
            async with asyncio.timeout(ACCEPT_PAUSE_S):
                await self._has_room.wait()
        except TimeoutError:
            pass

    def _make_room(self) -> None:
        """Closes the client connection that was idle longest, to make room for a broker's."""
        for connection in self._clients_by_idleness()[:1]:
            connection.disconnect()

    def _clients_by_idleness(self) -> list[ClientConnection]:
        """The connections that are not those of other brokers, the one idle for longest first."""
        clients = [c for c in self._connections if not self._quotas.is_protected(c.listener_name)]
        return sorted(clients, key=lambda connection: connection.last_active_s)

    def _is_over_ip_limit(self, address: str) -> bool:
        allowed = self._quotas.refused_over(address, self.limits)
        if allowed is None:
            return False
        _log.info(
            "Rejected connection from /%s, address already has the configured maximum of %d "
            "connections.",
            address,
            allowed,
        )
        return True


def _next_descriptor(any_open: socket.socket) -> int:
    """The descriptor that the next file or socket gets; the limit of open files if none is left."""
    try:
        descriptor = os.dup(any_open.fileno())
    except OSError:
        return most_open_files()
    os.close(descriptor)
    return descriptor
