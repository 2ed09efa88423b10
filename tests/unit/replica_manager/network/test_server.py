"""Listeners and connections on real sockets, with the real dispatcher behind them."""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import struct
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from kafka_common.errors import ConfigInvalid, InvalidFrame
from kafka_common.model import Endpoint
from kafka_common.net.loopback_ports import free_port
from kafka_common.protocol.messages import read_response
from replica_manager.network.connection import (
    RECEIVING_TURN_S,
    REQUESTS_AT_ONCE,
    ClientConnection,
    Peer,
    ResponseFrame,
)
from replica_manager.network.listener import ServerLimits, SocketServer
from tests.support.broker_world import BrokerWorld, metadata
from tests.support.frames import request_header
from tests.unit.replica_manager.network.echo_server import (
    LOCAL,
    answer,
    connect,
    echo,
    framed,
    server_with,
)

INTERNAL = Endpoint("127.0.0.1", 0, "INTERNAL", "PLAINTEXT")
METADATA_V1 = request_header(3, 1, 9, "test") + b"\xff\xff\xff\xff"


async def test_a_request_is_answered_with_its_listener_and_address() -> None:
    async with server_with(echo) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"hello"))

        assert await answer(reader) == b"hello|PLAINTEXT|127.0.0.1"
        writer.close()


async def test_pipelined_requests_are_answered_in_order_one_at_a_time() -> None:
    under_way = []
    most = 0

    async def slow(data: bytes, _: Peer) -> ResponseFrame:
        nonlocal most
        under_way.append(data)
        most = max(most, len(under_way))
        await asyncio.sleep(0 if data == b"2" else 0.01)
        under_way.remove(data)
        return ResponseFrame(framed(data))

    async with server_with(slow) as server:
        reader, writer = await connect(server)
        writer.write(b"".join(framed(b"%d" % n) for n in range(5)))

        assert [await answer(reader) for _ in range(5)] == [b"%d" % n for n in range(5)]
        assert most == 1
        writer.close()


async def test_a_muted_client_is_not_listened_to_until_its_time_is_over() -> None:
    heard = []

    async def mute(data: bytes, _: Peer) -> ResponseFrame:
        heard.append(data)
        return ResponseFrame(framed(data), 60_000 if data == b"muted" else 1)

    async with server_with(mute) as server:
        reader, writer = await connect(server)
        other_reader, other_writer = await connect(server)
        writer.write(framed(b"muted") + framed(b"not heard"))
        assert await answer(reader) == b"muted"

        for text in (b"one", b"two"):
            other_writer.write(framed(text))
            assert await answer(other_reader) == text

        assert heard == [b"muted", b"one", b"two"]
        writer.close()
        other_writer.close()


async def test_a_client_muted_for_longer_than_it_may_be_idle_is_closed() -> None:
    async def mute(data: bytes, _: Peer) -> ResponseFrame:
        return ResponseFrame(framed(data), 60_000)

    async with server_with(mute, max_idle_ms=20) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"muted"))

        assert await answer(reader) == b"muted"
        assert await reader.read() == b""
        writer.close()


async def test_a_slow_connection_does_not_hold_up_another() -> None:
    release = asyncio.Event()

    async def wait_for_it(data: bytes, _: Peer) -> ResponseFrame:
        if data == b"wait":
            await release.wait()
        return ResponseFrame(framed(data))

    async with server_with(wait_for_it) as server:
        waiting_reader, waiting = await connect(server)
        waiting.write(framed(b"wait"))
        reader, writer = await connect(server)
        writer.write(framed(b"now"))

        assert await answer(reader) == b"now"
        release.set()
        assert await answer(waiting_reader) == b"wait"
        waiting.close()
        writer.close()


async def test_a_frame_that_arrives_byte_by_byte_is_answered() -> None:
    async with server_with(echo) as server:
        reader, writer = await connect(server)
        for byte in framed(b"slow"):
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(0)

        assert (await answer(reader)).startswith(b"slow|")
        writer.close()


@pytest.mark.parametrize("size", [-1, -(2**31), 1001, 2**31 - 1])
async def test_a_size_that_is_not_allowed_closes_without_an_answer(size: int) -> None:
    async with server_with(echo, max_request_bytes=1000) as server:
        reader, writer = await connect(server)
        writer.write(struct.pack(">i", size))

        assert await reader.read() == b""
        writer.close()


async def test_a_request_of_the_largest_size_is_answered() -> None:
    async with server_with(echo, max_request_bytes=1000) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"x" * 1000))

        assert len(await answer(reader)) > 1000
        writer.close()


@pytest.mark.parametrize("failure", [InvalidFrame("no"), RuntimeError("a defect")])
async def test_what_cannot_be_answered_closes_that_connection_alone(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(data: bytes, _: Peer) -> ResponseFrame:
        if data == b"bad":
            raise failure
        return ResponseFrame(framed(data))

    async with server_with(refuse) as server:
        reader, writer = await connect(server)
        good_reader, good = await connect(server)
        writer.write(framed(b"bad"))
        assert await reader.read() == b""

        good.write(framed(b"good"))
        assert await answer(good_reader) == b"good"
        writer.close()
        good.close()
    assert "Closing the connection from 127.0.0.1" in caplog.text


async def test_an_idle_connection_is_closed() -> None:
    async with server_with(echo, max_idle_ms=50) as server:
        reader, writer = await connect(server)

        assert await reader.read() == b""
        writer.close()


async def test_a_client_that_does_not_read_is_dropped_and_costs_no_memory_meanwhile() -> None:
    large = b"x" * 50_000_000
    asked = 0

    async def flood(*_: object) -> ResponseFrame:
        nonlocal asked
        asked += 1
        return ResponseFrame(large)

    tracemalloc.start()
    try:
        async with server_with(flood, max_idle_ms=200) as server:
            _, writer = await connect(server)
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(framed(b"a") * 3)
            while server.connection_count == 0:
                await asyncio.sleep(0.01)
            while server.connection_count:
                await asyncio.sleep(0.01)
            writer.close()
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert most_bytes < len(large) / 10, "the answer was copied"
    assert asked == 1, "the next request waits for the answer to be read"


async def test_connections_of_one_address_are_limited() -> None:
    async with server_with(echo, max_connections_per_ip=1) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"1"))
        assert await answer(reader)

        refused_reader, refused = await connect(server)
        assert await refused_reader.read() == b""

        writer.close()
        assert await reader.read() == b""
        while server.connection_count:
            await asyncio.sleep(0)
        reader, writer = await connect(server)
        writer.write(framed(b"2"))
        assert await answer(reader)
        writer.close()
        refused.close()


async def test_an_address_may_have_a_limit_of_its_own() -> None:
    async with server_with(
        echo, max_connections_per_ip=0, max_connections_per_ip_overrides={"127.0.0.1": 5}
    ) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"1"))

        assert await answer(reader)
        writer.close()


async def test_more_connections_than_allowed_wait_until_one_ends() -> None:
    async with server_with(echo, max_connections=1) as server:
        reader, writer = await connect(server)
        writer.write(framed(b"first"))
        assert await answer(reader)

        waiting_reader, waiting = await connect(server)
        waiting.write(framed(b"second"))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(waiting_reader.read(1), 0.1)
        assert server.connection_count == 1

        writer.close()
        assert (await answer(waiting_reader)).startswith(b"second|")
        waiting.close()


async def test_brokers_among_themselves_take_the_place_of_the_client_idle_longest() -> None:
    async with server_with(echo, LOCAL, INTERNAL, max_connections=2) as server:
        clients = []
        for name in (b"first", b"second"):
            reader, writer = await connect(server)
            writer.write(framed(name))
            assert await answer(reader)
            clients.append((reader, writer))

        reader, writer = await connect(server, "INTERNAL")
        writer.write(framed(b"broker"))

        assert await answer(reader) == b"broker|INTERNAL|127.0.0.1"
        assert await clients[0][0].read() == b""
        writer.close()
        for _, client in clients:
            client.close()


async def test_a_port_in_use_is_refused_with_its_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = SocketServer(
            (Endpoint("127.0.0.1", port, "PLAINTEXT", "PLAINTEXT"),),
            ServerLimits(),
            echo,
            broker_id=1,
            protected_listener="PLAINTEXT",
        )
        with pytest.raises(ConfigInvalid, match=rf"PLAINTEXT://127\.0\.0\.1:{port}"):
            server.open()
        await server.close()


@pytest.mark.parametrize("host", ["a..b", "a" * 64, "999.1.1.1"])
async def test_a_host_that_is_none_is_refused_with_its_listener(host: str) -> None:
    server = SocketServer(
        (Endpoint(host, 9092, "PLAINTEXT", "PLAINTEXT"),),
        ServerLimits(),
        echo,
        broker_id=1,
        protected_listener="PLAINTEXT",
    )
    with pytest.raises(ConfigInvalid, match="that can be bound"):
        server.open()
    await server.close()


async def test_only_ports_that_are_any_are_bound_before_the_broker_is_ready() -> None:
    fixed = free_port()
    server = SocketServer(
        (LOCAL, Endpoint("127.0.0.1", fixed, "INTERNAL", "PLAINTEXT")),
        ServerLimits(),
        echo,
        broker_id=1,
        protected_listener="INTERNAL",
    )
    server.bind_ephemeral()
    early_reader, early = await connect(server)
    early.write(framed(b"early"))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", fixed)

    server.open()

    assert await answer(early_reader) == b"early|PLAINTEXT|127.0.0.1"
    reader, writer = await asyncio.open_connection("127.0.0.1", fixed)
    writer.write(framed(b"late"))
    assert (await answer(reader)).startswith(b"late|INTERNAL|")
    early.close()
    writer.close()
    await server.close()
    with pytest.raises(OSError, match=r"Connect call failed|refused"):
        await asyncio.open_connection("127.0.0.1", fixed)


async def test_a_listener_without_a_host_takes_ipv4_and_ipv6() -> None:
    async with server_with(echo, Endpoint("", 0, "PLAINTEXT", "PLAINTEXT")) as server:
        for host in ("127.0.0.1", "::1") if socket.has_dualstack_ipv6() else ("127.0.0.1",):
            try:
                reader, writer = await asyncio.open_connection(host, server.ports["PLAINTEXT"])
            except OSError:
                assert host == "::1", "a machine may have no IPv6 address"
                continue
            writer.write(framed(b"x"))
            assert (await answer(reader)) == f"x|PLAINTEXT|{host}".encode()
            writer.close()


async def test_a_real_request_is_answered_by_the_real_dispatcher(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    world = BrokerWorld(executor)
    world.update({"orders": {0: metadata(1)}})

    async def respond(data: bytes, peer: Peer) -> ResponseFrame:
        return ResponseFrame(framed(await world.ask_raw(data, listener_name=peer.listener_name)))

    async with server_with(respond) as server:
        reader, writer = await connect(server)
        writer.write(framed(METADATA_V1))
        response: Any = read_response(3, 1, await answer(reader), 4)
        assert [topic.name for topic in response.topics] == ["orders"]
        writer.close()

    assert caplog.messages == []


async def test_a_client_that_always_has_another_request_lets_others_have_their_turn() -> None:
    requests = 100  # as many answers fit into the socket, unread
    answered = 0
    seen: list[int] = []

    async def respond(data: bytes, _: Peer) -> ResponseFrame:
        nonlocal answered
        answered += 1
        return ResponseFrame(data)

    ours, theirs = socket.socketpair()
    for each in (ours, theirs):
        each.setblocking(False)
    theirs.sendall(struct.pack(">ii", 4, 7) * requests)
    theirs.shutdown(socket.SHUT_WR)
    connection = ClientConnection(
        ours, "test", "PLAINTEXT", max_request_bytes=100, max_idle_s=60, respond=respond
    )
    serving = asyncio.create_task(connection.serve())
    while not serving.done():
        seen.append(answered)
        await asyncio.sleep(0)
    theirs.close()

    assert answered == requests
    turns = [later - earlier for earlier, later in itertools.pairwise([*seen, answered])]
    assert max(turns) <= REQUESTS_AT_ONCE


async def test_a_large_request_that_is_all_there_lets_others_have_their_turn() -> None:
    pieces, piece_s = 200, RECEIVING_TURN_S / 5
    size = pieces * 1024
    unread = framed(bytes(size))
    received = 0
    seen: list[int] = []

    class Ready:
        """A socket from which there is always a little to read, slowly."""

        async def receive(self, _: int) -> bytes:
            nonlocal received, unread
            received += 1
            data, unread = unread[:1024], unread[1024:]
            return data

        def close(self) -> None:
            """Closes nothing."""

    async def respond(data: bytes, _: Peer) -> ResponseFrame:
        assert len(data) == size
        return ResponseFrame(b"", closes=True)

    loop = asyncio.get_running_loop()
    loop.time = lambda: received * piece_s  # type: ignore[method-assign] # of the test
    ours, theirs = socket.socketpair()
    with ours, theirs:
        connection = ClientConnection(
            ours, "test", "PLAINTEXT", max_request_bytes=size, max_idle_s=60, respond=respond
        )
        connection._stream = Ready()  # type: ignore[assignment] # all that is called
        serving = asyncio.create_task(connection.serve())
        while not serving.done():
            seen.append(received)
            await asyncio.sleep(0)

    assert received > pieces
    turns = [later - earlier for earlier, later in itertools.pairwise([*seen, received])]
    assert max(turns) <= 7  # five, one beyond, and one for the size
