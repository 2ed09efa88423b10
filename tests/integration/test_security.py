"""Secured listeners and rules, on real brokers, as real clients see them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from importlib import import_module
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer
from kio.schema.metadata.v1.request import MetadataRequest

from kafka_common.net.connection import Connection
from tests.integration.broker_processes import Cluster, metadata_of, wait_for
from tests.integration.secured_cluster import (
    BROKER_PASSWORD,
    USERS,
    Certificates,
    address,
    broker_properties,
    in_a_jaas_file,
    secured_cluster,
)

# Its own types are not what it takes: None stands for a filter that matches all.
kafka_admin: Any = import_module("confluent_kafka.admin")

pytestmark = pytest.mark.integration
TIMEOUT_S: Final = 20
WRONG: Final = "not-hers-0451"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def cluster(
    tmp_path_factory: pytest.TempPathFactory, zookeeper_connect: str, certificates: Certificates
) -> Iterator[Cluster]:
    """One cluster for all: its brokers take the longest.  Their logins stand in a JAAS file."""
    connect = f"{zookeeper_connect}/security"
    directory = tmp_path_factory.mktemp("cluster")
    jaas = directory / "jaas.conf"
    properties = in_a_jaas_file(broker_properties(certificates), jaas)
    with pytest.MonkeyPatch.context() as patch, ExitStack() as stack:
        patch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")
        cluster = stack.enter_context(secured_cluster(directory, connect, properties))
        for broker_id in cluster.brokers:
            wait_for(partial(knows_all, cluster, broker_id), f"broker {broker_id} to know all")
        yield cluster


def knows_all(cluster: Cluster, broker_id: int) -> bool:
    """Whether the broker's clients would find every broker, and the controller."""
    asked = address(cluster, broker_id, "OPEN")
    metadata = metadata_of(client(cluster, "OPEN", bootstrap_servers=asked))
    return (
        metadata is not None
        and len(metadata.brokers) == len(cluster.brokers)
        and metadata.controller_id > 0
    )


def client(cluster: Cluster, listener: str, **config: Any) -> Any:
    dotted = {
        key if key == "error_cb" else key.replace("_", "."): value for key, value in config.items()
    }
    return kafka_admin.AdminClient(
        {
            "bootstrap.servers": address(cluster, 1, listener),
            "socket.timeout.ms": TIMEOUT_S * 1000,
            "log_level": 0,
            **dotted,
        }
    )


def by_sasl(
    cluster: Cluster, listener: str, mechanism: str, user: str, password: str, **config: Any
) -> Any:
    protocol = {"PLAIN": "SASL_PLAINTEXT", "CLOSED": "SASL_SSL"}[listener]
    return client(
        cluster,
        listener,
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        sasl_username=user,
        sasl_password=password,
        **config,
    )


def tls(certificates: Certificates, name: str | None = None) -> Mapping[str, str]:
    config = {"ssl_ca_location": certificates.path("trusted.pem")}
    if name is not None:
        config["ssl_certificate_location"] = certificates.path(f"{name}.pem")
        config["ssl_key_location"] = certificates.path(f"{name}.pem")
    return config


def create(admin: Any, topic: str) -> str | None:
    """The name of the error; None for none."""
    future = admin.create_topics([kafka_admin.NewTopic(topic, 1, 2)], request_timeout=TIMEOUT_S)[
        topic
    ]
    try:
        future.result(TIMEOUT_S)
    except KafkaException as refused:
        return str(refused.args[0].name())
    return None


def topics(admin: Any) -> set[str]:
    return set(admin.list_topics(timeout=TIMEOUT_S).topics)


def test_followers_log_in_by_the_brokers_door_and_fetch_under_tls(cluster: Cluster) -> None:
    assert create(by_sasl(cluster, "PLAIN", "PLAIN", "admin", USERS["admin"]), "copied") is None
    errors: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": address(cluster, 1, "PLAIN"),
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "admin",
            "sasl.password": USERS["admin"],
            "acks": "all",
            "log_level": 0,
        }
    )
    producer.produce("copied", b"precious", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0
    assert errors == [None]

    def log(broker_id: int) -> bytes:
        folder = cluster.brokers[broker_id].data / "copied-0"
        return b"".join(file.read_bytes() for file in folder.glob("*.log"))

    wait_for(lambda: b"precious" in log(1) and log(1) == log(2), "the record on both")


def test_who_comes_in_by_which_door_sees_what_the_rules_allow(
    cluster: Cluster, certificates: Certificates
) -> None:
    authority = tls(certificates)
    admin = by_sasl(cluster, "PLAIN", "PLAIN", "admin", USERS["admin"])
    for topic in ("alice-orders", "alice-secret", "orders"):
        assert create(admin, topic) is None
    wait_for(lambda: {"alice-orders", "orders"} <= topics(admin), "the topics")

    for listener in ("PLAIN", "CLOSED"):
        others = authority if listener == "CLOSED" else {}
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            alice = by_sasl(cluster, listener, mechanism, "alice", USERS["alice"], **others)
            assert topics(alice) == {"alice-orders"}, (listener, mechanism)
            assert create(alice, "orders-too") == "TOPIC_AUTHORIZATION_FAILED"

    certified = client(cluster, "CERTIFIED", security_protocol="SSL", **tls(certificates, "alice"))
    assert topics(certified) == {"alice-orders"}
    assert create(certified, "alice-invoices") is None

    nobody = client(cluster, "OPEN")
    assert topics(nobody) == set()
    assert create(nobody, "alice-more") == "TOPIC_AUTHORIZATION_FAILED"


class Outsider:
    """A client that ought not to come in, and the error that it gets."""

    def __init__(
        self, expected: set[str], make: Callable[..., Any], *who: Any, **config: Any
    ) -> None:
        self.expected = expected
        self.heard: set[str] = set()
        self._admin = make(*who, error_cb=lambda error: self.heard.add(error.name()), **config)

    def is_told(self) -> bool:
        """Whether it got the reason."""
        self._admin.poll(0)
        return bool(self.heard & self.expected)


async def ask_in_the_clear(peer: str) -> None:
    """Asks for metadata without a word of who asks."""
    host, _, port = peer.rpartition(":")
    connection = await Connection.open(host, int(port), client_id="test")
    try:
        await connection.request(MetadataRequest(topics=None))
    finally:
        await connection.close()


def test_who_has_no_key_stays_outside(cluster: Cluster, certificates: Certificates) -> None:
    authority = tls(certificates)
    outsiders = [
        Outsider({"_AUTHENTICATION"}, by_sasl, cluster, listener, mechanism, *login, **others)
        for listener, others in (("PLAIN", {}), ("CLOSED", authority))
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        for login in (("alice", WRONG), ("mallory", USERS["alice"]))
    ]
    no_key = {"security_protocol": "SSL", **authority}
    outsiders += [
        Outsider({"_TRANSPORT", "_SSL"}, client, cluster, "CERTIFIED", **no_key),
        Outsider({"_TRANSPORT", "_SSL"}, client, cluster, "OPEN", **no_key),
        Outsider(
            {"_TRANSPORT", "_SSL"},
            client,
            cluster,
            "CERTIFIED",
            security_protocol="SSL",
            **tls(certificates, "stranger"),
        ),
    ]

    for outsider in outsiders:
        wait_for(outsider.is_told, f"{outsider.expected}")
    for listener in ("PLAIN", "CLOSED", "CERTIFIED"):
        with pytest.raises(ConnectionError):
            asyncio.run(ask_in_the_clear(address(cluster, 1, listener)))

    server_log = cluster.brokers[1].log()
    assert "Failed authentication with /127.0.0.1 (listener PLAIN)" in server_log
    secrets = (BROKER_PASSWORD, *USERS.values(), WRONG, "storepass", "BEGIN", "stored_key")
    for broker in cluster.brokers.values():
        for log in broker.logs.iterdir():
            assert not [secret for secret in secrets if secret in log.read_text()], log


def test_rules_and_credentials_are_changed_on_the_wire_and_count_on_every_broker(
    cluster: Cluster,
) -> None:
    admin = by_sasl(cluster, "PLAIN", "PLAIN", "admin", USERS["admin"])
    bob = {"listener": "PLAIN", "mechanism": "SCRAM-SHA-256", "user": "bob", "password": "bobs"}
    credential = kafka_admin.UserScramCredentialUpsertion(
        "bob",
        kafka_admin.ScramCredentialInfo(kafka_admin.ScramMechanism.SCRAM_SHA_256, 4096),
        b"bobs",
    )
    rule = kafka_admin.AclBinding(
        kafka_admin.ResourceType.TOPIC,
        "shared",
        kafka_admin.ResourcePatternType.LITERAL,
        "User:bob",
        "*",
        kafka_admin.AclOperation.READ,
        kafka_admin.AclPermissionType.ALLOW,
    )
    assert create(admin, "shared") is None
    wait_for(lambda: "shared" in topics(admin), "the topic")

    admin.alter_user_scram_credentials([credential])["bob"].result(TIMEOUT_S)
    described = admin.describe_user_scram_credentials(["bob"])["bob"].result(TIMEOUT_S)
    admin.create_acls([rule])[rule].result(TIMEOUT_S)

    assert [info.iterations for info in described.scram_credential_infos] == [4096]
    for broker_id in cluster.brokers:
        wait_for(partial(sees, cluster, broker_id, {"shared"}, bob), f"broker {broker_id}")

    wanted = kafka_admin.AclBindingFilter(
        kafka_admin.ResourceType.ANY,
        None,
        kafka_admin.ResourcePatternType.ANY,
        "User:bob",
        None,
        kafka_admin.AclOperation.ANY,
        kafka_admin.AclPermissionType.ANY,
    )
    assert admin.describe_acls(wanted).result(TIMEOUT_S) == [rule]
    assert admin.delete_acls([wanted])[wanted].result(TIMEOUT_S) == [rule]
    for broker_id in cluster.brokers:
        wait_for(partial(sees, cluster, broker_id, set(), bob), f"broker {broker_id}")


def sees(cluster: Cluster, broker_id: int, expected: set[str], who: Mapping[str, str]) -> bool:
    servers = address(cluster, broker_id, "PLAIN")
    try:
        return topics(by_sasl(cluster, bootstrap_servers=servers, **who)) == expected
    except KafkaException:
        return False  # the credential has not come to that broker yet


@pytest.mark.parametrize(
    ("listener", "mechanism"),
    [("PLAIN", "PLAIN"), ("PLAIN", "SCRAM-SHA-256"), ("CLOSED", "SCRAM-SHA-512")],
)
def test_kafka_python_comes_in_with_the_right_password_only(
    cluster: Cluster, certificates: Certificates, listener: str, mechanism: str
) -> None:
    kafka: Any = pytest.importorskip("kafka")
    errors: Any = pytest.importorskip("kafka.errors")
    config = {
        "bootstrap_servers": address(cluster, 1, listener),
        "security_protocol": "SASL_SSL" if listener == "CLOSED" else "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "alice",
        "ssl_cafile": certificates.path("trusted.pem"),
    }

    topic = f"alice-{listener}-{mechanism}"
    admin = by_sasl(cluster, "PLAIN", "PLAIN", "admin", USERS["admin"])
    assert create(admin, topic) is None
    assert create(admin, f"not-{topic}") is None

    alice = kafka.KafkaAdminClient(sasl_plain_password=USERS["alice"], **config)
    try:
        wait_for(lambda: topic in alice.list_topics(), "the topic")
        assert all(each.startswith("alice-") for each in alice.list_topics())
    finally:
        alice.close()
    refused = kafka.KafkaAdminClient.__new__(kafka.KafkaAdminClient)
    with pytest.raises(errors.KafkaError):
        refused.__init__(sasl_plain_password=WRONG, bootstrap_timeout_ms=2_000, **config)
    refused._closed = False  # else close() would leave the thread that the constructor started
    refused.close()
