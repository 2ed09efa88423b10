"""A broker that only listens: it keeps what a controller sends and answers that all is well."""

from __future__ import annotations

import asyncio
import struct

TIMEOUT_S = 10
UPDATE_METADATA = 6


def no_error(frame: bytes) -> bytes:
    """The body of a flexible answer without errors to that request."""
    (api_key,) = struct.unpack_from(">h", frame)
    # UpdateMetadata answers with a code alone, the others with a list of partitions or topics too.
    return b"\0\0" + b"\0" if api_key == UPDATE_METADATA else b"\0\0" + b"\1" + b"\0"


class StubBroker:
    """Accepts controller requests; ``faults`` say how to treat the first of them."""

    def __init__(self, *faults: str) -> None:
        self.frames: list[bytes] = []
        self.connections = 0
        self.arrived = asyncio.Condition()
        self._faults = iter(faults)
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def has_received(self, count: int) -> None:
        async with asyncio.timeout(TIMEOUT_S), self.arrived:
            await self.arrived.wait_for(lambda: len(self.frames) >= count)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                frame = await reader.readexactly(size)
                async with self.arrived:
                    self.frames.append(frame)
                    self.arrived.notify_all()
                match next(self._faults, "answer"):
                    case "answer":
                        response = frame[4:8] + b"\0" + no_error(frame)
                    case "other correlation id":
                        response = b"\x7f\0\0\0" + b"\0" + b"\0\0" + b"\0"
                    case "silence":
                        continue
                    case _:
                        return
                writer.write(struct.pack(">i", len(response)) + response)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the channel has gone
        finally:
            writer.close()
