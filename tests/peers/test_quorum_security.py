"""A quorum of ours and Kafka's over TLS and SASL, with an authorizer, and a broker of Kafka's."""

from __future__ import annotations

import signal
import ssl
import subprocess
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from cryptography.x509.oid import NameOID

from benchmarks.kafka_peer import run_kafka_tool
from kafka_common.net.client_security import ClientSecurity, Credentials
from kraft.metadata.metadata_batches import iterate_records_of
from kraft.metadata.records import RegisterControllerRecord
from tests.peers.quorum_cluster import MixedQuorum, RealBroker, committed
from tests.support.certificates import Authority

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

KAFKA: Final = 1
OURS: Final = (2, 3)
PATIENCE_S: Final = 60.0
CREATED: Final = (None, "TOPIC_ALREADY_EXISTS")
REFUSED: Final = "TOPIC_AUTHORIZATION_FAILED"
ACL_COMMAND: Final = "kafka.admin.AclCommand"
QUORUM_COMMAND: Final = "org.apache.kafka.tools.MetadataQuorumCommand"
PASSWORDS: Final = {user: f"{user}-secret-0451" for user in ("controller", "admin", "alice")}
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
_LOGIN: Final = (
    f'{_PLAIN} username="controller" password="{PASSWORDS["controller"]}" '
    + " ".join(f'user_{user}="{password}"' for user, password in PASSWORDS.items())
    + ";"
)
_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic


class SecuredCluster:
    """Two controllers of ours, one of Kafka's, and a broker of Kafka's."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._trusted, properties = _of_all(directory)
        tls = ssl.create_default_context(cafile=str(self._trusted))
        admin = Credentials("PLAIN", "admin", PASSWORDS["admin"])
        self.quorum = MixedQuorum(
            directory / "quorum", OURS, dict(properties), ClientSecurity(tls, admin)
        )
        self.broker = RealBroker(
            directory / "broker",
            11,
            self.quorum,
            {
                **properties,
                "listeners": "SASL_PLAINTEXT://127.0.0.1:{port}",
                "security.inter.broker.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism.inter.broker.protocol": "PLAIN",
                "listener.name.sasl_plaintext.plain.sasl.jaas.config": _LOGIN,
                "offsets.topic.replication.factor": "1",
            },
        )
        self._admins: dict[str, Any] = {}
        # At first 2 leads, for the others wait; when it has died, Kafka's is the first to try.
        for node_id, election_ms, fetch_ms in ((KAFKA, 5_000, 2_000), (3, 15_000, 15_000)):
            with self.quorum.voters[node_id].file.open("a") as file:
                file.write(f"controller.quorum.election.timeout.ms={election_ms}\n")
                file.write(f"controller.quorum.fetch.timeout.ms={fetch_ms}\n")

    def close(self) -> None:
        if self.broker.process is not None and self.broker.process.poll() is None:
            self.broker.end(signal.SIGKILL)
        self.quorum.close()

    def acls(self, user: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Kafka's tool for rules, by way of the broker."""
        where = ("--bootstrap-server", self.bootstrap)
        return run_kafka_tool(ACL_COMMAND, *where, *self._as(user, "SASL_PLAINTEXT"), *arguments)

    def described(self, node_id: int, user: str) -> subprocess.CompletedProcess[str]:
        """Kafka's tool for quorums, straight to a controller."""
        where = ("--bootstrap-controller", f"127.0.0.1:{self.quorum.ports[node_id]}")
        who = self._as(user, "SASL_SSL")
        return run_kafka_tool(QUORUM_COMMAND, *where, *who, "describe", "--status")

    def _as(self, user: str, protocol: str) -> tuple[str, str]:
        file = self._directory / f"{user}-{protocol}.properties"
        file.write_text(
            f"security.protocol={protocol}\nsasl.mechanism=PLAIN\n"
            f'sasl.jaas.config={_PLAIN} username="{user}" password="{PASSWORDS[user]}";\n'
            f"ssl.truststore.type=PEM\nssl.truststore.location={self._trusted}\n"
        )
        return "--command-config", str(file)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.broker.port}"

    def _admin(self, user: str) -> Any:
        """One that lasts, made once there is a broker: else it would be long in asking again."""
        if user not in self._admins:
            self._admins[user] = _admin.AdminClient(
                {
                    "bootstrap.servers": self.bootstrap,
                    "security.protocol": "SASL_PLAINTEXT",
                    "sasl.mechanism": "PLAIN",
                    "sasl.username": user,
                    "sasl.password": PASSWORDS[user],
                    "log_level": 0,
                }
            )
        return self._admins[user]

    def has_broker(self) -> bool:
        try:
            return bool(self._admin("admin").list_topics(timeout=5).brokers)
        except KafkaException:
            del self._admins["admin"]
            return False

    def create(self, user: str, topic: str) -> str | None:
        """Creates a topic as that user; what stands against it."""
        new = _admin.NewTopic(topic, 1, 1)
        try:
            self._admin(user).create_topics([new])[topic].result(PATIENCE_S)
        except KafkaException as refused:
            name: str = refused.args[0].name()
            return name
        return None

    def allow_alice(self, *topics: str) -> None:
        """Alice may create these topics."""
        bindings = [
            _admin.AclBinding(
                _admin.ResourceType.TOPIC,
                topic,
                _admin.ResourcePatternType.LITERAL,
                "User:alice",
                "*",
                _admin.AclOperation.CREATE,
                _admin.AclPermissionType.ALLOW,
            )
            for topic in topics
        ]
        for verdict in self._admin("admin").create_acls(bindings).values():
            verdict.result(PATIENCE_S)

    def wait_until(self, condition: Callable[[], bool], what: str) -> None:
        self.quorum.wait_until(condition, what)


def _of_all(directory: Path) -> tuple[Path, Mapping[str, str]]:
    """Who is trusted, and what is said to every node."""
    authority = Authority()
    trusted = directory / "trusted.pem"
    trusted.write_text(authority.identity.certificate_pem)
    node = authority.sign((NameOID.COMMON_NAME, "node"), hosts=True)
    return trusted, {
        "listener.security.protocol.map": "CONTROLLER:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(node.write(directory, "node")),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.controller.protocol": "PLAIN",
        "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:controller;User:admin",
    }


@pytest.fixture(scope="module")
def cluster(
    kafka: Path,  # noqa: ARG001 - skips the test without Kafka
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[SecuredCluster]:
    made = SecuredCluster(tmp_path_factory.mktemp("secured"))
    try:
        # Kafka's node, which waits without jitter, would stand first: ours shall lead.
        made.quorum.start(*OURS)
        made.quorum.leader()
        made.quorum.start(KAFKA)
        made.broker.start()
        yield made
        for voter in made.quorum.voters.values():
            assert not voter.has_died, voter.obituary()
    finally:
        made.close()


def test_kafkas_tools_change_rules_at_a_controller_of_ours(cluster: SecuredCluster) -> None:
    assert cluster.quorum.leader() in OURS
    rule = ("--allow-principal", "User:alice", "--operation", "Create", "--topic", "hers")
    cluster.wait_until(cluster.has_broker, "a broker is there")
    assert cluster.create("admin", "orders") is None
    assert cluster.create("alice", "hers") == REFUSED

    added = cluster.acls("admin", "--add", *rule)
    assert added.returncode == 0, added.stdout + added.stderr
    cluster.wait_until(lambda: cluster.create("alice", "hers") in CREATED, "the rule counts")
    assert cluster.create("alice", "theirs") == REFUSED
    listed = cluster.acls("admin", "--list", "--topic", "hers")
    assert "principal=User:alice, host=*, operation=CREATE, permissionType=ALLOW" in listed.stdout

    removed = cluster.acls("admin", "--remove", "--force", "--topic", "hers")
    assert removed.returncode == 0, removed.stdout + removed.stderr
    cluster.wait_until(lambda: cluster.create("alice", "hers") == REFUSED, "the rule is gone")


def test_kafkas_tools_log_in_at_a_controller_of_ours(cluster: SecuredCluster) -> None:
    leader = cluster.quorum.leader()
    assert leader in OURS

    told = cluster.described(leader, "admin")

    assert f"LeaderId:               {leader}" in told.stdout, told.stdout + told.stderr


def test_a_secured_quorum_is_led_by_kafkas_controller_too(cluster: SecuredCluster) -> None:
    quorum = cluster.quorum
    cluster.allow_alice("hers", "theirs")
    quorum.wait_until_all_follow()

    quorum.voters[quorum.leader()].kill()

    assert quorum.leader() == KAFKA
    cluster.wait_until(lambda: cluster.create("alice", "theirs") in CREATED, "what was said counts")
    assert cluster.create("alice", "orders-2") == REFUSED
    high_watermark = quorum.grow(2)
    cluster.wait_until(
        lambda: (
            committed(quorum.voters[3], high_watermark)
            == committed(quorum.voters[KAFKA], high_watermark)
        ),
        "the logs are equal",
    )
    assert committed(quorum.voters[KAFKA], high_watermark)
    assert set(quorum.voters[3].leaders().values()) >= {2, KAFKA}
    # Each controller, ours and Kafka's, has logged in at the active one and registered.
    data = committed(quorum.voters[3], high_watermark)
    registered = iterate_records_of(data, (RegisterControllerRecord,))
    ids = {each.controller_id for each in registered if isinstance(each, RegisterControllerRecord)}
    assert ids == {KAFKA, *OURS}
