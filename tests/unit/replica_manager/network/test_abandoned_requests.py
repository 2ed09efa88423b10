"""What a client leaves behind that goes away while its request is answered: nothing."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafka_common.net.presence import abandonable, raise_if_abandoned
from kafka_common.protocol.messages import write
from replica_manager.network import listener
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.network.listener import SocketServer
from replica_manager.replication.waiting_room import WaitingRoom
from replica_manager.server.dispatch import respond
from tests.support import fetch_world
from tests.support.descriptors import left_connections
from tests.support.frames import request_header
from tests.support.log_world import batch
from tests.support.wire_peer import until
from tests.unit.replica_manager.network.echo_server import close_by_reset, server_with
from tests.unit.replica_manager.server.produced import request as produced

CLIENTS = 200
FOREVER_MS = 2**31 - 1
MUTE_S = 600


def connect(server: SocketServer, request: bytes) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.ports["PLAINTEXT"]))
    sock.sendall(struct.pack(">i", len(request)) + request)
    return sock


def reset(sock: socket.socket) -> None:
    """Ends a connection by RST."""
    close_by_reset(sock)
    sock.close()


class Operation:
    """Something that is never complete."""

    def is_complete(self) -> bool:
        return False


async def test_a_thousand_long_polls_that_are_reset_hold_no_connection_and_no_waiter() -> None:
    room: WaitingRoom[str, Any] = WaitingRoom()

    async def fetch(_: bytes, __: Peer) -> ResponseFrame:
        await room.wait(Operation(), ["orders-0"], FOREVER_MS)
        raise AssertionError("it is never complete")

    async with server_with(fetch, backlog=CLIENTS) as server:
        for _ in range(1_000 // CLIENTS):
            clients = [connect(server, b"fetch") for _ in range(CLIENTS)]
            await until(lambda: len(room) == CLIENTS)

            for client in clients:
                reset(client)

            await until(lambda: server.connection_count == 0)
            assert await left_connections(server.ports["PLAINTEXT"]) == 0
            await until(lambda: len(room) == 0 and server.unfinished_count == 0)


def test_a_connection_that_has_ended_is_not_kept() -> None:
    tasks: list[weakref.ref[asyncio.Task[None]]] = []

    async def answer(_: bytes, __: Peer) -> ResponseFrame:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(weakref.ref(task))
        return ResponseFrame(b"answer")

    async def steps() -> None:
        async with server_with(answer, backlog=CLIENTS) as server:
            closed_by_client, closed_by_server = connect(server, b"1"), connect(server, b"2")
            await until(lambda: len(tasks) == 2)
            closed_by_client.close()
            await until(lambda: server.connection_count == 1)
        closed_by_server.close()

    asyncio.run(asyncio.wait_for(steps(), 60))
    gc.collect()

    assert [task() for task in tasks] == [None, None]


async def test_what_has_begun_to_have_an_effect_is_finished_without_its_client() -> None:
    finished: list[bytes] = []
    may_go_on = asyncio.Event()

    async def produce(data: bytes, _: Peer) -> ResponseFrame:
        await may_go_on.wait()
        finished.append(data)
        with abandonable():
            await asyncio.Event().wait()
        raise AssertionError("its client has gone")

    async with server_with(produce) as server:
        client = connect(server, b"records")
        await until(lambda: server.connection_count == 1)
        await asyncio.sleep(0.05)
        reset(client)
        await until(lambda: server.connection_count == 0)
        assert server.unfinished_count == 1

        may_go_on.set()

        await until(lambda: server.unfinished_count == 0)
        assert finished == [b"records"]


async def test_requests_without_clients_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MOST_UNFINISHED", 3)
    may_go_on = asyncio.Event()
    begun = 0

    async def create(_: bytes, __: Peer) -> ResponseFrame:
        nonlocal begun
        begun += 1
        await may_go_on.wait()
        return ResponseFrame(b"\0\0\0\2ok")

    async with server_with(create) as server:
        for count in range(1, 4):
            client = connect(server, b"create")
            await until(lambda wanted=count: begun == wanted)  # type: ignore[misc]
            reset(client)
            await until(lambda wanted=count: server.unfinished_count == wanted)  # type: ignore[misc]
        # One may have been waited for before the bound was reached.
        more = [connect(server, b"create") for _ in range(3)]
        await asyncio.sleep(0.1)
        assert begun <= 4

        may_go_on.set()

        await until(lambda: begun == 6)
        for client in more:
            client.close()


async def test_a_client_that_only_ends_its_own_side_is_still_answered() -> None:
    may_answer = asyncio.Event()

    async def metadata(_: bytes, __: Peer) -> ResponseFrame:
        with abandonable():
            await may_answer.wait()
        return ResponseFrame(b"\0\0\0\2ok")

    async with server_with(metadata) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
        writer.write(b"\0\0\0\4meta")
        writer.write_eof()
        await asyncio.sleep(0.05)
        may_answer.set()

        assert await reader.read() == b"\0\0\0\2ok"
        writer.close()


async def test_the_idle_time_counts_while_a_request_waits() -> None:
    ended: list[str] = []

    async def join_group(_: bytes, __: Peer) -> ResponseFrame:
        try:
            with abandonable():
                await asyncio.Event().wait()
        finally:
            ended.append("join")
        raise AssertionError

    async with server_with(join_group, max_idle_ms=50) as server:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.ports["PLAINTEXT"])
        writer.write(b"\0\0\0\4join")

        assert await reader.read() == b""
        await until(lambda: server.unfinished_count == 0)
        assert ended == ["join"]
        writer.close()


async def test_a_reader_of_many_items_ends_between_them_when_its_client_has_gone() -> None:
    begun, looked_at = asyncio.Event(), 0

    async def describe(_: bytes, __: Peer) -> ResponseFrame:
        nonlocal looked_at
        begun.set()
        while True:
            looked_at += 1
            await asyncio.sleep(0)
            raise_if_abandoned()

    async with server_with(describe) as server:
        client = connect(server, b"describe")
        await begun.wait()
        reset(client)
        await until(lambda: server.connection_count == 0 and server.unfinished_count == 0)
    assert looked_at > 0


async def test_a_reset_connection_of_a_muted_client_is_freed_at_once() -> None:
    async def throttled(_: bytes, __: Peer) -> ResponseFrame:
        return ResponseFrame(b"\0\0\0\2ok", mute_ms=MUTE_S * 1000)

    started_s = asyncio.get_running_loop().time()
    async with server_with(throttled) as server:
        client = connect(server, b"fetch")
        await asyncio.to_thread(client.recv, 6)
        reset(client)
        await until(lambda: server.connection_count == 0 and server.unfinished_count == 0)
        assert asyncio.get_running_loop().time() - started_s < MUTE_S


async def test_what_arrived_before_a_reset_still_takes_effect() -> None:
    heard: list[bytes] = []

    async def acks_0(data: bytes, _: Peer) -> ResponseFrame:
        heard.append(data)
        return ResponseFrame(b"")

    async with server_with(acks_0) as server:
        client = connect(server, b"one")
        client.sendall(b"\0\0\0\3two\0\0\0\5three")
        reset(client)
        await until(lambda: len(heard) == 3)
        await until(lambda: server.connection_count == 0)
    assert heard == [b"one", b"two", b"three"]


async def test_a_task_that_a_handler_started_is_not_ended_with_the_client() -> None:
    ended: list[str] = []
    may_go_on = asyncio.Event()

    async def append() -> None:
        with abandonable():
            await may_go_on.wait()
        ended.append("appended")

    tasks: list[asyncio.Task[None]] = []

    async def commit(_: bytes, __: Peer) -> ResponseFrame:
        tasks.append(asyncio.create_task(append()))
        with abandonable():
            await asyncio.Event().wait()
        raise AssertionError

    async with server_with(commit) as server:
        client = connect(server, b"commit")
        await until(lambda: bool(tasks))
        reset(client)
        await until(lambda: server.connection_count == 0)
        may_go_on.set()
        await tasks[0]
    assert ended == ["appended"]


def framed_request(request: Any) -> bytes:
    api_key, version = int(request.__api_key__), int(request.__version__)
    return request_header(api_key, version, 7, "test") + write(request)


async def test_fetches_for_the_longest_time_there_is_end_with_their_clients(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    world = fetch_world.made(executor, tmp_path)
    world.lead("orders", topic_id=fetch_world.ORDERS_ID)
    fetch = framed_request(fetch_world.request((0, 0), max_wait_ms=FOREVER_MS))
    waiting = world.context.records.reads.waiting

    async with server_with(lambda data, peer: respond(data, peer, world.context)) as server:
        clients = [connect(server, fetch) for _ in range(40)]
        await until(lambda: len(waiting) == 40)

        for client in clients:
            reset(client)

        await until(lambda: server.connection_count == 0 and len(waiting) == 0)
        await until(lambda: server.unfinished_count == 0)
        assert await left_connections(server.ports["PLAINTEXT"]) == 0


async def test_records_whose_producer_has_gone_are_in_the_log(
    executor: ThreadPoolExecutor, tmp_path: Path
) -> None:
    world = fetch_world.made(executor, tmp_path)
    world.lead("orders", topic_id=fetch_world.ORDERS_ID, isr=(1, 2), replicas=(1, 2))
    produce = framed_request(produced(batch(3), acks=-1, timeout_ms=FOREVER_MS))
    waiting = world.context.records.appends.waiting

    async with server_with(lambda data, peer: respond(data, peer, world.context)) as server:
        client = connect(server, produce)
        await until(lambda: len(waiting) == 1)

        reset(client)

        await until(lambda: server.connection_count == 0 and len(waiting) == 0)
        assert server.unfinished_count == 0
    assert fetch_world.log_of(world).log_end_offset == 3
