"""A client connection to a broker on the asyncio loop, with one request in flight.

A listener may require TLS, a login, or both (:mod:`.client_security`).  Before a call the login is
renewed if its session ends soon.

The socket is used directly (``loop.sock_sendall``), because an UpdateMetadata of several megabytes
goes to every broker at the same time.  asyncio's transports copy the bytes that the kernel does not
take at once, and before Python 3.12 ``writelines`` joins all chunks first.  Here large chunks of a
body are sent without a copy, and only small ones are joined.

A peer is not trusted: the announced size is checked, and memory grows only with the bytes that
arrive.  After any failure, time-out or cancellation the connection is closed, because the response
of that call may still arrive.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Self, cast

from kio.static.protocol import RequestPayload, ResponsePayload

from kafka_common.errors import InvalidFrame
from kafka_common.net.byte_stream import ByteStream, PlainStream, TlsStream
from kafka_common.net.client_security import (
    PLAINTEXT,
    RELOGIN_AT,
    AnyCredentials,
    ClientSecurity,
    log_in,
)
from kafka_common.protocol.messages import read_response, request_type, response_type, write
from kafka_common.protocol.wire_guard import skip_tagged_fields

CONNECT_TIMEOUT_MS: Final = 10_000
REQUEST_TIMEOUT_MS: Final = 30_000
MAX_RESPONSE_BYTES: Final = 100 * 1024 * 1024

JOINED_BYTES: Final = 64 * 1024
"""Chunks below this size are joined into pieces of about this size before they are sent."""

_RECEIVE_BYTES: Final = 64 * 1024
_FAIR_BYTES: Final = 1024 * 1024
"""While a response is received, other tasks may run after each such piece (about 0.5 ms)."""
_LENGTH: Final = struct.Struct(">i")
_HEADER_START: Final = struct.Struct(">hhi")


class Connection:
    """An open connection.  Calls of several tasks are sent one after the other, in their order.

    A call raises ConnectionError if the peer is gone, TimeoutError if no response comes in time,
    and InvalidFrame if the response is malformed; in each case the connection is closed.
    """

    def __init__(
        self,
        stream: ByteStream,
        *,
        peer: str,
        client_id: str,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        correlation_ids: Iterator[int] | None = None,
    ) -> None:
        """``stream`` must be open; use :meth:`open` to connect and log in."""
        self.peer = peer
        """``host:port`` of the broker, for messages."""
        self.last_correlation_id = -1
        """Correlation id of the latest request; -1 before the first."""
        self._stream = stream
        self._client_id = client_id.encode()
        self._request_timeout_s = request_timeout_ms / 1000
        self._max_response_bytes = max_response_bytes
        self._correlation_ids = correlation_ids or itertools.count()
        self._turn = asyncio.Lock()
        self._is_closed = False
        self._credentials: AnyCredentials | None = None
        self._log_in_again_at_s: float | None = None

    @classmethod
    async def open(
        cls,
        host: str,
        port: int,
        *,
        client_id: str,
        connect_timeout_ms: int = CONNECT_TIMEOUT_MS,
        request_timeout_ms: int = REQUEST_TIMEOUT_MS,
        max_response_bytes: int = MAX_RESPONSE_BYTES,
        correlation_ids: Iterator[int] | None = None,
        security: ClientSecurity = PLAINTEXT,
    ) -> Self:
        """Connects and logs in; raises OSError, or TimeoutError after ``connect_timeout_ms``.

        ``correlation_ids``: a counter that several connections to the same broker may share.
        """
        peer = f"{host}:{port}"
        try:
            async with asyncio.timeout(connect_timeout_ms / 1000):
                stream = await _secured(await _connect(host, port), host, security)
        except TimeoutError:
            raise TimeoutError(f"{peer} did not accept within {connect_timeout_ms} ms") from None
        except OSError as error:
            raise ConnectionError(f"cannot connect to {peer}: {error.strerror or error}") from error
        connection = cls(
            stream,
            peer=peer,
            client_id=client_id,
            request_timeout_ms=request_timeout_ms,
            max_response_bytes=max_response_bytes,
            correlation_ids=correlation_ids,
        )
        if security.credentials is not None:
            connection._credentials = security.credentials
            await connection._log_in(security.credentials)
        return connection

    async def request(self, payload: RequestPayload) -> ResponsePayload:
        """Sends a kio request and returns kio's response of the same API and version."""
        api_key, version = int(payload.__api_key__), int(payload.__version__)
        body = await self.call(api_key, version, (write(payload),))
        return read_response(api_key, version, body)

    async def call(self, api_key: int, api_version: int, body: Sequence[bytes]) -> bytes:
        """Sends an encoded request body and returns the response body; both without header."""
        return bytes(await self.call_for_view(api_key, api_version, body))

    async def call_for_view(
        self, api_key: int, api_version: int, body: Sequence[bytes]
    ) -> memoryview:
        """As :meth:`call`, but returns a view of the received bytes instead of a copy."""
        async with self._turn:
            if self._is_closed:
                raise ConnectionError(f"connection to {self.peer} is closed")
            if self._is_login_due() and self._credentials is not None:
                await self._log_in(self._credentials)
            return await self._exchange(api_key, api_version, body, next(self._correlation_ids))

    def _is_login_due(self) -> bool:
        due_s = self._log_in_again_at_s
        return due_s is not None and asyncio.get_running_loop().time() >= due_s

    async def _log_in(self, credentials: AnyCredentials) -> None:
        # The log names requests by their correlation ids, so logins have numbers of their own.
        numbers = itertools.count()

        async def call(api_key: int, api_version: int, body: tuple[bytes, ...]) -> bytes:
            return bytes(await self._exchange(api_key, api_version, body, next(numbers)))

        try:
            lifetime_s = await log_in(credentials, self.peer, call)
        except InvalidFrame as invalid:
            self._release()
            raise ConnectionError(f"no login at {self.peer}: {invalid}") from invalid
        except BaseException:
            self._release()
            raise
        now_s = asyncio.get_running_loop().time()
        self._log_in_again_at_s = None if lifetime_s is None else now_s + lifetime_s * RELOGIN_AT

    async def _exchange(
        self, api_key: int, api_version: int, body: Sequence[bytes], correlation_id: int
    ) -> memoryview:
        self.last_correlation_id = correlation_id
        try:
            async with asyncio.timeout(self._request_timeout_s):
                await self._send(api_key, api_version, correlation_id, body)
                frame = await self._receive_frame()
            return self._without_header(api_key, api_version, correlation_id, frame)
        except TimeoutError:
            self._release()
            raise TimeoutError(
                f"no answer from {self.peer} within {self._request_timeout_s:g} s"
            ) from None
        except BaseException:
            self._release()
            raise

    def is_usable(self) -> bool:
        """False if the connection is closed, or the peer closed it between two requests."""
        if self._is_closed:
            return False
        if self._turn.locked():
            return True
        return self._stream.is_quiet()

    async def close(self) -> None:
        """Closes the connection; a call that waits for its response raises ConnectionError."""
        if self._is_closed:
            return
        if not self._turn.locked():
            self._release()
            return
        # A call still waits for this socket: let it end before the socket is closed.
        self._stream.wake()
        async with self._turn:
            self._release()

    def _release(self) -> None:
        self._is_closed = True
        self._stream.close()

    async def _send(
        self, api_key: int, api_version: int, correlation_id: int, body: Sequence[bytes]
    ) -> None:
        head = _HEADER_START.pack(api_key, api_version, correlation_id)
        if _request_header_version(api_key, api_version) >= 1:
            head += struct.pack(">h", len(self._client_id)) + self._client_id
        if _request_header_version(api_key, api_version) >= 2:
            head += b"\0"  # no tagged fields
        size = len(head) + sum(map(len, body))
        for piece in _pieces(_LENGTH.pack(size) + head, body):
            await self._stream.send_all(piece)

    async def _receive_frame(self) -> memoryview:
        received = bytearray()
        await self._receive(received, _LENGTH.size)
        (size,) = _LENGTH.unpack(received)
        if not _LENGTH.size <= size <= self._max_response_bytes:
            raise InvalidFrame(f"{self.peer} announces a response of {size} bytes")
        received.clear()
        await self._receive(received, size)
        return memoryview(received)

    async def _receive(self, received: bytearray, size: int) -> None:
        while len(received) < size:
            wanted = min(size - len(received), _RECEIVE_BYTES)
            data = await self._stream.receive(wanted)
            if not data:
                raise ConnectionResetError(f"{self.peer} closed the connection")
            received += data
            if len(received) % _FAIR_BYTES < len(data) < len(received):
                # Bytes that have arrived are received without waiting; let other tasks run.
                await asyncio.sleep(0)

    def _without_header(
        self, api_key: int, api_version: int, correlation_id: int, frame: memoryview
    ) -> memoryview:
        (answered,) = _LENGTH.unpack_from(frame)
        if answered != correlation_id:
            raise InvalidFrame(
                f"{self.peer} answered correlation id {answered}, not {correlation_id}"
            )
        start = _LENGTH.size
        if _response_header_version(api_key, api_version) >= 1:
            try:
                start = skip_tagged_fields(frame, start)
            except IndexError:
                raise InvalidFrame(f"{self.peer} answered a header cut short") from None
        return frame[start:]


@cache
def _request_header_version(api_key: int, api_version: int) -> int:
    return cast(int, request_type(api_key, api_version).__header_schema__.__version__)


@cache
def _response_header_version(api_key: int, api_version: int) -> int:
    return cast(int, response_type(api_key, api_version).__header_schema__.__version__)


def _pieces(head: bytes, body: Sequence[bytes]) -> Iterator[bytes]:
    """``head`` and the chunks of ``body`` in order; large chunks unchanged, small ones joined."""
    small = [head]
    joined_bytes = len(head)
    for chunk in body:
        if len(chunk) >= JOINED_BYTES or joined_bytes + len(chunk) > JOINED_BYTES:
            if small:
                yield b"".join(small)
            small, joined_bytes = [], 0
        if len(chunk) >= JOINED_BYTES:
            yield chunk
        else:
            small.append(chunk)
            joined_bytes += len(chunk)
    if small:
        yield b"".join(small)


async def _secured(sock: socket.socket, host: str, security: ClientSecurity) -> ByteStream:
    if security.tls is None:
        return PlainStream(sock)
    try:
        stream = TlsStream(sock, security.tls, server_hostname=host)
        await stream.handshake()
    except BaseException:
        sock.close()
        raise
    return stream


async def _connect(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError | None = None
    try:
        addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        # A broker may announce an invalid host such as "a..b", for which Python raises this.
        raise OSError(f"{host} is no name of a host") from error
    for family, kind, protocol, _, address in addresses:
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure or OSError(f"{host} has no address")
