"""The memory that requests of all connections take together, on real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replica_manager.broker.broker_settings import limits_of
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network import request_memory
from replica_manager.network.connection import Begun, Peer, Respond, ResponseFrame
from replica_manager.network.listener import SocketServer
from replica_manager.network.request_memory import request_memory_bytes
from tests.support.wire_peer import until
from tests.unit.replica_manager.network.echo_server import close_by_reset, server_with

KIB = 1024
MIB = 1024 * KIB
CHUNK = 256 * KIB
"""What a connection may receive beyond the bound."""


async def size_of(data: bytes, _: Peer) -> ResponseFrame:
    return ResponseFrame(struct.pack(">ii", 4, len(data)))


@asynccontextmanager
async def measured_server(respond: Respond = size_of, **limits: Any) -> AsyncIterator[SocketServer]:
    """A server that in the end holds no memory for requests."""
    async with server_with(respond, backlog=200, **limits) as server:
        yield server
    assert server.request_memory.used_bytes == 0


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class HalfSent:
    """A connection that announces a request and sends a part of it, as fast as it is taken."""

    def __init__(self, server: SocketServer, announced: int, sent: int) -> None:
        self.sock = socket.create_connection(("127.0.0.1", server.ports["PLAINTEXT"]))
        self.sock.setblocking(False)
        self.sending = asyncio.create_task(self._send(announced, memoryview(bytes(sent))))

    async def _send(self, announced: int, data: memoryview) -> None:
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self.sock, struct.pack(">i", announced))
        with contextlib.suppress(OSError):  # closed by the server
            await loop.sock_sendall(self.sock, data)

    async def is_closed(self) -> bool:
        try:
            return await asyncio.get_running_loop().sock_recv(self.sock, 1) == b""
        except ConnectionResetError:
            return True

    async def end(self) -> None:
        close_by_reset(self.sock)
        self.sending.cancel()
        await asyncio.gather(self.sending, return_exceptions=True)
        self.sock.close()


async def answered(server: SocketServer, size: int) -> int:
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
    try:
        writer.write(struct.pack(">i", size) + bytes(size))
        _, response = struct.unpack(">ii", await reader.readexactly(8))
    finally:
        writer.close()
    return int(response)


async def test_half_sent_requests_take_no_more_than_the_bound_and_small_ones_are_answered() -> None:
    bound, clients = 32 * MIB, 20

    async with measured_server(max_queued_request_bytes=bound) as server:
        before = resident_bytes()
        half_sent = [HalfSent(server, 100 * MIB, 8 * MIB) for _ in range(clients)]
        await until(lambda: server.request_memory.used_bytes >= bound)
        for _ in range(100):
            assert await answered(server, 100) == 100

        assert server.request_memory.used_bytes <= bound + clients * CHUNK
        # The clients' own 8 MiB stand in this process, too; a buffer grows by an eighth.
        grown = resident_bytes() - before - clients * 8 * MIB
        assert grown <= bound * 9 // 8 + clients * CHUNK + 16 * MIB
        for client in half_sent:
            await client.end()
        await until(lambda: server.request_memory.used_bytes == 0)


async def test_what_is_only_announced_takes_no_memory() -> None:
    async with measured_server() as server:
        before = resident_bytes()
        announced = [HalfSent(server, 100 * MIB, 0) for _ in range(50)]
        await until(lambda: server.connection_count == 50)
        assert await answered(server, 100) == 100

        assert server.request_memory.used_bytes == 0
        assert resident_bytes() - before < 50 * MIB
        for client in announced:
            await client.end()


async def test_a_silent_half_sent_request_makes_way_for_one_that_waits(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(request_memory, "PATIENCE_S", 0.05)

    async with measured_server(max_queued_request_bytes=MIB) as server:
        silent = HalfSent(server, 2 * MIB, MIB)
        await until(lambda: server.request_memory.used_bytes >= MIB)

        assert await answered(server, MIB) == MIB
        assert await silent.is_closed()
        await silent.end()
    assert "queued.max.request.bytes" in caplog.text


async def test_requests_that_all_wait_for_memory_are_answered_in_the_end_but_for_the_latest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(request_memory, "PATIENCE_S", 0.05)

    async with measured_server(max_queued_request_bytes=2 * MIB) as server:
        asked = [asyncio.create_task(answered(server, 2 * MIB)) for _ in range(6)]
        outcomes = await asyncio.gather(*asked, return_exceptions=True)

        assert 2 * MIB in outcomes
        assert all(
            isinstance(each, (OSError, asyncio.IncompleteReadError)) or each == 2 * MIB
            for each in outcomes
        )
        assert server.request_memory.used_bytes == 0
        assert await answered(server, 2 * MIB) == 2 * MIB


@pytest.mark.parametrize("is_later", [False, True])
async def test_a_request_that_is_answered_holds_its_memory_until_then(is_later: bool) -> None:
    may_answer = asyncio.Event()

    async def slow(data: bytes, peer: Peer) -> ResponseFrame:
        await may_answer.wait()
        return await size_of(data, peer)

    async def respond(data: bytes, peer: Peer) -> Begun:
        return partial(slow, data, peer) if is_later else await slow(data, peer)

    async with measured_server(respond, max_queued_request_bytes=MIB) as server:
        first = asyncio.create_task(answered(server, MIB))
        await until(lambda: server.request_memory.used_bytes == MIB)
        second = asyncio.create_task(answered(server, MIB))
        await asyncio.sleep(0.05)
        assert server.request_memory.used_bytes <= MIB + CHUNK

        may_answer.set()

        assert [await first, await second] == [MIB, MIB]


async def test_a_client_that_resets_while_it_waits_for_memory_is_forgotten() -> None:
    async with measured_server(max_queued_request_bytes=MIB) as server:
        holds = HalfSent(server, 2 * MIB, MIB)
        await until(lambda: server.request_memory.used_bytes >= MIB)
        waits = HalfSent(server, 2 * MIB, MIB)
        await until(lambda: server.connection_count == 2)
        await asyncio.sleep(0.05)
        await waits.end()

        await until(lambda: server.connection_count == 1 and server.unfinished_count == 0)
        await holds.end()


@given(
    sizes=st.lists(st.integers(0, 300 * KIB), max_size=6),
    cuts=st.lists(st.integers(1, 200 * KIB), min_size=1, max_size=8),
)
@settings(deadline=None, max_examples=25)
def test_frames_of_any_length_in_any_pieces_are_all_answered(
    sizes: list[int], cuts: list[int]
) -> None:
    async def steps() -> None:
        async with measured_server(max_queued_request_bytes=MIB) as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
            data = b"".join(struct.pack(">i", size) + bytes(size) for size in sizes)
            position = 0
            while position < len(data):
                piece = cuts[position % len(cuts)]
                writer.write(data[position : position + piece])
                await writer.drain()
                position += piece

            for size in sizes:
                assert struct.unpack(">ii", await reader.readexactly(8)) == (4, size)
            writer.close()

    asyncio.run(asyncio.wait_for(steps(), 30))


def test_the_bound_is_the_keys_or_a_quarter_of_the_memory() -> None:
    config = BrokerConfig.parse(
        {"zookeeper.connect": "memory:1", "queued.max.request.bytes": "200000000"}
    )
    limits = limits_of(config)
    assert (
        request_memory_bytes(limits.max_queued_request_bytes, limits.max_request_bytes)
        == 200_000_000
    )
    assert config.warnings == ()

    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 100 * MIB <= request_memory_bytes(-1, 100 * MIB) <= max(machine // 4, 100 * MIB)
