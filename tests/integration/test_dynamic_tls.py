"""New certificates for a running broker, by AlterConfigs, as a TLS client sees them."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID

from tests.integration.broker_processes import (
    BrokerProcess,
    Cluster,
    cluster_in,
    metadata_of,
    wait_for,
)
from tests.integration.secured_cluster import address
from tests.support.certificates import Authority, Identity
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode

kafka_admin: Any = import_module("confluent_kafka.admin")
pytestmark = pytest.mark.integration
TIMEOUT_S: Final = 20
PREFIX: Final = "listener.name.tls."
STORE_PASSWORD: Final = "store-secret-0451"


class Operator:
    """Who has an authority, and gives a broker its key stores."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.authority = Authority()

    def key_store(self, name: str, password: str = STORE_PASSWORD) -> tuple[str, Identity]:
        """A new PKCS12 file with a new certificate of the broker; what was there is replaced."""
        made = self.authority.sign((NameOID.COMMON_NAME, "broker"), hosts=True)
        path = self.directory / f"{name}.p12"
        path.write_bytes(made.pkcs12(password, self.authority.identity))
        return str(path), made

    def connect(self, broker: BrokerProcess, listener: str = "TLS") -> ssl.SSLSocket:
        """A connection to one of its listeners, after the handshake."""
        host, _, port = (
            str(broker.status["listeners"][listener]).partition("://")[2].rpartition(":")
        )
        context = ssl.create_default_context(cadata=self.authority.identity.certificate_pem)
        plain = socket.create_connection((host, int(port)), TIMEOUT_S)
        return context.wrap_socket(plain, server_hostname="localhost")

    def served(self, broker: BrokerProcess, listener: str = "TLS") -> int:
        """The serial number of the certificate that it shows to new clients."""
        with self.connect(broker, listener) as connection:
            return serial_of(connection)


def serial_of(connection: ssl.SSLSocket) -> int:
    shown = connection.getpeercert(binary_form=True)
    assert shown is not None
    return x509.load_der_x509_certificate(shown).serial_number


@pytest.fixture
def operator(tmp_path: Path) -> Operator:
    (tmp_path / "stores").mkdir()
    return Operator(tmp_path / "stores")


@pytest.fixture
def cluster(tmp_path: Path, zookeeper_connect: str, operator: Operator) -> Iterator[Cluster]:
    location, _ = operator.key_store("first")
    properties = {
        "listeners": "TLS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "TLS:SSL,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "password.encoder.secret": "the secret of passwords",
        f"{PREFIX}ssl.keystore.type": "PKCS12",
        f"{PREFIX}ssl.keystore.location": location,
        f"{PREFIX}ssl.keystore.password": STORE_PASSWORD,
    }
    with cluster_in(tmp_path, f"{zookeeper_connect}/{tmp_path.name}") as cluster:
        cluster.start(1, **properties)
        # A client asks the broker itself, which it knows by its metadata.
        wait_for(lambda: metadata_of(admin_of(cluster)), "metadata")
        yield cluster


def admin_of(cluster: Cluster) -> Any:
    return kafka_admin.AdminClient(
        {"bootstrap.servers": address(cluster, 1, "PLAINTEXT"), "log_level": 0}
    )


def alter(cluster: Cluster, **changes: str) -> None:
    """IncrementalAlterConfigs of the broker by librdkafka; KafkaException if it is refused."""
    entries = [
        kafka_admin.ConfigEntry(
            name, value, incremental_operation=kafka_admin.AlterConfigOpType.SET
        )
        for name, value in changes.items()
    ]
    resource = kafka_admin.ConfigResource("broker", "1", incremental_configs=entries)
    admin = admin_of(cluster)
    [response] = admin.incremental_alter_configs([resource], request_timeout=TIMEOUT_S).values()
    response.result()


def test_a_broker_gets_new_certificates_without_a_restart(
    cluster: Cluster, operator: Operator
) -> None:
    broker = cluster.brokers[1]
    first = operator.served(broker)
    old_connection = operator.connect(broker)
    location, second = operator.key_store("second", "another password")

    alter(
        cluster,
        **{
            f"{PREFIX}ssl.keystore.location": location,
            f"{PREFIX}ssl.keystore.password": "another password",
        },
    )

    serial = second.certificate.serial_number
    wait_for(lambda: operator.served(broker) == serial, "the new certificate")
    assert serial != first
    # ApiVersions, version 0, correlation id 7: the old connection goes on with the old certificate.
    old_connection.sendall(b"\0\0\0\x0a\0\x12\0\0\0\0\0\x07\xff\xff")
    assert old_connection.recv(8)[4:] == b"\0\0\0\x07"
    assert serial_of(old_connection) == first
    old_connection.close()

    # The same path, and another file: any change of this broker's configuration reads it again.
    _, third = operator.key_store("second", "another password")
    alter(cluster, **{f"{PREFIX}ssl.keystore.location": location})
    serial = third.certificate.serial_number
    wait_for(lambda: operator.served(broker) == serial, "the rewritten key store")

    # Encoded in ZooKeeper, and read from there by the next process.
    session = ZooKeeperSession(ZooKeeperConfig(cluster.connect))
    session.start()
    try:
        znode = session.read(ConfigZnode.path("brokers/1"))
    finally:
        session.close()
    assert not isinstance(znode, ZkCode)
    assert b"encryptedPassword:" in znode.data
    assert b"another password" not in znode.data
    assert "another password" not in broker.log()
    broker.stop()
    broker.start().ready()
    assert operator.served(broker) == serial


def test_a_broker_whose_file_names_a_store_that_is_gone_starts_with_the_one_in_zookeeper(
    tmp_path: Path, zookeeper_connect: str, operator: Operator
) -> None:
    """Without passwords there is no need of a ``password.encoder.secret``."""
    made = [
        operator.authority.sign((NameOID.COMMON_NAME, "broker"), hosts=True).write(tmp_path, name)
        for name in ("first", "second")
    ]
    properties = {
        "listeners": "TLS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0",
        "listener.security.protocol.map": "TLS:SSL,PLAINTEXT:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        f"{PREFIX}ssl.keystore.type": "PEM",
        f"{PREFIX}ssl.keystore.location": str(made[0]),
    }
    with cluster_in(tmp_path, f"{zookeeper_connect}/{tmp_path.name}") as cluster:
        [broker] = cluster.start(1, **properties)
        wait_for(lambda: metadata_of(admin_of(cluster)), "metadata")
        first = operator.served(broker)
        alter(cluster, **{f"{PREFIX}ssl.keystore.location": str(made[1])})
        wait_for(lambda: operator.served(broker) != first, "the new certificate")
        second = operator.served(broker)
        broker.stop()

        made[0].unlink()
        broker.start().ready()

        assert operator.served(broker) == second


def test_a_store_that_does_not_fit_is_refused_and_the_old_one_is_served(
    cluster: Cluster, operator: Operator
) -> None:
    broker = cluster.brokers[1]
    before = operator.served(broker)
    stranger = operator.authority.sign((NameOID.COMMON_NAME, "stranger"), hosts=True)
    location = operator.directory / "stranger.p12"
    location.write_bytes(stranger.pkcs12(STORE_PASSWORD))

    with pytest.raises(Exception, match="distinguished name of the old one"):
        alter(cluster, **{f"{PREFIX}ssl.keystore.location": str(location)})
    with pytest.raises(Exception, match="the password that belongs to it"):
        alter(cluster, **{f"{PREFIX}ssl.keystore.password": "wrong"})

    assert operator.served(broker) == before


def test_listeners_are_added_announced_and_removed_while_the_broker_runs(
    cluster: Cluster, operator: Operator
) -> None:
    broker = cluster.brokers[1]
    first = "TLS://127.0.0.1:0,PLAINTEXT://127.0.0.1:0"
    location, second = operator.key_store("second")
    store = {
        "listener.name.more.ssl.keystore.type": "PKCS12",
        "listener.name.more.ssl.keystore.location": location,
        "listener.name.more.ssl.keystore.password": STORE_PASSWORD,
    }
    protocols = "TLS:SSL,PLAINTEXT:PLAINTEXT,MORE:SSL"

    alter(
        cluster,
        **{
            **store,
            "listener.security.protocol.map": protocols,
            "listeners": f"{first},MORE://127.0.0.1:0",
        },
    )

    wait_for(lambda: "MORE" in broker.status["listeners"], "the new listener")
    assert operator.served(broker, "MORE") == second.certificate.serial_number
    connection = operator.connect(broker, "MORE")

    with pytest.raises(Exception, match="address of existing listener TLS cannot be updated"):
        alter(cluster, **{"listeners": "TLS://127.0.0.2:0,PLAINTEXT://127.0.0.1:0"})
    port = address(cluster, 1, "PLAINTEXT").rpartition(":")[2]
    alter(
        cluster,
        **{"advertised.listeners": f"TLS://localhost:9,PLAINTEXT://localhost:{port}"},
    )
    wait_for(lambda: announced(cluster) == f"localhost:{port}", "the announced address")

    alter(cluster, **{"listeners": first})
    assert connection.recv(1) == b"", "the connections of a listener end with it"
    connection.close()


def announced(cluster: Cluster) -> str:
    """``host:port`` that a new client learns of the broker."""
    [found] = admin_of(cluster).list_topics(timeout=TIMEOUT_S).brokers.values()
    return f"{found.host}:{found.port}"


def test_keys_without_a_listener_are_taken_as_kafka_takes_them(cluster: Cluster) -> None:
    alter(cluster, **{"sasl.kerberos.min.time.before.relogin": "58000"})

    admin = admin_of(cluster)

    def described() -> str:
        resource = kafka_admin.ConfigResource("broker", "1")
        [response] = admin.describe_configs([resource], request_timeout=TIMEOUT_S).values()
        return str(response.result()["sasl.kerberos.min.time.before.relogin"].value)

    wait_for(lambda: described() == "58000", "the changed value")
