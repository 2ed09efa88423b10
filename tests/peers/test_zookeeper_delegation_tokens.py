"""Delegation tokens in ZooKeeper: a broker of ours and one of Kafka's know the same tokens.

Kafka's own tool creates, describes, renews and ends them at either, and Kafka's client logs in at
either by a token that the other has created.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Final

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from tests.integration.secured_cluster import (
    USERS,
    Certificates,
    broker_properties,
    write_rules,
    write_users,
)
from tests.peers.cluster import TOPIC_COMMAND, Cluster
from tests.peers.endpoints import endpoint
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode, TokenChangeZnode
from zkcontroller.zookeeper.requests import ListChildren, ReadZnodes, ZkCode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]
OURS, KAFKA = 1, 2
TOKEN_COMMAND: Final = "org.apache.kafka.tools.DelegationTokenCommand"
OF_ADMIN: Final = ("--owner-principal", "User:admin")
"""Without this option the tool describes no token."""
SECRET: Final = "opensesame-0451"
_MODULE: Final = "org.apache.kafka.common.security.scram.ScramLoginModule required"


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.make(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def secured(cluster: Cluster, certificates: Certificates) -> Cluster:
    write_users(cluster.session)
    write_rules(cluster.session)
    properties = broker_properties(certificates, **{"delegation.token.secret.key": SECRET})
    cluster.start_ours(OURS, properties)
    cluster.start_kafka(KAFKA, properties)
    return cluster


def login(certificates: Certificates, name: str, password: str, *, is_token: bool = False) -> str:
    """A client configuration: SCRAM over TLS."""
    token = ' tokenauth="true"' if is_token else ""
    path = certificates.directory / f"login-{abs(hash((name, is_token)))}.properties"
    path.write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f'sasl.jaas.config={_MODULE} username="{name}" password="{password}"{token};\n'
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificates.path('trusted.pem')}\n"
    )
    return str(path)


def run(
    cluster: Cluster, broker_id: int, config: str, tool: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    return run_kafka_tool(
        tool,
        "--bootstrap-server",
        endpoint(cluster, broker_id, "CLOSED"),
        "--command-config",
        config,
        *arguments,
        timeout_s=120,
    )


def create(cluster: Cluster, broker_id: int, config: str, *more: str) -> tuple[str, str]:
    """Id and HMAC of a new token."""
    made = run(
        cluster, broker_id, config, TOKEN_COMMAND, "--create", "--max-life-time-period", "-1", *more
    )
    found = re.search(r"^([\w-]{22})\s+(\S+==)\s+User:", made.stdout, re.MULTILINE)
    assert found is not None, made.stdout + made.stderr
    return found[1], found[2]


def znodes(cluster: Cluster) -> dict[str, bytes]:
    """Token id to its znode."""
    (names,) = cluster.session.perform(ListChildren([DelegationTokenZnode.ROOT]))
    assert not isinstance(names, ZkCode)
    paths = [DelegationTokenZnode.path(name) for name in names]
    found = {}
    for name, znode in zip(names, cluster.session.perform(ReadZnodes(paths)), strict=True):
        assert not isinstance(znode, ZkCode)
        found[name] = znode.data
    return found


def test_both_create_renew_end_and_log_in_by_the_same_tokens(
    secured: Cluster, certificates: Certificates, tmp_path: Path
) -> None:
    assert tmp_path.is_dir()
    admin = login(certificates, "admin", USERS["admin"])
    tokens = {
        broker_id: create(secured, broker_id, admin, "--renewer-principal", "User:alice")
        for broker_id in (OURS, KAFKA)
    }

    # The znodes are equal byte for byte, but for ids and times.
    for token_id, data in znodes(secured).items():
        path = DelegationTokenZnode.path(token_id)
        assert DelegationTokenZnode.decode(path, data).encode() == data
    (notes,) = secured.session.perform(ListChildren([TokenChangeZnode.ROOT]))
    assert not isinstance(notes, ZkCode)
    assert sorted(notes) == ["token_change_0000000000", "token_change_0000000001"]

    # Each knows the other's.
    for broker_id, other in ((OURS, KAFKA), (KAFKA, OURS)):
        described = run(secured, broker_id, admin, TOKEN_COMMAND, "--describe", *OF_ADMIN)
        assert tokens[other][0] in described.stdout, described.stdout + described.stderr
        token = login(certificates, *tokens[other], is_token=True)
        listed = run(secured, broker_id, token, TOPIC_COMMAND, "--list")
        assert listed.returncode == 0, listed.stdout + listed.stderr
        # No token by a token.
        begotten = run(
            secured, broker_id, token, TOKEN_COMMAND, "--create", "--max-life-time-period", "-1"
        )
        assert "Delegation Token requests are not allowed" in begotten.stdout + begotten.stderr

    # The renewer renews a token at the other broker, and its owner expires it there.
    alice = login(certificates, "alice", USERS["alice"])
    for broker_id, other in ((OURS, KAFKA), (KAFKA, OURS)):
        renewed = run(
            secured, broker_id, alice, TOKEN_COMMAND,
            "--renew", "--renew-time-period", "-1", "--hmac", tokens[other][1],
        )  # fmt: skip
        assert renewed.returncode == 0, renewed.stdout + renewed.stderr
        ended = run(
            secured, broker_id, admin, TOKEN_COMMAND,
            "--expire", "--expiry-time-period", "-1", "--hmac", tokens[other][1],
        )  # fmt: skip
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert znodes(secured) == {}
    gone = login(certificates, *tokens[KAFKA], is_token=True)
    for broker_id in (OURS, KAFKA):
        refused = run(secured, broker_id, gone, TOPIC_COMMAND, "--list")
        assert "invalid credentials with SASL mechanism SCRAM-SHA-512" in refused.stdout
