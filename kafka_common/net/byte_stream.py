"""Byte streams over sockets on the event loop, plain or TLS, with one interface.

TLS is driven by hand (``ssl.MemoryBIO``) over the same socket calls as plain bytes, so that callers
need not distinguish the two.  asyncio's own TLS exists for its transports only, and those copy the
bytes that the kernel does not take at once.

One task reads and writes at a time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl
from typing import Final, Protocol

_RECORD_BYTES: Final = 64 * 1024
"""The most bytes received from the socket in one call."""

_WRITE_BYTES: Final = 256 * 1024
"""Bytes encrypted at once, in about 0.1 ms; other tasks may run between two such pieces."""

_FILE_BYTES: Final = 1024 * 1024
"""The most bytes sent from a file in one call."""

_READ_AHEAD_BYTES: Final = 128 * 1024

_PROBE: Final = bytearray(1)


class TlsBrokenOff(ConnectionResetError):
    """The peer ended TLS with an alert, such as one about a certificate."""


class ByteStream(Protocol):
    """An open connection."""

    async def receive(self, size: int) -> bytes:
        """Receives 1 to ``size`` bytes; empty if the peer has closed; OSError if it failed."""

    async def send_all(self, data: bytes, *, has_more: bool = False) -> None:
        """Sends all of ``data``; OSError if the peer is gone.

        ``has_more``: more data follows at once, so the kernel may send both in one packet.
        """

    async def send_file(self, descriptor: int, position: int, length: int) -> None:
        """Sends a range of a file; OSError if the file is shorter or the peer is gone."""

    @property
    def sent_pieces(self) -> int:
        """How many pieces of data were sent, of which a large one has many."""

    def is_quiet(self) -> bool:
        """Whether the connection is open and has no unread bytes."""

    def wake(self) -> None:
        """Shuts the socket down, so that a waiting call ends; afterwards call :meth:`close`."""

    def close(self) -> None:
        """Closes the socket.  No call may be waiting, except at the end of the process."""


class PlainStream:
    """A stream without encryption."""

    def __init__(self, sock: socket.socket) -> None:
        """Takes a connected, non-blocking socket."""
        self._socket = sock
        self.sent_pieces = 0

    async def receive(self, size: int) -> bytes:
        return await asyncio.get_running_loop().sock_recv(self._socket, size)

    async def send_all(self, data: bytes, *, has_more: bool = False) -> None:
        if has_more:
            try:
                sent = self._socket.send(data, socket.MSG_MORE)
            except BlockingIOError:
                sent = 0
            if sent == len(data):
                return
            data = data[sent:]
        loop = asyncio.get_running_loop()
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            await loop.sock_sendall(self._socket, view[start : start + _WRITE_BYTES])
            self.sent_pieces += 1

    async def send_file(self, descriptor: int, position: int, length: int) -> None:
        end = position + length
        while position < end:
            self.sent_pieces += 1
            size = min(end - position, _FILE_BYTES)
            if not _is_cached(descriptor, position, size):
                # Reads the range in another thread, so that sendfile finds it in the page cache.
                await asyncio.to_thread(os.pread, descriptor, size, position)
            position += await self._send_file(descriptor, position, size)

    async def _send_file(self, descriptor: int, position: int, size: int) -> int:
        while True:
            try:
                sent = os.sendfile(self._socket.fileno(), descriptor, position, size)
            except BlockingIOError:
                await _writable(self._socket)
            else:
                if sent == 0:
                    raise ConnectionAbortedError("a file that is being sent has become shorter")
                return sent

    def is_quiet(self) -> bool:
        return _is_quiet(self._socket)

    def wake(self) -> None:
        wake(self._socket)

    def close(self) -> None:
        close(self._socket)


class TlsStream:
    """A stream with TLS; call :meth:`handshake` first."""

    def __init__(
        self,
        sock: socket.socket,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
    ) -> None:
        """``server_hostname``: the name in the peer's certificate; None on the server's side."""
        self._socket = sock
        self.sent_pieces = 0
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(
            self._incoming,
            self._outgoing,
            server_side=server_hostname is None,
            server_hostname=server_hostname,
        )

    async def handshake(self) -> None:
        """Agrees on keys; ssl.SSLError (an OSError) if the peer is not trusted or speaks no TLS."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    raise ConnectionResetError("the peer closed within the TLS handshake") from None
            except ssl.SSLError:
                # The pending bytes are the TLS alert that gives the peer the reason.
                with contextlib.suppress(OSError):
                    await self._flush()
                raise
            else:
                await self._flush()
                return

    @property
    def cipher(self) -> tuple[str, str]:
        """The cipher, as OpenSSL calls it, and the version of TLS; after the handshake."""
        agreed, version = self._tls.cipher(), self._tls.version()
        assert agreed is not None
        assert version is not None
        return agreed[0], version

    @property
    def peer_certificate(self) -> bytes | None:
        """The peer's certificate (DER); None if the peer sent none."""
        return self._tls.getpeercert(binary_form=True)

    async def receive(self, size: int) -> bytes:
        while True:
            try:
                return self._tls.read(size)
            except ssl.SSLWantReadError:
                await self._flush()
                if not await self._fill():
                    return b""
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                return b""
            except ssl.SSLError as error:
                raise TlsBrokenOff(f"TLS was broken off: {error.reason}") from None

    async def send_all(self, data: bytes, *, has_more: bool = False) -> None:  # noqa: ARG002
        view = memoryview(data)
        for start in range(0, len(view), _WRITE_BYTES):
            self._tls.write(view[start : start + _WRITE_BYTES])
            await self._flush()
            self.sent_pieces += 1

    async def send_file(self, descriptor: int, position: int, length: int) -> None:
        end = position + length
        while position < end:
            size = min(end - position, _WRITE_BYTES)
            await self.send_all(await read_file(descriptor, position, size))
            position += size

    def is_quiet(self) -> bool:
        # A server sends session tickets after the handshake.  Only reading shows that the unread
        # bytes are such tickets and no data.
        try:
            data = self._socket.recv(_RECORD_BYTES)
        except BlockingIOError:
            data = None
        except OSError:
            return False
        if data == b"":
            return False
        try:
            self._incoming.write(data or b"")
            self._tls.read(1)
        except ssl.SSLWantReadError:
            return True
        except OSError:
            return False
        return False

    def wake(self) -> None:
        wake(self._socket)

    def close(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._tls.unwrap()  # writes close_notify; that of the peer is not awaited
        with contextlib.suppress(OSError):
            self._socket.send(self._outgoing.read())
        close(self._socket)

    async def _flush(self) -> None:
        if data := self._outgoing.read():
            await asyncio.get_running_loop().sock_sendall(self._socket, data)

    async def _fill(self) -> bool:
        """Waits for bytes and gives them to TLS; False if the peer has closed."""
        data = await asyncio.get_running_loop().sock_recv(self._socket, _RECORD_BYTES)
        if not data:
            self._incoming.write_eof()
            return False
        self._incoming.write(data)
        return True


async def read_file(descriptor: int, position: int, size: int) -> bytes:
    """Reads a range of a file; OSError if the file is shorter.

    A range that is not in the page cache is read in another thread.
    """
    data = bytearray(size)
    try:
        found = os.preadv(descriptor, (data,), position, os.RWF_NOWAIT)
    except OSError:
        found = 0
    if found == size:
        return bytes(data)
    read = await asyncio.to_thread(os.pread, descriptor, size, position)
    if len(read) < size:
        raise ConnectionAbortedError("a file that is being sent has become shorter")
    return read


def _is_cached(descriptor: int, position: int, size: int) -> bool:
    """Whether that range of a file is in memory, so that reading it does not wait for the disk.

    One page in every READ_AHEAD_BYTES is checked, because the kernel reads and drops about that
    many bytes at a time.  On a file system without ``RWF_NOWAIT`` nothing counts as cached.
    """
    last = position + size - 1
    try:
        for place in (*range(position, last, _READ_AHEAD_BYTES), last):
            os.preadv(descriptor, (_PROBE,), place, os.RWF_NOWAIT)
    except OSError:
        return False
    return True


async def _writable(sock: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()
    loop.add_writer(sock, lambda: None if ready.done() else ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_writer(sock)


def _is_quiet(sock: socket.socket) -> bool:
    try:
        sock.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return True
    except OSError:
        return False
    # The peer has closed, or sent bytes that no request asked for: do not use the connection.
    return False


def wake(sock: socket.socket) -> None:
    """Shuts the socket down, so that a waiting call ends."""
    with contextlib.suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)


def close(sock: socket.socket) -> None:
    """Shuts the socket down and closes it."""
    wake(sock)
    sock.close()
