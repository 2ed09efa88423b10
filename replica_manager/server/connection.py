"""One client connection: frames in, answers out, one request at a time and in order.

While a request is answered nothing more is read from its connection, as Kafka mutes it; a client
that pipelines waits in the kernel's buffers.  So does one that has used up its quota, until its
time is over.  A peer is not trusted: sizes are checked before anything is read, memory grows with
what has really arrived, and a peer that neither sends nor reads is dropped after
``connections.max.idle.ms``.

Source: Kafka ``SocketServer.Processor``, ``NetworkReceive``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Awaitable, Callable
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

from zkcontroller.errors import InvalidFrame


class Answer(NamedTuple):
    """The frame that answers, and for how long the client is not listened to afterwards."""

    frame: bytes
    mute_ms: int = 0


Respond: TypeAlias = Callable[[bytes, str, str], Awaitable[Answer]]
"""(frame, listener name, client address) to the answer; InvalidFrame closes."""

_SIZE: Final = Struct(">i")
_RECEIVE_BYTES: Final = 64 * 1024
_log = logging.getLogger("kafka.network.Processor")


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
    ) -> None:
        self.address = address
        """The peer's IP address."""
        self.listener_name = listener_name
        self.last_active_s = asyncio.get_running_loop().time()
        """On the loop's clock: when a request or an answer last went through."""
        self._socket = sock
        self._max_request_bytes = max_request_bytes
        self._max_idle_s = max_idle_s
        self._respond = respond

    async def serve(self) -> None:
        """Answers requests until the connection ends; raises nothing but cancellation."""
        loop = asyncio.get_running_loop()
        try:
            while (data := await self._receive_frame()) is not None:
                self.last_active_s = loop.time()
                answer = await self._respond(data, self.listener_name, self.address)
                del data
                async with asyncio.timeout(self._max_idle_s):
                    await loop.sock_sendall(self._socket, answer.frame)
                self.last_active_s = loop.time()
                if answer.mute_ms > 0:
                    # Muted for longer than it may be idle, it is closed, as in Kafka.
                    async with asyncio.timeout(self._max_idle_s):
                        await asyncio.sleep(answer.mute_ms / 1000)
        except InvalidFrame as invalid:
            _log.warning("Closing the connection from %s: %s", self.address, invalid)
        except (OSError, TimeoutError):
            pass  # the peer went away, or was idle for too long: neither is news
        except Exception:  # noqa: BLE001 - whatever it is, it ends this connection alone
            _log.exception("Closing the connection from %s because of an error", self.address)
        finally:
            self.close()

    def close(self) -> None:
        """Closes the socket; ``serve`` ends."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    async def _receive_frame(self) -> bytes | None:
        """The next frame without its size; None when the peer has closed between frames."""
        received = bytearray()
        if not await self._receive(received, _SIZE.size):
            return None
        (size,) = _SIZE.unpack(received)
        if not 0 <= size <= self._max_request_bytes:
            raise InvalidFrame(f"a request of {size} bytes, {self._max_request_bytes} are allowed")
        received.clear()
        if not await self._receive(received, size):
            raise InvalidFrame("the peer closed within a request")
        return bytes(received)

    async def _receive(self, received: bytearray, size: int) -> bool:
        """Fills ``received`` up to ``size``; False if the peer closed before."""
        loop = asyncio.get_running_loop()
        while len(received) < size:
            wanted = min(size - len(received), _RECEIVE_BYTES)
            async with asyncio.timeout(self._max_idle_s):
                data = await loop.sock_recv(self._socket, wanted)
            if not data:
                return False
            received += data
        return True
