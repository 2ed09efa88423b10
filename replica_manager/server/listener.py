"""Listening sockets: one per listener, connections counted, limits kept.

A listener is *bound* before it *accepts*: a port 0 is bound early, because its number goes into the
registration, and connections wait in its backlog; a fixed port is bound only when the broker is
ready, so that nobody can connect before.

Source: Kafka ``SocketServer``, ``Acceptor``, ``ConnectionQuotas``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from replica_manager.server.connection import ClientConnection, Respond
from replica_manager.server.connection_rates import ConnectionRates
from replica_manager.server.gate import Gate
from zkcontroller.errors import ConfigInvalid
from zkcontroller.model import Endpoint

_ACCEPT_PAUSE_S: Final = 1.0
"""Pause after a failed accept (out of file descriptors), so that it is no busy loop."""
MOST_REFUSED: Final = 1_000
"""So many connections are kept open that came too fast; the oldest is closed before its time."""

_log = logging.getLogger("kafka.network.SocketServer")


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What clients may use."""

    max_request_bytes: int = 104_857_600
    max_idle_ms: int = 600_000
    """Negative: for ever."""
    max_connections: int = 2**31 - 1
    max_connections_per_ip: int = 2**31 - 1
    max_connections_per_ip_overrides: Mapping[str, int] = field(default_factory=dict)
    max_connection_creation_rate: int = 2**31 - 1
    """A second, of all listeners together but the protected one."""
    listener_connection_creation_rates: Mapping[str, int] = field(default_factory=dict)
    """Of those that have another one than all."""
    backlog: int = 50
    send_buffer_bytes: int = 102_400
    """-1: as the operating system likes."""
    receive_buffer_bytes: int = 102_400


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
        gates: Mapping[str, Gate] | None = None,
        rates: ConnectionRates | None = None,
    ) -> None:
        """``protected_listener`` (brokers among themselves) may exceed ``max_connections``.

        ``gates``: by listener name; where there is none, everybody may come in.  ``rates``: None
        where connections may come as fast as they like.
        """
        self._gates = gates or {}
        self._rates = rates
        self._refused: dict[socket.socket, asyncio.TimerHandle] = {}
        self._endpoints = endpoints
        self.limits = limits
        """May be replaced while the server runs: it counts for connections yet to come."""
        self._respond = respond
        self._protected_listener = protected_listener
        self._prefix = f"[SocketServer listenerType=ZK_BROKER, nodeId={broker_id}] "
        self._sockets: dict[str, socket.socket] = {}
        self._acceptors: list[asyncio.Task[None]] = []
        self._connections: dict[ClientConnection, asyncio.Task[None]] = {}
        self._has_room = asyncio.Event()

    def bind_ephemeral(self) -> None:
        """Binds the listeners whose port is 0; :attr:`ports` knows their numbers then."""
        for endpoint in self._endpoints:
            if endpoint.port == 0:
                self._bind(endpoint)

    def open(self) -> None:
        """Binds what is not bound yet and begins to accept; ConfigInvalid for a port in use."""
        for endpoint in self._endpoints:
            if endpoint.listener_name not in self._sockets:
                self._bind(endpoint)
        for listener_name, listening in self._sockets.items():
            self._acceptors.append(asyncio.create_task(self._accept(listener_name, listening)))
            _log.info("%sEnabling request processing.", self._prefix)

    @property
    def ports(self) -> dict[str, int]:
        """Listener name to the port that is really bound."""
        return {name: sock.getsockname()[1] for name, sock in self._sockets.items()}

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def close(self) -> None:
        """Stops accepting, then ends every connection."""
        _log.info("%sStopping socket server request processors", self._prefix)
        tasks = [*self._acceptors, *self._connections.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for refused in list(self._refused):
            self._close_refused(refused)
        for listening in self._sockets.values():
            listening.close()
        self._acceptors.clear()
        self._sockets.clear()
        _log.info("%sStopped socket server request processors", self._prefix)

    def _bind(self, endpoint: Endpoint) -> None:
        try:
            listening = _listening_socket(endpoint, self.limits)
        except OSError as failure:
            raise ConfigInvalid(
                "listeners",
                f"{endpoint.listener_name}://{endpoint.host}:{endpoint.port}",
                f"an address and port that can be bound ({failure.strerror or failure})",
            ) from failure
        self._sockets[endpoint.listener_name] = listening
        _log.info(
            "Awaiting socket connections on %s:%d.",
            endpoint.host or "0.0.0.0",
            listening.getsockname()[1],
        )

    async def _accept(self, listener_name: str, listening: socket.socket) -> None:
        while True:
            await self._wait_for_room(listener_name)
            try:
                # Not loop.sock_accept: a connection that comes in the very moment in which the
                # acceptor is cancelled would be lost, and stay open.
                await _readable(listening)
                sock, peer = listening.accept()
            except BlockingIOError:
                continue  # gone again
            except OSError as failure:
                _log.error("%sError while accepting connection: %s", self._prefix, failure)
                await asyncio.sleep(_ACCEPT_PAUSE_S)
                continue
            # An IPv4 client of a socket for both families shows as ::ffff:127.0.0.1.
            address = str(peer[0]).removeprefix("::ffff:")
            if not await self._comes_too_fast(sock, address, listener_name):
                if self._is_over_ip_limit(address):
                    sock.close()
                else:
                    self._serve(sock, address, listener_name)

    async def _comes_too_fast(self, sock: socket.socket, address: str, listener_name: str) -> bool:
        """Whether the connection is not to be served; waits while the listener must wait."""
        if self._rates is None:
            return False
        limits = self.limits
        broker_bound = limits.max_connection_creation_rate
        listener_bound = limits.listener_connection_creation_rates.get(listener_name, broker_bound)
        wait_ms = self._rates.accept(listener_name, broker_bound, listener_bound)
        if wait_ms > 0:
            try:
                await asyncio.sleep(wait_ms / 1000)
            except BaseException:
                sock.close()
                raise
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
        connection = ClientConnection(
            sock,
            address,
            listener_name,
            max_request_bytes=limits.max_request_bytes,
            max_idle_s=None if limits.max_idle_ms < 0 else limits.max_idle_ms / 1000,
            respond=self._respond,
            gate=self._gates.get(listener_name),
        )
        task = asyncio.create_task(connection.serve())
        self._connections[connection] = task
        task.add_done_callback(lambda _: self._ended(connection))

    def _ended(self, connection: ClientConnection) -> None:
        # A task that is cancelled before it begins never reaches its own clean-up.
        connection.close()
        self._connections.pop(connection, None)
        self._has_room.set()

    async def _wait_for_room(self, listener_name: str) -> None:
        while len(self._connections) >= self.limits.max_connections:
            if listener_name == self._protected_listener and self._close_least_recently_used():
                return
            self._has_room.clear()
            await self._has_room.wait()

    def _close_least_recently_used(self) -> bool:
        """Ends a client's connection in favour of a broker's; False if there is none to end."""
        others = [c for c in self._connections if c.listener_name != self._protected_listener]
        if not others:
            return False
        self._connections[min(others, key=lambda c: c.last_active_s)].cancel()
        return True

    def _is_over_ip_limit(self, address: str) -> bool:
        overrides = self.limits.max_connections_per_ip_overrides
        allowed = overrides.get(address, self.limits.max_connections_per_ip)
        counts = Counter(connection.address for connection in self._connections)
        if counts[address] < allowed:
            return False
        _log.info(
            "Rejected connection from /%s, address already has the configured maximum of %d "
            "connections.",
            address,
            allowed,
        )
        return True


def _listening_socket(endpoint: Endpoint, limits: ServerLimits) -> socket.socket:
    if not endpoint.host and socket.has_dualstack_ipv6():
        sock = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        address: tuple[str, int] = ("::", endpoint.port)
    else:
        family, _, _, _, resolved = socket.getaddrinfo(
            endpoint.host or "0.0.0.0", endpoint.port, type=socket.SOCK_STREAM
        )[0]
        sock = socket.socket(family, socket.SOCK_STREAM)
        address = resolved  # type: ignore[assignment]  # IPv6 has four parts
    try:
        if address[0] == "::":
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if limits.receive_buffer_bytes > 0:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, limits.receive_buffer_bytes)
        sock.bind(address)
        sock.listen(limits.backlog)
        sock.setblocking(False)
    except BaseException:
        sock.close()
        raise
    return sock


async def _readable(sock: socket.socket) -> None:
    """Returns when there is something to be read, or a connection to be accepted."""
    loop = asyncio.get_running_loop()
    is_readable = asyncio.Event()
    loop.add_reader(sock, is_readable.set)
    try:
        await is_readable.wait()
    finally:
        loop.remove_reader(sock)
