"""A server of the network layer that echoes, and its clients."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kafka_common.model import Endpoint
from replica_manager.network.connection import Peer, Respond, ResponseFrame
from replica_manager.network.listener import ServerLimits, SocketServer

LOCAL = Endpoint("127.0.0.1", 0, "PLAINTEXT", "PLAINTEXT")


def framed(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def close_by_reset(sock: socket.socket) -> None:
    """Lets the close of the socket end its connection by RST."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@asynccontextmanager
async def server_with(
    respond: Respond,
    *endpoints: Endpoint,
    **limits: Any,
) -> AsyncIterator[SocketServer]:
    server = SocketServer(
        endpoints or (LOCAL,),
        ServerLimits(**limits),
        respond,
        broker_id=1,
        protected_listener="INTERNAL",
    )
    server.open()
    try:
        yield server
    finally:
        await server.close()


async def echo(data: bytes, peer: Peer) -> ResponseFrame:
    """Answers with what was asked, on which listener, and from where."""
    return ResponseFrame(
        framed(data + b"|" + peer.listener_name.encode() + b"|" + peer.address.encode())
    )


async def connect(
    server: SocketServer, listener_name: str = "PLAINTEXT"
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.ports[listener_name])


async def answer(reader: asyncio.StreamReader) -> bytes:
    size = struct.unpack(">i", await reader.readexactly(4))[0]
    return await reader.readexactly(size)
