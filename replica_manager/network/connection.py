"""One client connection: reads requests and writes responses in order, and mostly one at a time.

While a request is handled, its connection is not read: it is muted, as in Kafka.  Further requests
of the client wait in the kernel's buffers, except bytes that arrived with the current request.  If
those are Produce requests, and the current one only waits until replicas have its records, their
records are appended before that wait, so that one round of replication acknowledges them all.  The
connection is also muted for the throttle time of a client that has exceeded its quota.  A peer is
not trusted: sizes are checked before a request is read, memory grows only with bytes that have
arrived, and a connection without traffic for ``connections.max.idle.ms`` is closed, even while its
request waits.

If the peer resets the connection, or is idle for too long, the socket is closed at once.  Its
request ends at the next point where it may be abandoned (:mod:`kafka_common.net.presence`): a long
poll ends, but a write that has begun is completed.

With a :class:`~replica_manager.network.listener_authenticator.ListenerAuthenticator`, a peer must
first authenticate by TLS, SASL or both.  Until then only its ApiVersions requests reach a handler.

Source: Kafka ``SocketServer.Processor``, ``NetworkReceive``, ``KafkaChannel``, ``Selector``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from kafka_common.errors import InvalidFrame
from kafka_common.net.byte_stream import ByteStream, PlainStream, TlsStream, read_file
from kafka_common.net.presence import ClientPresence, abandonable, raise_if_abandoned
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.log.files import FileSlice
from replica_manager.network.listener_authenticator import AdmissionRefused, ListenerAuthenticator
from replica_manager.network.request_memory import RequestMemory, Share
from replica_manager.network.selector_metrics import ConnectionMetrics
from replica_manager.quotas.loop_time import LoopTime, Timed
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.security.sasl_authenticator import (
    MIN_REAUTHENTICATION_INTERVAL_MS,
    Login,
    SaslAuthenticator,
)


class Peer(NamedTuple):
    """The client's listener, address and principal."""

    listener_name: str
    address: str
    """The client's IP address."""
    principal: Principal = ANONYMOUS
    is_in: bool = True
    """False until the client is authenticated."""
    is_token_authenticated: bool = False
    """Whether the client authenticated with a delegation token."""


class ResponseFrame(NamedTuple):
    """A response frame, and how the connection continues after it."""

    frame: bytes
    """The whole response frame or its beginning; empty if there is no response."""
    mute_ms: int = 0
    rest: Sequence[bytes | FileSlice] = ()
    """The rest of the response frame, in order."""
    closes: bool = False
    """Whether the connection is closed without a response."""
    sent: Sequence[Callable[[], None]] = ()
    """Callbacks for when the whole response has been sent."""
    loop_time: LoopTime | None = None
    """Where the event loop time of sending the response is added; None to not measure it."""
    muted: AbstractContextManager[None] = nullcontext()
    """A context that is entered while the connection is muted."""


Begun: TypeAlias = ResponseFrame | Callable[[], Awaitable[ResponseFrame]]
"""The response, or what waits for it: the next request may be handled before that wait."""

Respond: TypeAlias = Callable[[bytes, Peer], Awaitable[Begun]]
"""Handles a request frame of a peer; InvalidFrame closes the connection."""

_SIZE: Final = Struct(">i")
_RECEIVE_BYTES: Final = 64 * 1024
"""The most bytes of one read, and so the most bytes of later requests held in memory."""
_RECEIVE_LARGE_BYTES: Final = 256 * 1024
"""The most bytes of one read for the rest of a large request."""
RECEIVING_TURN_S: Final = 0.01
"""Seconds of reading a large request before the connection yields to other tasks.

Each of its many reads may also let another thread run Python for 5 ms.
"""
REQUESTS_AT_ONCE: Final = 8
"""Requests handled in sequence before the connection yields to other connections."""
PRODUCES_AT_ONCE: Final = 5
"""Produce requests of a connection that wait for replicas at once.

An idempotent producer sends no more ahead (``max.in.flight.requests.per.connection``).
"""
_INLINE_BYTES: Final = 64 * 1024
"""File slices up to this many bytes are copied into the response, which saves system calls."""
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_PRODUCE: Final = int(ApiKey.PRODUCE).to_bytes(2, "big")
_log = logging.getLogger("kafka.network.Processor")
_selector_log = logging.getLogger("org.apache.kafka.common.network.Selector")


def _ignore(_: ClientConnection) -> None:
    pass


async def _fail(failure: InvalidFrame) -> ResponseFrame:
    raise failure


class ClientConnection:
    """One accepted socket.  ``serve`` runs until the client or the broker closes it."""

    def __init__(
        self,
        sock: socket.socket,
        address: str,
        listener_name: str,
        *,
        max_request_bytes: int,
        max_idle_s: float | None,
        respond: Respond,
        authenticator: ListenerAuthenticator | None = None,
        memory: RequestMemory | None = None,
        metrics: ConnectionMetrics | None = None,
        on_closing: Callable[[ClientConnection], None] = _ignore,
    ) -> None:
        """``authenticator``: None to accept every peer as User:ANONYMOUS.

        ``memory``: the memory for the requests of all connections; None is no limit.
        ``metrics``: None to count nothing.

        ``on_closing`` is called once, before the socket is closed; ``serve`` may run longer, until
        the current request is completed.
        """
        self.address = address
        """The peer's IP address."""
        self.listener_name = listener_name
        self.is_login_over = False
        """Whether it was closed because the client did not re-authenticate in time (KIP-368)."""
        self.last_active_s = asyncio.get_running_loop().time()
        """When a request was last received or a response sent, in seconds of the loop's clock."""
        self._socket = sock
        self._stream: ByteStream = PlainStream(sock)
        self._authenticator = authenticator
        self._peer = Peer(listener_name, address)
        self._login: Login | None = None
        self._reauthenticated_at_ms: int | None = None
        self._max_request_bytes = max_request_bytes
        self._max_idle_s = max_idle_s
        self._respond = respond
        self._memory = memory
        self._metrics = metrics
        self._share: Share | None = None
        """The current request's share of the memory; None for a small request."""
        self._requests = 0
        self._read_ahead = bytearray()
        self._last_io_s = self.last_active_s
        """When bytes were last received or sent, in seconds of the loop's clock."""
        self._is_waiting_for_peer = True
        """Whether the socket is in use to receive or send; False while a request is handled."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._seen_pieces: int | None = None
        """The stream's ``sent_pieces`` as last seen in the current send; None if there is none."""
        self._presence: ClientPresence | None = None
        self._is_over = False
        """Whether the peer has reset the connection, or was idle for too long."""
        self._is_closed = False
        self._on_closing = on_closing

    async def serve(self) -> None:
        """Handles requests until the connection ends; raises only CancelledError."""
        loop = asyncio.get_running_loop()
        self._presence = ClientPresence()
        self._set_idle_timer(loop)
        try:
            if self._authenticator is not None:
                await self._authenticate(self._authenticator)
            while (data := await self._next_request()) is not None:
                self.last_active_s = loop.time()
                if await self._is_reauthentication(data):
                    continue
                if not await self._is_answered(data):
                    return
                self.last_active_s = loop.time()
        except asyncio.CancelledError:
            if not self._presence.is_gone:
                raise
            # The client has disconnected, so its request was cancelled.
        except AdmissionRefused:
            pass  # the error was logged and sent already
        except InvalidFrame as invalid:
            _log.warning("Closing the connection from %s: %s", self.address, invalid)
        except (OSError, TimeoutError):
            pass  # the peer disconnected or was idle for too long, which is usual
        except Exception:  # noqa: BLE001 - an error must end this connection only
            _log.exception("Closing the connection from %s because of an error", self.address)
        finally:
            self.close()

    async def _is_answered(self, data: bytes) -> bool:
        """Handles the request in ``data``; returns whether the connection stays open.

        Likewise the Produce requests behind it, if they have arrived and it waits for replicas.
        """
        begun: deque[Begun] = deque()
        try:
            await self._begin(data, begun)
            while begun:
                if not await self._is_sent(begun.popleft()):
                    return False
        finally:
            await self._abandon(begun)
        return True

    async def _begin(self, data: bytes, begun: deque[Begun]) -> None:
        self._is_waiting_for_peer = False
        try:
            begun.append(await self._respond(data, self._peer))
            while not isinstance(begun[-1], ResponseFrame) and len(begun) < PRODUCES_AT_ONCE:
                if (following := self._produce_ahead()) is None:
                    break
                try:
                    begun.append(await self._respond(following, self._peer))
                except InvalidFrame as invalid:
                    # The responses before it are sent first.
                    begun.append(partial(_fail, invalid))
                    break
        finally:
            self._is_waiting_for_peer = True

    async def _abandon(self, begun: Iterable[Begun]) -> None:
        """Ends the waits of requests whose responses will not be sent."""
        for each in begun:
            assert self._presence is not None
            self._presence.leave()
            if not isinstance(each, ResponseFrame):
                with suppress(asyncio.CancelledError, InvalidFrame):
                    await each()

    async def _is_sent(self, begun: Begun) -> bool:
        """Waits for the response and sends it; returns whether the connection stays open."""
        if isinstance(begun, ResponseFrame):
            response = begun
        else:
            self._is_waiting_for_peer = False
            try:
                response = await begun()
            finally:
                self._is_waiting_for_peer = True
        self._release_memory()
        if self._is_over:
            return False
        await self._answer(response)
        if response.closes:
            return False
        if response.mute_ms > 0:
            await self._be_mute(response)
        return True

    async def _be_mute(self, response: ResponseFrame) -> None:
        with response.muted:
            self._is_waiting_for_peer = False
            try:
                with abandonable():
                    await asyncio.sleep(response.mute_ms / 1000)
            finally:
                self._is_waiting_for_peer = True

    def hung_up(self) -> None:
        """Ends the connection after the peer has reset it and will read no response."""
        if not self._is_waiting_for_peer:
            self.disconnect()
        elif self._presence is not None:
            # The next read fails, after the requests that arrived before: they are still handled.
            self._presence.leave()

    def disconnect(self) -> None:
        """Ends the connection; ``serve`` returns soon.

        The socket is closed at once if it is not in use.
        """
        if self._is_over or self._is_closed:
            return
        self._is_over = True
        if self._is_waiting_for_peer:
            self._stream.wake()
        else:
            self.close()
        if self._presence is not None:
            self._presence.leave()

    def close(self) -> None:
        """Closes the socket; no call may be in flight on it."""
        if self._is_closed:
            return
        self._is_closed = True
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._read_ahead.clear()
        self._release_memory()
        if self._metrics is not None:
            self._metrics.closed(is_expired=self.is_login_over)
        self._on_closing(self)
        self._stream.close()

    # Authentication

    async def _authenticate(self, authenticator: ListenerAuthenticator) -> None:
        """Authenticates the peer; raises AdmissionRefused after sending the error.

        Raises TimeoutError if it takes longer than ``connections.max.idle.ms`` in total.
        """
        try:
            async with asyncio.timeout(self._max_idle_s):
                if authenticator.tls is not None:
                    self._peer = self._peer._replace(
                        principal=await self._tls_principal(authenticator)
                    )
                if authenticator.sasl is not None:
                    await self._authenticate_by_sasl(authenticator.authenticator())
            if self._metrics is not None:
                can_reauthenticate = self._login is not None and self._login.can_reauthenticate
                self._metrics.selector.authenticated(can_reauthenticate=can_reauthenticate)
        except AdmissionRefused as refused:
            await self._send_failure(authenticator, refused)
            raise

    async def _tls_principal(self, authenticator: ListenerAuthenticator) -> Principal:
        assert authenticator.tls is not None
        stream = TlsStream(self._socket, authenticator.tls)
        self._stream = stream
        try:
            await stream.handshake()
        except TimeoutError:
            raise
        except OSError as failure:
            reason = getattr(failure, "reason", None) or failure
            raise AdmissionRefused(f"SSL handshake failed: {reason}") from None
        if self._metrics is not None:
            self._metrics.encrypted(stream.cipher)
        return authenticator.principal_of(stream.peer_certificate)

    async def _authenticate_by_sasl(
        self, authenticator: SaslAuthenticator, data: bytes | None = None
    ) -> None:
        """Completes a SASL authentication; ``data`` is its first frame if that was read already."""
        assert self._authenticator is not None
        assert self._authenticator.sasl is not None
        while authenticator.login is None:
            if data is None:
                data = await self._receive_frame(self._authenticator.sasl.max_receive_bytes)
            if data is None:
                raise ConnectionResetError("the peer closed before it was in")
            try:
                step = authenticator.receive(data, self._now_ms())
            except InvalidFrame as invalid:
                raise AdmissionRefused(str(invalid)) from None
            reply = step.reply
            if step.is_for_dispatcher:
                if self._metrics is not None:
                    self._metrics.named_software(data)
                response = await self._respond(data, self._peer._replace(is_in=False))
                assert isinstance(response, ResponseFrame), "ApiVersions waits for nothing"
                reply = response.frame
            if step.failure is not None:
                raise AdmissionRefused(step.failure, reply)
            if reply is not None:
                await self._send(reply)
            data = None
        self._login = authenticator.login
        self._peer = self._peer._replace(
            principal=self._login.principal, is_token_authenticated=self._login.is_token
        )

    async def _is_reauthentication(self, data: bytes) -> bool:
        """Handles a frame that starts a re-authentication; returns whether it was one.

        Raises ConnectionAbortedError if the SASL session has expired.
        """
        login = self._login
        if login is None or login.expires_at_ms is None:
            return False
        if await self._reauthenticate(login, data):
            return True
        if self._is_login_past():
            _log.debug("Disconnecting expired channel of %s", self.address)
            self.is_login_over = True
            raise ConnectionAbortedError("the login is over")
        return False

    def _is_login_past(self) -> bool:
        """Whether the client should have authenticated again by now."""
        expires_at_ms = None if self._login is None else self._login.expires_at_ms
        return expires_at_ms is not None and self._now_ms() > expires_at_ms

    async def _reauthenticate(self, login: Login, data: bytes) -> bool:
        """Completes the re-authentication if the frame starts one; returns whether (KIP-368)."""
        assert self._authenticator is not None
        now_ms, last_ms = self._now_ms(), self._reauthenticated_at_ms
        if not data.startswith(_HANDSHAKE) or (
            last_ms is not None and now_ms - last_ms < MIN_REAUTHENTICATION_INTERVAL_MS
        ):
            return False
        self._reauthenticated_at_ms = now_ms
        try:
            await self._authenticate_by_sasl(self._authenticator.authenticator(login), data)
        except AdmissionRefused as refused:
            await self._send_failure(self._authenticator, refused)
            raise
        if self._metrics is not None:
            self._metrics.selector.reauthenticated(self._now_ms() - now_ms)
        return True

    async def _send_failure(
        self, authenticator: ListenerAuthenticator, refused: AdmissionRefused
    ) -> None:
        """Logs the failure and sends the error after a delay, which slows down guessing."""
        _selector_log.info(
            "Failed %sauthentication with /%s (listener %s) (%s)",
            "" if self._login is None else "re-",
            self.address,
            self.listener_name,
            refused,
        )
        if self._metrics is not None:
            self._metrics.selector.failed(is_again=self._login is not None)
        await asyncio.sleep(authenticator.delay_s)
        if refused.reply is not None:
            await self._send(refused.reply)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    # Frames

    async def _send(self, data: bytes, *, has_more: bool = False) -> None:
        with self._progress():
            await self._stream.send_all(data, has_more=has_more)

    @contextmanager
    def _progress(self) -> Iterator[None]:
        """A send that does not count as idle as long as the peer reads."""
        self._note_io()
        self._seen_pieces = self._stream.sent_pieces
        yield
        self._seen_pieces = None
        self._note_io()

    async def _answer(self, response: ResponseFrame) -> None:
        if not response.closes:
            sending = self._send_parts(response)
            await (sending if response.loop_time is None else Timed(sending, response.loop_time))
        for tell in response.sent:
            tell()

    async def _send_parts(self, response: ResponseFrame) -> None:
        pending = response.frame
        for part in response.rest:
            if isinstance(part, bytes):
                pending += part
            elif part.length <= _INLINE_BYTES:
                pending += await read_file(part.file.fileno(), part.position, part.length)
            else:
                if pending:
                    await self._send(pending, has_more=True)
                    pending = b""
                with self._progress():
                    await self._stream.send_file(part.file.fileno(), part.position, part.length)
        if pending:
            await self._send(pending)
        if self._metrics is not None and response.frame:
            rest = (len(each) if isinstance(each, bytes) else each.length for each in response.rest)
            self._metrics.selector.sent(len(response.frame) + sum(rest))

    async def _next_request(self) -> bytes | None:
        self._requests += 1
        if self._requests % REQUESTS_AT_ONCE == 0:
            # If bytes are always available, reading never yields to other tasks.
            await asyncio.sleep(0)
        data = await self._receive_frame(self._max_request_bytes)
        if data is not None and self._metrics is not None:
            self._metrics.received(data)
        return data

    def _produce_ahead(self) -> bytes | None:
        """The next request without its size, if it is a Produce that has arrived as a whole."""
        buffer = self._read_ahead
        if not buffer.startswith(_PRODUCE, _SIZE.size) or self._is_login_past():
            return None
        (size,) = _SIZE.unpack_from(buffer)
        end = _SIZE.size + size
        if not len(_PRODUCE) <= size <= self._max_request_bytes or len(buffer) < end:
            return None
        frame = bytes(buffer[_SIZE.size : end])
        del buffer[:end]
        if self._metrics is not None:
            self._metrics.received(frame)
        return frame

    async def _receive_frame(self, max_bytes: int) -> bytes | None:
        """The next frame without its size; None if the peer has closed the connection."""
        self._release_memory()
        buffer = self._read_ahead
        while len(buffer) < _SIZE.size:
            data = await self._receive(_RECEIVE_BYTES)
            if not data:
                return None
            buffer += data
        (size,) = _SIZE.unpack_from(buffer)
        if not 0 <= size <= max_bytes:
            raise InvalidFrame(f"a request of {size} bytes, {max_bytes} are allowed")
        end = _SIZE.size + size
        frame = buffer[_SIZE.size : end]
        del buffer[:end]
        if size > _RECEIVE_BYTES and self._memory is not None:
            self._share = self._memory.share(self)
            self._share.arrived(len(frame))
        turn_began_s = self._last_io_s
        while len(frame) < size:
            if self._last_io_s - turn_began_s > RECEIVING_TURN_S:
                await asyncio.sleep(0)
                turn_began_s = asyncio.get_running_loop().time()
            if self._share is not None:
                await self._wait_for_memory(self._share)
            data = await self._receive(min(size - len(frame), _RECEIVE_LARGE_BYTES))
            if not data:
                raise InvalidFrame("the peer closed within a request")
            frame += data
            if self._share is not None:
                self._share.arrived(len(data))
        if self._share is not None:
            self._share.is_complete = True
        return bytes(frame)

    async def _wait_for_memory(self, share: Share) -> None:
        self._is_waiting_for_peer = False
        try:
            with abandonable():
                await share.wait()
                raise_if_abandoned()  # the connection was closed to free memory
        finally:
            self._is_waiting_for_peer = True

    def has_more(self) -> bool:
        """Whether the socket has unread bytes from the peer."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _release_memory(self) -> None:
        if self._share is not None:
            self._share.release()
            self._share = None

    async def _receive(self, size: int) -> bytes:
        """The received bytes, at most ``size``; empty if the peer has closed the connection."""
        data = await self._stream.receive(size)
        if self._is_over:
            raise TimeoutError
        self._note_io()
        return data

    def _note_io(self) -> None:
        self._last_io_s = asyncio.get_running_loop().time()

    # One timer for the connection: a timer for every read would cost as much as the read.

    def _set_idle_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._max_idle_s is not None:
            due_s = self._last_io_s + self._max_idle_s
            self._idle_timer = loop.call_at(due_s, self._check_idle, loop)

    def _check_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._idle_timer = None
        assert self._max_idle_s is not None
        if self._seen_pieces not in (None, self._stream.sent_pieces):
            # A large response is on its way, and the peer reads it.
            self._seen_pieces = self._stream.sent_pieces
            self._note_io()
        if loop.time() < self._last_io_s + self._max_idle_s:
            self._set_idle_timer(loop)
        else:
            self.disconnect()
