"""A broker of ours and one of Kafka's, secured by the same properties: the same come in to both.

They are one cluster, so each also logs in at the other.
"""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.net.client_security import ClientSecurity, Credentials
from kafka_common.net.connection import Connection
from tests.integration.secured_cluster import (
    USERS,
    Certificates,
    broker_properties,
    in_a_jaas_file,
    write_rules,
    write_users,
)
from tests.peers.cluster import TOPIC_COMMAND, Cluster
from tests.peers.endpoints import endpoint
from tests.support.guarded_world import cluster_requests, creation

pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on the PATH"),
]
OURS, KAFKA = 1, 2
ACL_COMMAND: Final = "kafka.admin.AclCommand"
CONFIG_COMMAND: Final = "kafka.admin.ConfigCommand"
REFUSED: Final = "refused"
SIDE_BY_SIDE: Final = 8
SEEN_BY_ALICE: Final = frozenset({"alice-orders"})


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(params=["properties", "jaas file"])
def logins(request: pytest.FixtureRequest) -> str:
    """Where the brokers' logins stand."""
    where: str = request.param
    return where


@pytest.fixture
def secured(
    cluster: Cluster,
    certificates: Certificates,
    logins: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Cluster:
    """Ours is the controller at first; three topics."""
    write_users(cluster.session)
    write_rules(cluster.session)
    properties = broker_properties(certificates)
    if logins == "jaas file":
        properties = in_a_jaas_file(properties, tmp_path / "jaas.conf")
        for variable in ("KAFKA_OPTS", "JAVA_TOOL_OPTIONS"):
            option = f"-Djava.security.auth.login.config={tmp_path / 'jaas.conf'}"
            monkeypatch.setenv(variable, option)
    cluster.start_ours(OURS, properties)
    cluster.start_kafka(KAFKA, properties)
    for topic in ("alice-orders", "alice-secret", "orders"):
        created = java_topics(cluster, OURS, certificates, "--create", "--topic", topic)
        assert created.returncode == 0, created.stdout + created.stderr
    for broker_id in (OURS, KAFKA):
        everything = frozenset({"alice-orders", "alice-secret", "orders"})
        wait(cluster, broker_id, everything)
    return cluster


def wait(cluster: Cluster, broker_id: int, topics: frozenset[str]) -> None:
    admin = sasl("PLAIN", "admin", USERS["admin"])
    cluster.wait_until(
        lambda: kcat(endpoint(cluster, broker_id, "PLAIN"), *admin) == topics,
        f"broker {broker_id} shows {topics}",
    )


def kcat(bootstrap: str, *options: str) -> frozenset[str] | str:
    """The topics that kcat sees; REFUSED if it does not come in."""
    arguments = [part for option in options for part in ("-X", option)]
    listed = subprocess.run(
        ["kcat", "-L", "-m", "4", "-b", bootstrap, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if listed.returncode != 0:
        return REFUSED
    lines = (line.strip() for line in listed.stdout.splitlines())
    return frozenset(line.split('"')[1] for line in lines if line.startswith('topic "'))


def sasl(mechanism: str, user: str, password: str, *, tls: tuple[str, ...] = ()) -> tuple[str, ...]:
    return (
        f"security.protocol=SASL_{'SSL' if tls else 'PLAINTEXT'}",
        f"sasl.mechanism={mechanism}",
        f"sasl.username={user}",
        f"sasl.password={password}",
        *tls,
    )


def matrix(certificates: Certificates) -> dict[tuple[str, ...], tuple[str, tuple[str, ...], Any]]:
    """What is tried: name to listener, kcat's options, and what it should see."""
    trusted = (f"ssl.ca.location={certificates.path('trusted.pem')}",)
    tried: dict[tuple[str, ...], tuple[str, tuple[str, ...], Any]] = {}
    for listener, tls in (("PLAIN", ()), ("CLOSED", trusted)):
        for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
            for user, password, seen in (
                ("alice", USERS["alice"], SEEN_BY_ALICE),
                ("alice", "wrong", REFUSED),
                ("mallory", USERS["alice"], REFUSED),
            ):
                login = sasl(mechanism, user, password, tls=tls)
                tried[listener, mechanism, user, password] = (listener, login, seen)
        tried[listener, "nothing said"] = (listener, (), REFUSED)
        unknown = sasl("OAUTHBEARER", "alice", "x", tls=tls)
        tried[listener, "OAUTHBEARER"] = (
            listener,
            (*unknown, "enable.sasl.oauthbearer.unsecure.jwt=true"),
            REFUSED,
        )
    for name, seen in (("alice", SEEN_BY_ALICE), ("stranger", REFUSED), ("", REFUSED)):
        pem = certificates.path(f"{name}.pem")
        shown = (f"ssl.certificate.location={pem}", f"ssl.key.location={pem}") if name else ()
        options = ("security.protocol=SSL", *trusted, *shown)
        tried["CERTIFIED", name] = ("CERTIFIED", options, seen)
    tried["OPEN", "anonymous"] = ("OPEN", (), frozenset())
    return tried


def java_properties(certificates: Certificates, user: str, directory: Path) -> str:
    """The client configuration of Kafka's tools: SCRAM over TLS."""
    path = directory / f"{user}.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        "sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{user}" password="{USERS[user]}";\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.path('trusted.pem')}\n"
    )
    return str(path)


def java(
    cluster: Cluster,
    broker_id: int,
    certificates: Certificates,
    tool: str,
    *arguments: str,
    user: str = "admin",
) -> subprocess.CompletedProcess[str]:
    return run_kafka_tool(
        tool,
        "--bootstrap-server",
        endpoint(cluster, broker_id, "CLOSED"),
        "--command-config",
        java_properties(certificates, user, certificates.directory),
        *arguments,
        timeout_s=120,
    )


def java_topics(
    cluster: Cluster,
    broker_id: int,
    certificates: Certificates,
    *arguments: str,
    user: str = "admin",
) -> subprocess.CompletedProcess[str]:
    return java(cluster, broker_id, certificates, TOPIC_COMMAND, *arguments, user=user)


async def codes(cluster: Cluster, broker_id: int) -> list[tuple[str, Any]]:
    """The error codes that a user without rights gets from every API about the cluster."""
    host, _, port = endpoint(cluster, broker_id, "PLAIN").rpartition(":")
    alice = ClientSecurity(None, Credentials("PLAIN", "alice", USERS["alice"]))
    connection = await Connection.open(host, int(port), client_id="peers", security=alice)
    heard = []
    try:
        for request in cluster_requests():
            response: Any = await connection.request(request)
            heard.append((type(request).__name__, response.error_code))
        if broker_id == OURS:
            created: Any = await connection.request(creation("alice-new", "new"))
            heard += [(topic.name, topic.error_code) for topic in created.topics]
    finally:
        await connection.close()
    return heard


def test_the_same_come_in_and_see_the_same(secured: Cluster, certificates: Certificates) -> None:
    tried = matrix(certificates)

    # Who is refused tries until its time is over, so all try at once.
    with ThreadPoolExecutor(SIDE_BY_SIDE) as executor:
        running = {
            broker_id: {
                name: executor.submit(kcat, endpoint(secured, broker_id, listener), *options)
                for name, (listener, options, _) in tried.items()
            }
            for broker_id in (OURS, KAFKA)
        }
    seen = {
        broker_id: {name: future.result() for name, future in futures.items()}
        for broker_id, futures in running.items()
    }

    assert seen[OURS] == {name: expected for name, (_, _, expected) in tried.items()}
    assert seen[OURS] == seen[KAFKA]

    ours, kafka = (asyncio.run(codes(secured, broker_id)) for broker_id in (OURS, KAFKA))
    assert ours[: len(kafka)] == kafka

    for broker_id in (OURS, KAFKA):
        listed = java_topics(secured, broker_id, certificates, "--list", user="alice")
        assert listed.stdout.split() == ["alice-orders"], listed.stderr
        denied = java_topics(
            secured, broker_id, certificates, "--delete", "--topic", "alice-secret", user="alice"
        )
        assert denied.returncode == 1


@pytest.mark.parametrize("logins", ["properties"])
def test_rules_and_users_of_either_side_count_on_both(
    secured: Cluster, certificates: Certificates
) -> None:
    bob = sasl("SCRAM-SHA-256", "bob", "bobs-secret")
    rule = ("--allow-principal", "User:bob", "--operation", "Describe")

    # Users: one by Kafka's tool straight into ZooKeeper, as before a cluster's first start.
    configured = run_kafka_tool(
        CONFIG_COMMAND, "--zookeeper", secured.zookeeper, "--alter", "--entity-type", "users",
        "--entity-name", "bob", "--add-config", "SCRAM-SHA-256=[password=bobs-secret]",
        timeout_s=120,
    )  # fmt: skip
    assert configured.returncode == 0, configured.stdout + configured.stderr
    for broker_id, name in ((OURS, "orders"), (KAFKA, "alice-orders")):
        added = java(secured, broker_id, certificates, ACL_COMMAND, "--add", *rule, "--topic", name)
        assert added.returncode == 0, added.stdout + added.stderr

    for broker_id in (OURS, KAFKA):
        bootstrap = endpoint(secured, broker_id, "PLAIN")
        secured.wait_until(
            partial(sees, bootstrap, frozenset({"orders", "alice-orders"}), bob),
            f"broker {broker_id} knows bob and both rules",
        )
    lists = [
        java(secured, broker_id, certificates, ACL_COMMAND, "--list", "--principal", "User:bob")
        for broker_id in (OURS, KAFKA)
    ]
    assert sorted(lists[0].stdout.split("\n")) == sorted(lists[1].stdout.split("\n"))
    assert "ResourcePattern(resourceType=TOPIC, name=orders" in lists[0].stdout

    removed = java(
        secured, KAFKA, certificates, ACL_COMMAND, "--remove", "--force", *rule, "--topic", "orders"
    )
    assert removed.returncode == 0, removed.stdout + removed.stderr
    secured.wait_until(
        partial(sees, endpoint(secured, OURS, "PLAIN"), frozenset({"alice-orders"}), bob),
        "ours forgets the rule",
    )


def sees(bootstrap: str, expected: frozenset[str], who: tuple[str, ...]) -> bool:
    return kcat(bootstrap, *who) == expected


@pytest.mark.parametrize("logins", ["jaas file"])
def test_either_controls_the_other_over_tls_and_scram(
    secured: Cluster, certificates: Certificates
) -> None:
    secured.brokers[OURS].stop()
    secured.wait_until(lambda: secured.live_brokers() == {KAFKA}, "ours leaves")
    created = java_topics(secured, KAFKA, certificates, "--create", "--topic", "orders-2")
    assert created.returncode == 0, created.stdout + created.stderr

    secured.start_ours(OURS, broker_properties(certificates))

    # Our broker has its metadata from Kafka's controller now.
    everything = frozenset({"alice-orders", "alice-secret", "orders", "orders-2"})
    wait(secured, OURS, everything)
