"""How fast connections may come: by hand, and at a listener.

With eleven windows of a second the first ten seconds count as ten: at two a second twenty may come
at once, and the next has to wait for (2.1 - 2) / 2 * 10 s.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from kafka_common.model import Endpoint
from kafka_common.net.loopback_ports import free_port
from kafka_common.observability.metrics import Metrics
from replica_manager.broker.broker_quotas import BrokerQuotas
from replica_manager.broker.broker_settings import limits_of
from replica_manager.configuration.config import BrokerConfig
from replica_manager.network import listener
from replica_manager.network.connection import Peer, ResponseFrame
from replica_manager.network.connection_rates import ConnectionRates
from replica_manager.network.listener import ServerLimits, SocketServer
from replica_manager.quotas.rate_quotas import QuotaWindows

UNLIMITED = 2**31 - 1
HOME = "192.0.2.1"
PUBLIC, INTERNAL = "PUBLIC", "INTERNAL"


class World:
    """A clock that a test moves, and rates that go by it."""

    def __init__(self, windows: QuotaWindows = QuotaWindows()) -> None:  # noqa: B008 - a constant
        self.now_ms = 1_000_000
        self.metrics = Metrics()
        self.rates = ConnectionRates(windows, lambda: self.now_ms, self.metrics, INTERNAL)

    def attributes(self, **tags: str) -> dict[str, Any]:
        tail = "".join(f",{key}={value}" for key, value in tags.items())
        return dict(self.metrics.snapshot()[f"kafka.server:type=socket-server-metrics{tail}"])


@pytest.fixture
def world() -> World:
    return World()


def test_a_broker_accepts_no_faster_than_it_may(world: World) -> None:
    waits = [world.rates.accept(PUBLIC, 2, UNLIMITED) for _ in range(21)]

    assert waits == [0] * 20 + [500]
    assert world.attributes() == {"broker-connection-accept-rate": 2.1}


def test_each_change_of_an_address_is_a_line_of_kafkas(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kafka.network.ConnectionQuotas")

    world.rates.configure("ips/::1", {"connection_creation_rate": "5"})
    world.rates.configure(f"ips/{HOME}", {"connection_creation_rate": "3"})
    world.rates.refuse(PUBLIC, HOME)
    world.rates.configure("ips/<default>", {"connection_creation_rate": "4"})
    world.rates.configure(f"ips/{HOME}", {})
    world.rates.configure("ips/<default>", {})

    assert caplog.messages == [
        "Updating max connection rate override for /0:0:0:0:0:0:0:1 to 5",
        "Updating max connection rate override for /192.0.2.1 to 3",
        "Updated default max IP connection rate to 4",
        "Removing max connection rate override for /192.0.2.1",
        "Updated connection-accept-rate max connection creation rate to 4",
        "Updated default max IP connection rate to 2147483647",
    ]


def test_a_listener_has_a_rate_of_its_own_and_the_longer_wait_counts(world: World) -> None:
    for _ in range(20):
        assert world.rates.accept(PUBLIC, 4, 2) == 0
    assert world.rates.accept("OTHER", 2, UNLIMITED) == 500

    # 2.1 of two a second at the listener, 2.2 of two at the broker.
    assert world.rates.accept(PUBLIC, 2, 2) == 1_000

    shown = world.attributes(listener=PUBLIC)
    assert shown["connection-accept-rate"] == 2.1
    assert shown["connection-accept-throttle-time"] == 1_000
    assert math.isnan(shown["ip-connection-accept-throttle-time"])


def test_no_client_waits_longer_than_a_window(world: World) -> None:
    waits = [world.rates.accept(PUBLIC, 0, UNLIMITED) for _ in range(3)]

    assert waits == [1_000] * 3


def test_brokers_among_themselves_do_not_count_for_the_broker(world: World) -> None:
    for _ in range(30):
        assert world.rates.accept(INTERNAL, 2, UNLIMITED) == 0

    assert world.rates.accept(PUBLIC, 2, UNLIMITED) == 0
    assert [world.rates.accept(INTERNAL, 2, 3) for _ in range(1)] == [333]


def test_an_address_that_comes_too_fast_is_refused_and_does_not_count(world: World) -> None:
    world.rates.configure(f"ips/{HOME}", {"connection_creation_rate": "2"})
    for _ in range(20):
        world.rates.accept(PUBLIC, UNLIMITED, UNLIMITED)
        assert world.rates.refuse(PUBLIC, HOME) == 0

    for _ in range(2):
        world.rates.accept(PUBLIC, UNLIMITED, UNLIMITED)
        assert world.rates.refuse(PUBLIC, HOME) == 500

    assert world.attributes(ip=HOME) == {"connection-accept-rate": 2.0}
    assert world.attributes() == {"broker-connection-accept-rate": 2.0}
    shown = world.attributes(listener=PUBLIC)
    assert shown["connection-accept-rate"] == 2.0
    assert shown["ip-connection-accept-throttle-time"] == 500
    world.now_ms += 500
    assert world.rates.refuse(PUBLIC, HOME) == 0  # 21 in 10.5 s


def test_an_ipv4_address_in_ipv6_clothes_is_the_former(world: World) -> None:
    world.rates.configure("ips/%3A%3Affff%3A192.0.2.7", {"connection_creation_rate": "0"})

    assert world.rates.refuse(PUBLIC, "192.0.2.7") == 1_000


def test_who_has_no_rate_has_the_default_and_without_that_none(world: World) -> None:
    assert [world.rates.refuse(PUBLIC, HOME) for _ in range(100)] == [0] * 100

    world.rates.configure("ips/<default>", {"connection_creation_rate": "0"})
    world.rates.configure("ips/%3A%3A1", {"connection_creation_rate": "1"})
    assert world.rates.refuse(PUBLIC, HOME) == 1_000
    assert world.rates.refuse(PUBLIC, "::1") == 0

    world.rates.configure("ips/%3A%3A1", {})
    assert world.rates.refuse(PUBLIC, "::1") == 1_000
    world.rates.configure("ips/<default>", {})
    assert world.rates.refuse(PUBLIC, "::1") == 0


@pytest.mark.parametrize(
    ("name", "rate"),
    [
        (HOME, "1.5"),
        (HOME, "-1"),
        (HOME, "many"),
        (HOME, str(2**31)),
        (HOME, "9" * 5_000),
        ("a.host.example", "1"),
    ],
)
def test_what_is_no_rate_of_an_address_changes_nothing(
    world: World, name: str, rate: str, caplog: pytest.LogCaptureFixture
) -> None:
    world.rates.configure(f"ips/{HOME}", {"connection_creation_rate": "0"})

    world.rates.configure(f"ips/{name}", {"connection_creation_rate": rate})

    assert f"The connection rate of ips/{name} stays as it was" in caplog.text
    assert world.rates.refuse(PUBLIC, HOME) == 1_000


def test_a_listener_may_have_another_rate_than_the_broker() -> None:
    config = BrokerConfig.parse(
        {
            "zookeeper.connect": "memory:1",
            "listeners": "PUBLIC://:0,INTERNAL://:0",
            "listener.security.protocol.map": "PUBLIC:PLAINTEXT,INTERNAL:PLAINTEXT",
            "inter.broker.listener.name": "INTERNAL",
            "max.connection.creation.rate": "50",
            "listener.name.public.max.connection.creation.rate": "7",
            "quota.window.num": "5",
            "quota.window.size.seconds": "2",
        }
    )

    limits = limits_of(config)
    assert limits.max_connection_creation_rate == 50
    assert limits.listener_connection_creation_rates == {"PUBLIC": 7}
    assert config.warnings == ()
    changed = config.with_dynamic(default={"max.connection.creation.rate": "9"}, own={})
    assert limits_of(changed).max_connection_creation_rate == 9


def test_a_brokers_quotas_go_to_whom_they_are_of() -> None:
    config = BrokerConfig.parse({"zookeeper.connect": "memory:1", "quota.window.num": "2"})
    metrics = Metrics()
    quotas = BrokerQuotas(config, metrics)

    # The only listener there is serves clients too.
    quotas.connections.accept("PLAINTEXT", UNLIMITED, UNLIMITED)
    shown = metrics.snapshot()["kafka.server:type=socket-server-metrics"]
    assert float(shown["broker-connection-accept-rate"]) > 0

    quotas.configure("ips/<default>", {"connection_creation_rate": "0"})
    assert quotas.connections.refuse("PLAINTEXT", HOME) == 1_000
    assert not quotas.clients.is_enabled

    quotas.configure("users/alice", {"consumer_byte_rate": "10"})
    assert quotas.clients.is_enabled
    assert quotas.clients.fetch.most_at_once("alice", "app") == 10


# ---------------------------------------------------------------------- at a listener

SHORT = QuotaWindows(2, 200)
"""At five a second one may come at once, and the next has to wait for 200 ms."""


async def echo(data: bytes, _: Peer) -> ResponseFrame:
    return ResponseFrame(struct.pack(">i", len(data)) + data)


@asynccontextmanager
async def server_with(world: World, **limits: Any) -> AsyncIterator[SocketServer]:
    server = SocketServer(
        tuple(Endpoint("127.0.0.1", 0, name, "PLAINTEXT") for name in (PUBLIC, INTERNAL)),
        ServerLimits(**limits),
        echo,
        broker_id=1,
        protected_listener=INTERNAL,
        rates=world.rates,
    )
    server.open()
    try:
        yield server
    finally:
        await server.close()


async def said(server: SocketServer, name: str = PUBLIC) -> bytes:
    """What comes to a connection that says something, up to its end if it is short."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.ports[name])
    writer.write(struct.pack(">i", 4) + b"ping")
    try:
        return await reader.read(8)
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


async def test_the_acceptor_waits_and_then_serves() -> None:
    world = World(SHORT)

    async with server_with(world, listener_connection_creation_rates={PUBLIC: 5}) as server:
        assert await said(server) == b"\0\0\0\4ping"
        assert math.isnan(world.attributes(listener=PUBLIC)["connection-accept-throttle-time"])

        assert await said(server) == b"\0\0\0\4ping"
        assert world.attributes(listener=PUBLIC)["connection-accept-throttle-time"] == 200

        assert await said(server, INTERNAL) == b"\0\0\0\4ping"
        assert await said(server, INTERNAL) == b"\0\0\0\4ping"


async def test_who_comes_too_fast_is_closed_unheard() -> None:
    world = World(SHORT)
    world.rates.configure("ips/127.0.0.1", {"connection_creation_rate": "5"})

    async with server_with(world) as server:
        assert await said(server) == b"\0\0\0\4ping"
        assert await said(server) == b""

        world.now_ms += 1_000
        assert await said(server) == b"\0\0\0\4ping"


async def test_only_so_many_are_kept_unheard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "MOST_REFUSED", 1)
    world = World(QuotaWindows(2, 60_000))
    world.rates.configure("ips/<default>", {"connection_creation_rate": "0"})

    async with server_with(world) as server:
        first = asyncio.create_task(said(server))
        second = asyncio.create_task(said(server))
        done, _ = await asyncio.wait([first, second], return_when=asyncio.FIRST_COMPLETED)
        assert [task.result() for task in done] == [b""]
        assert len(done) == 1
    assert [await first, await second] == [b"", b""]


async def test_each_listener_begins_with_two_lines_and_requests_with_one(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kafka.network")

    async with server_with(
        world,
        max_connection_creation_rate=50,
        listener_connection_creation_rates={INTERNAL: 7},
    ):
        lines = [each for each in caplog.messages if not each.startswith("Awaiting")]

    prefix = "[SocketServer listenerType=ZK_BROKER, nodeId=1]"
    created = f"{prefix} Created data-plane acceptor and processors for endpoint : ListenerName"
    assert lines == [
        "Updated connection-accept-rate max connection creation rate to 50",
        f"{created}(PUBLIC)",
        "Updated connection-accept-rate max connection creation rate to 7",
        f"{created}(INTERNAL)",
        f"{prefix} Enabling request processing.",
    ]


async def test_a_listener_that_is_added_and_removed_is_named(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "kafka.network")
    port = free_port()

    async with server_with(world) as server:
        server.add(Endpoint("", port, "THIRD", "PLAINTEXT"), None)
        server.remove("THIRD")
        server.remove("THIRD")
        lines = [each for each in caplog.messages if "data-plane listeners" in each]

    prefix = "[SocketServer listenerType=ZK_BROKER, nodeId=1]"
    endpoints = f"endpoints ArrayBuffer(EndPoint(null,{port},ListenerName(THIRD),PLAINTEXT))"
    assert lines == [
        f"{prefix} Adding data-plane listeners for {endpoints}",
        f"{prefix} Removing data-plane listeners for {endpoints}",
    ]
