"""The files by which Kafka's tools connect are read alike by ``zkctl``: the same is seen by both.

A broker of ours and one of Kafka's share a ZooKeeper behind TLS, which each reaches by the same
keys in its ``server.properties``.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.model import Endpoint
from tests.integration.secured_cluster import (
    USERS,
    Certificates,
    broker_properties,
    write_rules,
    write_users,
)
from tests.integration.secured_zookeeper import SecuredZooKeeper, secured_zookeeper
from tests.peers.cluster import TOPIC_COMMAND, Cluster
from tests.support.cli_world import zkctl_here
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.znodes import BrokerIdZnode

pytestmark = [pytest.mark.peers, pytest.mark.usefixtures("kafka")]

OURS, KAFKA = 1, 2
CONFIG_COMMAND: Final = "kafka.admin.ConfigCommand"
CHROOT: Final = "/files"
_MODULES: Final = "org.apache.kafka.common.security"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    (tmp_path / "certificates").mkdir()
    made = Certificates.make(tmp_path / "certificates")
    (made.directory / "alice.p12").write_bytes(made.alice.pkcs12("storepass"))
    keytool(
        "-importkeystore", "-srckeystore", made.path("alice.p12"), "-srcstorepass", "storepass",
        "-destkeystore", made.path("alice.jks"), "-deststoretype", "JKS",
        "-deststorepass", "jkspass", "-srcalias", "kafka", "-destkeypass", "keypass",
    )  # fmt: skip
    keytool(
        "-importcert", "-noprompt", "-alias", "authority", "-file", made.path("trusted.pem"),
        "-keystore", made.path("trusted.jks"), "-storetype", "JKS", "-storepass", "trustpass",
    )  # fmt: skip
    return made


def keytool(*arguments: str) -> None:
    done = subprocess.run(["keytool", *arguments], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def zookeeper_behind_tls(tmp_path: Path) -> Iterator[SecuredZooKeeper]:
    (tmp_path / "secured").mkdir()
    with secured_zookeeper(tmp_path / "secured") as server:
        yield server


@pytest.fixture
def mixed(
    tmp_path: Path, zookeeper_behind_tls: SecuredZooKeeper, certificates: Certificates
) -> Iterator[Cluster]:
    """Ours is the controller at first; a topic that alice sees, and one that she does not."""
    server = zookeeper_behind_tls
    cluster = Cluster(server.plain + CHROOT, tmp_path)
    try:
        write_users(cluster.session)
        write_rules(cluster.session)
        properties = {
            **broker_properties(certificates),
            **server.certified(),
            "zookeeper.connect": server.secure + CHROOT,
            "zookeeper.set.acl": "true",
            # The first TLS connection of a young JVM takes seconds on a busy machine.
            "zookeeper.connection.timeout.ms": "30000",
        }
        cluster.start_ours(OURS, properties)
        cluster.start_kafka(KAFKA, properties)
        yield cluster
    finally:
        cluster.close()


def endpoint(cluster: Cluster, broker_id: int, listener: str) -> str:
    found = cluster.session.read(BrokerIdZnode.path(broker_id))
    assert not isinstance(found, ZkCode)
    registered = BrokerIdZnode.decode(broker_id, found.data).broker.endpoint(listener)
    assert isinstance(registered, Endpoint)
    return f"{registered.host}:{registered.port}"


def client_files(certificates: Certificates) -> dict[str, str]:
    """Listener to a file for it, in Kafka's words."""
    trusting = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": certificates.path("trusted.pem"),
    }
    properties = {
        "PLAIN": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": f"{_MODULES}.plain.PlainLoginModule required \\\n"
            f'  username="alice" password="{USERS["alice"]}";',
        },
        "CLOSED": {
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": "SCRAM-SHA-256",
            "sasl.jaas.config": f"{_MODULES}.scram.ScramLoginModule required \\\n"
            f"  username='alice' password='{USERS['alice']}';",
            **trusting,
        },
        "CERTIFIED": {
            "security.protocol": "SSL",
            # Of the type that Kafka takes where none is given.
            "ssl.keystore.location": certificates.path("alice.jks"),
            "ssl.keystore.password": "jkspass",
            "ssl.key.password": "keypass",
            "ssl.truststore.location": certificates.path("trusted.jks"),
            "ssl.truststore.password": "trustpass",
        },
    }
    for listener, pairs in properties.items():
        path = certificates.directory / f"{listener}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in pairs.items()))
    return {listener: certificates.path(f"{listener}.properties") for listener in properties}


def test_one_file_does_for_kafkas_tools_and_for_zkctl(
    mixed: Cluster,
    certificates: Certificates,
    zookeeper_behind_tls: SecuredZooKeeper,
    tmp_path: Path,
) -> None:
    files = client_files(certificates)
    created = zkctl_here(
        "-b", endpoint(mixed, KAFKA, "CLOSED"), "--command-config", files["CLOSED"],
        "topic", "create", "alice-orders", "--partitions", "1", "--replication-factor", "2",
    )  # fmt: skip
    assert created.exit_code == 0, created.stderr

    def listed_by_kafka(listener: str) -> str:
        told = run_kafka_tool(
            TOPIC_COMMAND,
            "--bootstrap-server", endpoint(mixed, OURS, listener),
            "--command-config", files[listener],
            "--list",
        )  # fmt: skip
        assert told.returncode == 0, told.stderr
        return told.stdout

    with ThreadPoolExecutor(2) as tools:
        by_kafka = dict(zip(files, tools.map(listed_by_kafka, files), strict=True))
    assert set(by_kafka.values()) == {"alice-orders\n"}
    for listener, file in files.items():
        for broker_id in (OURS, KAFKA):
            result = zkctl_here(
                "-b", endpoint(mixed, broker_id, listener), "--command-config", file,
                "topic", "list", "-o", "name",
            )  # fmt: skip
            assert result.stdout == by_kafka[listener], (listener, broker_id, result.stderr)

    tls_file = tmp_path / "zookeeper.properties"
    keys = zookeeper_behind_tls.certified()
    tls_file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    where = zookeeper_behind_tls.secure + CHROOT
    described = run_kafka_tool(
        CONFIG_COMMAND,
        "--zookeeper", where,
        "--zk-tls-config-file", str(tls_file),
        "--describe", "--entity-type", "users", "--entity-name", "alice",
    )  # fmt: skip
    assert described.returncode == 0, described.stderr
    shown = zkctl_here(
        "-z", where, "--zk-tls-config-file", str(tls_file),
        "-o", "json", "znode", "get", "/config/users/alice",
    )  # fmt: skip
    assert shown.exit_code == 0, shown.stderr
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        assert mechanism in described.stdout
        assert mechanism in shown.stdout
    # The brokers' certificate lets zkctl delete /controller, whichever broker created it.
    elected = zkctl_here(
        "-z", where, "--zk-tls-config-file", str(tls_file), "controller", "elect", "--yes"
    )
    assert elected.exit_code == 0, elected.stderr
