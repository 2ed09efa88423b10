"""What is counted of a listener's connections; ``tests/peers`` compares it with Kafka's counts."""

from __future__ import annotations

import asyncio
import ssl

from kio.schema.api_versions.v3.request import ApiVersionsRequest
from kio.schema.metadata.v1.request import MetadataRequest

from kafka_common.model import Endpoint
from kafka_common.net.client_security import ClientSecurity
from kafka_common.net.connection import Connection
from kafka_common.observability.metrics import Metrics
from replica_manager.network.connection import Peer, Respond, ResponseFrame
from replica_manager.network.listener import ServerLimits, SocketServer
from replica_manager.network.selector_metrics import KINDS_MAX, Kinds
from replica_manager.security.settings import ListenerSecurity
from tests.support.wire_peer import until
from tests.unit.replica_manager.network.echo_server import answer, connect, framed
from tests.unit.replica_manager.security.listeners import (
    Broker,
    context,
    listener,
    tls_listener,
)

TYPE = "kafka.server:type=socket-server-metrics"
OF_L = f"{TYPE},listener=L,networkProcessor=0"
TO_TLS = ClientSecurity(context(ssl.PROTOCOL_TLS_CLIENT, None))


def counts(metrics: Metrics, name: str = OF_L) -> dict[str, float]:
    """The attributes that are not 0, without those that a time decides."""
    return {
        attribute: float(value)
        for attribute, value in metrics.snapshot()[name].items()
        if value and not attribute.endswith("-rate") and "latency" not in attribute
    }


def connections(metrics: Metrics) -> dict[str, float]:
    """How many there are of each kind, by the tags of the kind."""
    return {
        name.removeprefix(f"{TYPE},").partition(",listener=")[0]: float(found["connections"])
        for name, found in metrics.snapshot().items()
        if "connections" in found
    }


async def open_to(port: int) -> Connection:
    return await Connection.open("127.0.0.1", port, client_id="test", security=TO_TLS)


async def test_connections_are_counted_by_software_and_cipher_while_they_are_open() -> None:
    broker = Broker()
    async with listener(broker, ListenerSecurity("SSL", tls_listener())) as port:
        connection = await open_to(port)
        await connection.request(
            ApiVersionsRequest(client_software_name="mine", client_software_version="1.0")
        )
        [cipher] = {kind for kind in connections(broker.metrics) if kind.startswith("cipher=")}
        mine = "clientSoftwareName=mine,clientSoftwareVersion=1.0"
        unknown = "clientSoftwareName=unknown,clientSoftwareVersion=unknown"

        assert cipher.endswith(",protocol=TLSv1.3")
        assert connections(broker.metrics) == {unknown: 0, mine: 1, cipher: 1}
        assert counts(broker.metrics)["connection-count"] == 1
        await connection.close()
        await until(lambda: "connection-count" not in counts(broker.metrics))

    assert connections(broker.metrics) == {unknown: 0, mine: 0, cipher: 0}
    found = counts(broker.metrics)
    assert found["connection-creation-total"] == found["connection-close-total"] == 1
    assert found["network-io-total"] == found["response-total"] + found["request-total"] == 2


async def test_a_certificate_is_an_authentication_that_cannot_be_renewed() -> None:
    broker = Broker()
    async with listener(broker, ListenerSecurity("SSL", tls_listener())) as port:
        connection = await open_to(port)
        await connection.request(MetadataRequest(topics=None))
        await connection.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"not a TLS record at all")
        await reader.read()
        writer.close()

    found = counts(broker.metrics)
    assert found["successful-authentication-total"] == 1
    assert found["successful-authentication-no-reauth-total"] == 1
    assert found["failed-authentication-total"] == 1


async def test_the_size_of_a_response_is_that_of_all_its_parts() -> None:
    async def respond(_data: bytes, _peer: Peer) -> ResponseFrame:
        whole = framed(b"ab" + b"c" * 100)
        return ResponseFrame(whole[:6], rest=(whole[6:56], whole[56:]))

    metrics = Metrics()
    server = server_of(metrics, respond, "PLAINTEXT")
    server.open()
    reader, writer = await connect(server)
    writer.write(framed(b"request"))
    await answer(reader)
    await until(lambda: "request-total" in counts(metrics, bean("PLAINTEXT", 0)))

    found = counts(metrics, bean("PLAINTEXT", 0))
    writer.close()
    await server.close()
    assert found["outgoing-byte-total"] == found["request-size-max"] == 4 + 102
    assert found["incoming-byte-total"] == 4 + len(b"request")


async def test_the_numbers_of_a_closed_listener_go_and_a_new_one_has_its_own() -> None:
    async def respond(data: bytes, _peer: Peer) -> ResponseFrame:
        return ResponseFrame(framed(data))

    metrics = Metrics()
    server = server_of(metrics, respond, "A", "B")
    server.open()
    reader, writer = await connect(server, "A")
    writer.write(framed(b"request"))
    await answer(reader)
    server.remove("A")
    server.add(Endpoint("127.0.0.1", 0, "C", "PLAINTEXT"), None)
    await server.close()
    writer.close()

    assert sorted(metrics.snapshot()) == [bean("B", 1), bean("C", 2)]


def bean(listener_name: str, processor: int) -> str:
    return f"{TYPE},listener={listener_name},networkProcessor={processor}"


def server_of(metrics: Metrics, respond: Respond, *listeners: str) -> SocketServer:
    return SocketServer(
        tuple(Endpoint("127.0.0.1", 0, name, "PLAINTEXT") for name in listeners),
        ServerLimits(),
        respond,
        broker_id=1,
        protected_listener="",
        metrics=metrics,
    )


def test_a_further_kind_takes_the_place_of_one_without_connections() -> None:
    metrics = Metrics()
    kinds = Kinds(metrics, ("cipher", "protocol"), {"listener": "L"})
    for number in range(KINDS_MAX):
        kinds.add((f"c{number}", "TLSv1.3"))

    kinds.add(("one too many", "TLSv1.3"))
    kinds.remove_one(("one too many", "TLSv1.3"))
    assert len(metrics.snapshot()) == KINDS_MAX
    assert "cipher=one too many,protocol=TLSv1.3" not in connections(metrics)

    kinds.remove_one(("c7", "TLSv1.3"))
    kinds.add(("another", "TLSv1.3"))
    found = connections(metrics)
    assert len(found) == KINDS_MAX
    assert "cipher=c7,protocol=TLSv1.3" not in found
    assert set(found.values()) == {1}
