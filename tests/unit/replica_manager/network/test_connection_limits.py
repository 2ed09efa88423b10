"""How many connections and descriptors clients may have, counted on real sockets."""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kafka_common.process.spare_descriptors import SPARE_DESCRIPTORS
from replica_manager.broker.broker_settings import limits_of
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network import listener
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.network.connection_quotas import ConnectionQuotas
from replica_manager.network.listener import ServerLimits, SocketServer
from tests.support.descriptors import highest_descriptor, limit_restored, open_descriptors
from tests.support.wire_peer import until

PUBLIC, INTERNAL = "PUBLIC", "INTERNAL"
LISTENERS = {
    "zookeeper.connect": "memory:1",
    "listeners": "PUBLIC://:0,INTERNAL://:0",
    "listener.security.protocol.map": "PUBLIC:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter.broker.listener.name": "INTERNAL",
}


async def echo(data: bytes, _: Peer) -> ResponseFrame:
    return ResponseFrame(struct.pack(">i", len(data)) + data)


@asynccontextmanager
async def server_with(**limits: Any) -> AsyncIterator[SocketServer]:
    server = SocketServer(
        tuple(Endpoint("127.0.0.1", 0, name, "PLAINTEXT") for name in (PUBLIC, INTERNAL)),
        ServerLimits(**limits),
        echo,
        broker_id=1,
        protected_listener=INTERNAL,
    )
    server.open()
    try:
        yield server
    finally:
        await server.close()


class Client:
    """A connection that was answered once, or still waits to be accepted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        writer.write(struct.pack(">i", 4) + b"ping")

    @staticmethod
    async def to(server: SocketServer, listener_name: str = PUBLIC) -> Client:
        return Client(*await asyncio.open_connection("127.0.0.1", server.ports[listener_name]))

    async def is_answered(self) -> None:
        assert await self.reader.readexactly(8) == b"\0\0\0\4ping"


async def test_a_raised_limit_lets_those_in_who_wait_and_a_lower_one_closes_the_idle() -> None:
    async with server_with(max_connections=2) as server:
        clients = [await Client.to(server) for _ in range(3)]
        for client in clients[:2]:
            await client.is_answered()

        server.limit(ServerLimits(max_connections=3))
        await clients[2].is_answered()
        server.limit(ServerLimits(max_connections=1))

        for client in clients[:2]:
            assert await client.reader.read() == b""
        await until(lambda: server.connection_count == 1)
        for client in clients:
            client.writer.close()


async def test_listeners_together_have_no_more_connections_than_the_broker_may() -> None:
    names = (INTERNAL, PUBLIC, "OTHER")
    server = SocketServer(
        tuple(Endpoint("127.0.0.1", 0, name, "PLAINTEXT") for name in names),
        ServerLimits(max_connections=1),
        echo,
        broker_id=1,
        protected_listener=INTERNAL,
    )
    server.open()
    await asyncio.sleep(0)  # both listeners have looked whether there is room
    first = await Client.to(server)
    await first.is_answered()
    second = await Client.to(server, "OTHER")
    for _ in range(100):
        await asyncio.sleep(0)
        assert server.connection_count == 1

    first.writer.close()
    await second.is_answered()
    second.writer.close()
    await server.close()


async def test_a_connection_is_not_idle_while_its_peer_reads_a_large_response() -> None:
    size = 32 * 1024 * 1024

    async def respond(_data: bytes, _peer: Peer) -> ResponseFrame:
        return ResponseFrame(struct.pack(">i", size) + bytes(size))

    server = SocketServer(
        (Endpoint("127.0.0.1", 0, PUBLIC, "PLAINTEXT"),),
        ServerLimits(),
        respond,
        broker_id=1,
        protected_listener="",
    )
    server.open()
    client = await Client.to(server)
    assert len(await client.reader.readexactly(100)) == 100
    [connection] = server._connections
    loop = asyncio.get_running_loop()

    def idle_timer_is_due() -> None:
        connection._last_io_s -= 1_000_000
        connection._check_idle(loop)

    for _ in range(2):
        await client.reader.readexactly(4 * 1024 * 1024)
        idle_timer_is_due()
        assert server.connection_count == 1
    idle_timer_is_due()
    await until(lambda: server.connection_count == 0)
    client.writer.close()
    await server.close()


def test_a_listener_may_have_another_limit_of_connections_than_the_broker() -> None:
    limits = limits_of(
        BrokerConfig.parse(
            LISTENERS | {"max.connections": "9", "listener.name.public.max.connections": "2"}
        )
    )

    assert (limits.max_connections, limits.listener_max_connections) == (9, {PUBLIC: 2})


def test_an_address_with_its_own_limit_may_be_given_by_name_or_in_any_form() -> None:
    key = "max.connections.per.ip.overrides"
    config = BrokerConfig.parse(LISTENERS | {key: "localhost:2,0:0:0:0:0:0:0:1:3,192.0.2.1:4"})

    found = limits_of(config).max_connections_per_ip_overrides

    assert found in (
        {"127.0.0.1": 2, "::1": 3, "192.0.2.1": 4},
        {"::1": 3, "192.0.2.1": 4},  # where localhost is an IPv6 address
    )
    nowhere = BrokerConfig.parse(LISTENERS | {key: f"{'a' * 64}.example:2"})
    with pytest.raises(ConfigInvalid, match="an address, or a name that has one"):
        limits_of(nowhere)


async def test_a_full_listener_accepts_again_when_one_of_its_connections_ends() -> None:
    async with server_with(listener_max_connections={PUBLIC: 1}) as server:
        first, second = await Client.to(server), await Client.to(server)
        await first.is_answered()
        other = await Client.to(server, INTERNAL)
        await other.is_answered()
        assert server.connection_count == 2

        first.writer.close()

        await second.is_answered()
        for client in (second, other):
            client.writer.close()


def test_a_protected_listener_keeps_its_own_limit() -> None:
    quotas = ConnectionQuotas(INTERNAL)
    limits = ServerLimits(max_connections=3, listener_max_connections={INTERNAL: 2})
    for _ in range(3):
        quotas.opened(PUBLIC, "192.0.2.1")

    assert not quotas.has_room(PUBLIC, limits)
    for _ in range(2):
        assert quotas.has_room(INTERNAL, limits)
        quotas.opened(INTERNAL, "192.0.2.2")
    assert not quotas.has_room(INTERNAL, limits)
    assert quotas.is_exceeded(limits)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from([PUBLIC, INTERNAL]), st.sampled_from("abc"))))
def test_connections_that_have_all_ended_leave_no_count(opened: list[tuple[str, str]]) -> None:
    quotas = ConnectionQuotas(INTERNAL)
    for each in opened:
        quotas.opened(*each)
    for each in opened:
        quotas.closed(*each)

    assert quotas.total == 0
    assert quotas.refused_over("a", ServerLimits(max_connections_per_ip=1)) is None


@pytest.mark.parametrize("prefix", ["", "listener.name.public."])
def test_a_java_principal_builder_is_refused_for_a_listener_as_for_the_broker(prefix: str) -> None:
    key = prefix + "principal.builder.class"

    with pytest.raises(ConfigInvalid, match="Java principal builders") as refused:
        BrokerConfig.parse(LISTENERS | {key: "org.example.Builder"})

    assert key in str(refused.value)


async def test_clients_leave_descriptors_for_logs_and_brokers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "ACCEPT_PAUSE_S", 0.02)

    caplog.set_level(logging.INFO)

    with limit_restored() as hard:
        async with server_with() as server:
            # Above every number that is taken, there is room for more clients than are reserved.
            limit = 2 * highest_descriptor() + 160
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
            reserved = limit // 8
            # Both ends of a connection are in this process, so the next client comes when the last
            # one was answered: the clients' own ends take nothing of what is reserved.
            clients: list[Client] = []
            try:
                while "accepts no connection for now" not in caplog.text:
                    clients.append(await Client.to(server))
                    await clients[-1].is_answered()

                served = len(clients)
                assert limit - open_descriptors() >= reserved // 2
                waiting, broker = await Client.to(server), await Client.to(server, INTERNAL)
                clients += [waiting, broker]
                await broker.is_answered()
                assert server.connection_count == served + 1

                for client in clients[:40]:
                    client.writer.close()
                await waiting.is_answered()
            finally:
                for client in clients:
                    client.writer.close()

    assert "ulimit -n" in caplog.text
    assert "accepts connections again" in caplog.text


async def test_a_listener_without_descriptors_names_the_limit_and_accepts_later(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "ACCEPT_PAUSE_S", 0.02)

    with limit_restored() as hard:
        async with server_with() as server:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            client = await Client.to(server, INTERNAL)
            await client.is_answered()
            connecting = asyncio.create_task(Client.to(server, INTERNAL))
            await asyncio.sleep(0)  # its own descriptor is there
            lowest_free = os.dup(0)
            os.close(lowest_free)
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
            while "Error while accepting connection" not in caplog.text:
                await asyncio.sleep(0.01)

            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

            second = await connecting
            await second.is_answered()
            for each in (client, second):
                each.writer.close()

    assert "(ulimit -n)" in caplog.text


async def test_spare_descriptors_come_back_before_a_connection_is_accepted(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(listener, "ACCEPT_PAUSE_S", 0.02)

    def opened() -> int:
        return os.open(os.devnull, os.O_RDONLY)

    def is_any_left() -> bool:
        try:
            os.close(opened())
        except OSError:
            return False
        return True

    with SPARE_DESCRIPTORS.kept(4), limit_restored() as hard:
        async with server_with() as server:
            soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
            first = await Client.to(server, INTERNAL)
            await first.is_answered()
            connecting = asyncio.create_task(Client.to(server, INTERNAL))
            lowest_free = opened()
            os.close(lowest_free)
            await asyncio.sleep(0)  # the client's own descriptor is there
            resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, hard))
            segment, index = SPARE_DESCRIPTORS.opening(opened), SPARE_DESCRIPTORS.opening(opened)

            os.close(index)
            while is_any_left():
                await asyncio.sleep(0.01)
            assert server.connection_count == 1

            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            second = await connecting
            await second.is_answered()
            os.close(segment)
            for each in (first, second):
                each.writer.close()

    assert "no connection is accepted before all 4 are there again" in caplog.text
