"""A peer on a real socket that answers Kafka requests as the test says."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
from typing import Any

from kio.static.protocol import ResponsePayload

from kafka_common.protocol.framing import frame, parse_request_header, response_header
from kafka_common.protocol.messages import read_request, write

TIMEOUT_S = 30

HANG_UP = object()
"""The answer of a peer that goes."""
Answer = Callable[[int, int, Any], Awaitable[ResponsePayload | object]]
"""(api key, version, request) to the response, or HANG_UP."""


class WirePeer:
    """Listens on a free port of its own."""

    def __init__(self, response: Answer) -> None:
        self._answer = response
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.client_ids: set[str | None] = set()
        self.port = 0

    async def listen(self, port: int = 0) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Receives nothing any more."""
        if self._server is not None:
            self._server.close()
        for writer in list(self._writers):
            writer.close()
        async with asyncio.timeout(TIMEOUT_S):
            while self._writers:
                await asyncio.sleep(0)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        try:
            while True:
                (size,) = struct.unpack(">i", await reader.readexactly(4))
                data = await reader.readexactly(size)
                header, start = parse_request_header(data)
                self.client_ids.add(header.client_id)
                key, version = header.api_key, header.api_version
                response = await self._answer(key, version, read_request(key, version, data, start))
                if response is HANG_UP:
                    return
                head = response_header(key, version, header.correlation_id)
                writer.write(frame((head, write(response))))  # type: ignore[arg-type]
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.close()
            self._writers.discard(writer)


async def until(is_so: Callable[[], bool], what: Callable[[], object] = lambda: "") -> None:
    """Returns once ``is_so``; fails with ``what`` if that takes too long."""
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not is_so():
                await asyncio.sleep(0.002)
    except TimeoutError:
        raise AssertionError(f"still not so: {what()}") from None
