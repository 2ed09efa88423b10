"""The process in a container, without the container: its configuration and its health check."""

from __future__ import annotations

import asyncio
import socket
import ssl
from pathlib import Path

import pytest
from cryptography.x509.oid import NameOID

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kafka_common.net.byte_stream import TlsStream
from replica_manager.container import DATA, METRICS_PORT, container_config, main, unhealthy
from tests.support.certificates import Authority

CONNECT = {"KAFKA_ZOOKEEPER_CONNECT": "zookeeper:2181/kafka"}


def test_data_goes_into_the_volume_unless_it_is_said_where() -> None:
    default = container_config(CONNECT).broker
    chosen = container_config(CONNECT | {"KAFKA_LOG_DIRS": "/a,/b"}).broker

    assert default.log_dirs == (DATA,)
    assert chosen.log_dirs == (Path("/a"), Path("/b"))


def test_variables_win_over_the_mounted_file(tmp_path: Path) -> None:
    mounted = tmp_path / "server.properties"
    mounted.write_text("zookeeper.connect=other:2181\nbroker.id=4\nnum.partitions=3\n")

    found = container_config(CONNECT | {"KAFKA_NUM_PARTITIONS": "6"}, mounted=mounted).broker

    assert found.zookeeper_connect == "zookeeper:2181/kafka"
    assert found.broker_id == 4
    assert found.integer("num.partitions") == 6


def test_without_any_zookeeper_the_variable_is_named() -> None:
    with pytest.raises(ConfigInvalid, match="KAFKA_ZOOKEEPER_CONNECT"):
        container_config({"KAFKA_BROKER_ID": "1"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("KAFKA_NUM_PARTITIONS", "many"),
        ("KAFKA_LISTENERS", "PLAINTEXT//:9092"),
        ("KAFKA_PROCESS_ROLES", "broker"),
        (METRICS_PORT, "70000"),
        (METRICS_PORT, "metrics"),
    ],
)
def test_a_refused_value_is_said_with_the_name_of_its_variable(variable: str, value: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        container_config(CONNECT | {variable: value})

    assert variable in str(refused.value)
    assert repr(value) in str(refused.value)


def test_a_verb_that_is_not_there_is_a_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heal"]) == 2
    assert main(["health", "now"]) == 2
    assert "[run|health]" in capsys.readouterr().err


def endpoint(sock: socket.socket, protocol: str = "PLAINTEXT") -> Endpoint:
    return Endpoint("", sock.getsockname()[1], protocol, protocol)


def test_a_port_without_a_broker_and_a_peer_of_another_protocol_are_unhealthy() -> None:
    async def ask() -> tuple[str | None, str | None]:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        other = await unhealthy(endpoint(server.sockets[0]))
        server.close()
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            return await unhealthy(endpoint(unused)), other

    nothing, other = asyncio.run(ask())

    assert nothing is not None
    assert "cannot connect" in nothing
    assert other is not None


def test_a_listener_that_wants_a_certificate_answers_by_refusing(tmp_path: Path) -> None:
    authority = Authority()
    identity = authority.sign((NameOID.COMMON_NAME, "broker"), hosts=True).write(tmp_path, "broker")
    trusted = authority.identity.certificate_pem

    async def ask(version: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.maximum_version = version
        context.load_cert_chain(identity)
        context.load_verify_locations(cadata=trusted)
        context.verify_mode = ssl.CERT_REQUIRED

        with socket.socket() as listening:
            listening.bind(("127.0.0.1", 0))
            listening.listen()
            listening.setblocking(False)
            asking = asyncio.ensure_future(unhealthy(endpoint(listening, "SSL")))
            accepted, _ = await asyncio.get_running_loop().sock_accept(listening)
            stream = TlsStream(accepted, context)  # as a broker's listener has it
            with pytest.raises(ssl.SSLError):
                await stream.handshake()
            stream.close()
            return await asking

    assert asyncio.run(ask(ssl.TLSVersion.TLSv1_2)) is None
    assert asyncio.run(ask(ssl.TLSVersion.TLSv1_3)) is None
