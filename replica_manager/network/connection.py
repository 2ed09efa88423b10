"""One client connection: reads requests and writes responses, one at a time, in order.

While a request is answered nothing more is read from its connection, as Kafka mutes it; what a
client pipelines waits in the kernel's buffers, but for what has come along with that request.  So
does one that has used up its quota, until its time is over.  A peer is not trusted: sizes are
checked before anything is read, memory grows with what has really arrived, and a connection on
which nothing has moved for ``connections.max.idle.ms`` is closed, also while its request waits.

A peer that resets the connection, or is idle for too long, frees the socket at once.  Its request
ends where it may be abandoned (:mod:`kafka_common.net.presence`), so a long poll is gone, and
what has begun to have an effect is finished.

With a :class:`~replica_manager.network.listener_authenticator.ListenerAuthenticator` a peer first
has to come in, by TLS, SASL or both; until then nothing it sends reaches a handler but ApiVersions.

Source: Kafka ``SocketServer.Processor``, ``NetworkReceive``, ``KafkaChannel``, ``Selector``.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from kafka_common.errors import InvalidFrame
from kafka_common.net.byte_stream import ByteStream, PlainStream, TlsStream, read_file
from kafka_common.net.presence import ClientPresence, abandonable, raise_if_abandoned
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.log.files import FileSlice
from replica_manager.network.listener_authenticator import AdmissionRefused, ListenerAuthenticator
from replica_manager.network.request_memory import RequestMemory, Share
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
    """IP address."""
    principal: Principal = ANONYMOUS
    is_in: bool = True
    """False while it has to log in."""
    is_token_authenticated: bool = False
    """It logged in by a delegation token."""


class ResponseFrame(NamedTuple):
    """The response frame, and how long the connection is muted afterwards."""

    frame: bytes
    """All of it, or its beginning; empty for a request that is not answered."""
    mute_ms: int = 0
    rest: Sequence[bytes | FileSlice] = ()
    """What follows."""
    closes: bool = False
    """The connection ends here."""
    sent: Sequence[Callable[[], None]] = ()
    """To be called when all of it has been sent."""
    loop_time: LoopTime | None = None
    """To which the turns count that it takes to send it."""
    muted: AbstractContextManager[None] = nullcontext()
    """Entered for as long as the client is not listened to."""


Respond: TypeAlias = Callable[[bytes, Peer], Awaitable[ResponseFrame]]
"""(frame, who sent it) to the response; InvalidFrame closes."""

_SIZE: Final = Struct(">i")
_RECEIVE_BYTES: Final = 64 * 1024
"""Received at once, and so much may be there of requests yet to come."""
_RECEIVE_LARGE_BYTES: Final = 256 * 1024
"""Received at once of a request that is not all there."""
RECEIVING_TURN_S: Final = 0.01
"""So long a request that is there already is received before others have their turn.

Each of its many pieces may give the interpreter to another thread, which keeps it for 5 ms.
"""
REQUESTS_AT_ONCE: Final = 8
"""So many requests that are there already are answered before other connections have their turn."""
_INLINE_BYTES: Final = 64 * 1024
"""So much of a file is copied into the response: cheaper than calls of its own."""
_HANDSHAKE: Final = int(ApiKey.SASL_HANDSHAKE).to_bytes(2, "big")
_log = logging.getLogger("kafka.network.Processor")
_selector_log = logging.getLogger("org.apache.kafka.common.network.Selector")


def _ignore(_: ClientConnection) -> None:
    pass


class ClientConnection:
    """One accepted socket.  ``serve`` runs until either side ends it."""

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
        on_closing: Callable[[ClientConnection], None] = _ignore,
    ) -> None:
        """``authenticator``: None where every peer is accepted as User:ANONYMOUS.

        ``memory``: that of all connections' requests; None for as much as they like.

        ``on_closing`` is called once, before the socket is closed; ``serve`` may go on after that,
        for as long as a request's effects are not complete.
        """
        self.address = address
        """The peer's IP address."""
        self.listener_name = listener_name
        self.is_login_over = False
        """Whether it ends because its login was not renewed in time (KIP-368)."""
        self.last_active_s = asyncio.get_running_loop().time()
        """On the loop's clock: when a request or a response last went through."""
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
        self._share: Share | None = None
        """What the request that arrives, or is answered, holds of it; None for a small one."""
        self._requests = 0
        self._read_ahead = bytearray()
        self._last_io_s = self.last_active_s
        """When bytes last went either way."""
        self._is_waiting_for_peer = True
        """Whether the socket is in use, to receive or to send; False: a request is answered."""
        self._idle_timer: asyncio.TimerHandle | None = None
        self._presence: ClientPresence | None = None
        self._is_over = False
        """Whether the peer has hung up, or was idle for too long."""
        self._is_closed = False
        self._on_closing = on_closing

    async def serve(self) -> None:
        """Answers requests until the connection ends; raises only cancellation."""
        loop = asyncio.get_running_loop()
        self._presence = ClientPresence()
        self._set_idle_timer(loop)
        try:
            if self._authenticator is not None:
                await self._come_in(self._authenticator)
            while (data := await self._next_request()) is not None:
                self.last_active_s = loop.time()
                if await self._is_for_login(data):
                    continue
                if not await self._is_answered(data):
                    return
                self.last_active_s = loop.time()
        except asyncio.CancelledError:
            if not self._presence.is_gone:
                raise
            # The client has gone, and its request with it.
        except AdmissionRefused:
            pass  # the peer has its response, and the log its line
        except InvalidFrame as invalid:
            _log.warning("Closing the connection from %s: %s", self.address, invalid)
        except (OSError, TimeoutError):
            pass  # the peer went away, or was idle for too long: both are usual
        except Exception:  # noqa: BLE001 - whatever it is, it ends this connection alone
            _log.exception("Closing the connection from %s because of an error", self.address)
        finally:
            self.close()

    async def _is_answered(self, data: bytes) -> bool:
        """Answers the request in ``data``; returns whether another may follow."""
        self._is_waiting_for_peer = False
        try:
            response = await self._respond(data, self._peer)
        finally:
            self._is_waiting_for_peer = True
            self._release_memory()
        del data
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
        """The peer has reset the connection, and will not read a response."""
        if not self._is_waiting_for_peer:
            self.disconnect()
        elif self._presence is not None:
            # Reading finds it out, after what had arrived before: that still takes effect.
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
        self._on_closing(self)
        self._stream.close()

    # Coming in

    async def _come_in(self, authenticator: ListenerAuthenticator) -> None:
        """Returns when the peer is authenticated; raises AdmissionRefused after sending the error.

        TimeoutError if that takes longer than a connection may be idle, however often a byte comes.
        """
        try:
            async with asyncio.timeout(self._max_idle_s):
                if authenticator.tls is not None:
                    self._peer = self._peer._replace(
                        principal=await self._tls_principal(authenticator)
                    )
                if authenticator.sasl is not None:
                    await self._log_in(authenticator.authenticator())
        except AdmissionRefused as refused:
            await self._turn_away(authenticator, refused)
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
        return authenticator.principal_of(stream.peer_certificate)

    async def _log_in(self, authenticator: SaslAuthenticator, data: bytes | None = None) -> None:
        """Completes a login; ``data`` is its first frame if that was read already."""
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
                reply = (await self._respond(data, self._peer._replace(is_in=False))).frame
            if step.failure is not None:
                raise AdmissionRefused(step.failure, reply)
            if reply is not None:
                await self._send(reply)
            data = None
        self._login = authenticator.login
        self._peer = self._peer._replace(
            principal=self._login.principal, is_token_authenticated=self._login.is_token
        )

    async def _is_for_login(self, data: bytes) -> bool:
        """Whether the frame starts another login; ConnectionAbortedError if the session expired."""
        login = self._login
        if login is None or login.expires_at_ms is None:
            return False
        if await self._is_renewed(login, data):
            return True
        if self._now_ms() > login.expires_at_ms:
            _log.debug("Disconnecting expired channel of %s", self.address)
            self.is_login_over = True
            raise ConnectionAbortedError("the login is over")
        return False

    async def _is_renewed(self, login: Login, data: bytes) -> bool:
        """Whether the frame started another login, which is complete then (KIP-368)."""
        assert self._authenticator is not None
        now_ms, last_ms = self._now_ms(), self._reauthenticated_at_ms
        if not data.startswith(_HANDSHAKE) or (
            last_ms is not None and now_ms - last_ms < MIN_REAUTHENTICATION_INTERVAL_MS
        ):
            return False
        self._reauthenticated_at_ms = now_ms
        try:
            await self._log_in(self._authenticator.authenticator(login), data)
        except AdmissionRefused as refused:
            await self._turn_away(self._authenticator, refused)
            raise
        return True

    async def _turn_away(
        self, authenticator: ListenerAuthenticator, refused: AdmissionRefused
    ) -> None:
        """Logs the failure, waits so that guessing takes time, and sends the error."""
        _selector_log.info(
            "Failed %sauthentication with /%s (listener %s) (%s)",
            "" if self._login is None else "re-",
            self.address,
            self.listener_name,
            refused,
        )
        await asyncio.sleep(authenticator.delay_s)
        if refused.reply is not None:
            await self._send(refused.reply)

    def _now_ms(self) -> int:
        return int(asyncio.get_running_loop().time() * 1000)

    # Frames

    async def _send(self, data: bytes, *, has_more: bool = False) -> None:
        self._note_io()
        await self._stream.send_all(data, has_more=has_more)
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
                self._note_io()
                await self._stream.send_file(part.file.fileno(), part.position, part.length)
                self._note_io()
        if pending:
            await self._send(pending)

    async def _next_request(self) -> bytes | None:
        self._requests += 1
        if self._requests % REQUESTS_AT_ONCE == 0:
            # A socket that is always ready never makes its task wait.
            await asyncio.sleep(0)
        return await self._receive_frame(self._max_request_bytes)

    async def _receive_frame(self, max_bytes: int) -> bytes | None:
        """The next frame without its size; None when the peer has closed between frames."""
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
                raise_if_abandoned()  # closed to make room for others
        finally:
            self._is_waiting_for_peer = True

    def has_more(self) -> bool:
        """Whether the peer has sent unread bytes."""
        try:
            return bool(self._socket.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _release_memory(self) -> None:
        if self._share is not None:
            self._share.release()
            self._share = None

    async def _receive(self, size: int) -> bytes:
        """The received bytes, at most ``size``; none if the peer has closed."""
        data = await self._stream.receive(size)
        if self._is_over:
            raise TimeoutError
        self._note_io()
        return data

    def _note_io(self) -> None:
        self._last_io_s = asyncio.get_running_loop().time()

    # A timer for every call would cost as much as the call.

    def _set_idle_timer(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._max_idle_s is not None:
            due_s = self._last_io_s + self._max_idle_s
            self._idle_timer = loop.call_at(due_s, self._check_idle, loop)

    def _check_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._idle_timer = None
        assert self._max_idle_s is not None
        if loop.time() < self._last_io_s + self._max_idle_s:
            self._set_idle_timer(loop)
        else:
            self.disconnect()
