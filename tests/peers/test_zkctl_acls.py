"""``zkctl acl`` and ``kafka-acls`` mean the same on Kafka 3.9.1 and 2.8.2; so do tokens.

Kafka's tool is that of 3.9.1 on both.  What ``explain`` says is compared with what the authorizer
of the real broker lets a client do (KIP-430).
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v8.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

from benchmarks.kafka_peer import KafkaBroker
from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.net.client_security import ClientSecurity, Credentials
from kafka_common.net.connection import Connection
from replica_manager.security.acl_cache import AclBinding
from replica_manager.security.principals import Principal
from tests.peers.clients import run_tool
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required_libs
from tests.support.cli_world import CommandResult, zkctl_here
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.kafka_acl_znodes import supported_operations
from zkcontroller.zookeeper.requests import Znode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

ACL_TOOL: Final = str(Path(__file__).with_name("AclTool.java"))
TOKEN_COMMAND: Final = "org.apache.kafka.tools.DelegationTokenCommand"
BROKER: Final = 1
OLD, NEW = "2.8.2", "3.9.1"
_PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SETTINGS: Final = PROPERTIES | {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL_PLAINTEXT://127.0.0.1:0",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": (
        f'{_PLAIN} user_alice="alice-0451" user_admin="admin-0451";'
    ),
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS;User:admin",
    # The name that both versions know.
    "delegation.token.master.key": "opensesame-0451",
}
Rule = tuple[str, ...]


class GuardedCluster(Cluster):
    """One broker of Kafka's with an authorizer; who does not log in is a super user."""

    version = NEW

    def start_version(self, version: str) -> None:
        self.version = version
        libs = required_libs(version)
        directory = self._directory / f"kafka-{version}"
        self.start(
            KafkaBroker(
                BROKER, self.zookeeper, directory, SETTINGS, heap="512M", libs=libs, is_brief=True
            )
        )

    def address(self, protocol: str) -> str:
        znode = self.session.read(f"/brokers/ids/{BROKER}")
        assert isinstance(znode, Znode)
        endpoints: list[str] = json.loads(znode.data)["endpoints"]
        [found] = (each for each in endpoints if each.startswith(f"{protocol}://"))
        return found.partition("://")[2]

    def run(self, *arguments: str) -> CommandResult:
        return zkctl_here("-o", "json", *arguments)

    def zkctl(self, *arguments: str) -> Any:
        """What ``zkctl`` says by brokers, as JSON."""
        done = self.run("-b", self.bootstrap(BROKER), *arguments)
        assert done.exit_code == 0, done.stderr
        return done.json

    def kafka(self, *lines: str) -> list[str]:
        """What Kafka's tool prints for each line of options."""
        printed = run_tool(ACL_TOOL, self.bootstrap(BROKER), stdin="".join(f"{x}\n" for x in lines))
        return [part.partition("\n")[2] for part in printed.split("### ")[1:]]


@contextmanager
def started(version: str, zookeeper: str, directory: Path) -> Iterator[GuardedCluster]:
    cluster = GuardedCluster(zookeeper, directory)
    try:
        cluster.start_version(version)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(scope="module", params=[NEW, OLD])
def real(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[GuardedCluster]:
    version = request.param
    chroot = f"{zookeeper.connect}/acls-{version}"
    with started(version, chroot, tmp_path_factory.mktemp("acls")) as cluster:
        yield cluster


_RESOURCE: Final = re.compile(
    r"ResourcePattern\(resourceType=(\w+), name=(.*), patternType=(\w+)\)`"
)
_ENTRY: Final = re.compile(r"\(principal=(.*), host=(.*), operation=(\w+), permissionType=(\w+)\)")


def listed_by_kafka(printed: str) -> set[Rule]:
    """The rules of a listing: what stands in a row of zkctl's."""
    found = set()
    resource: tuple[str, ...] = ()
    for line in printed.splitlines():
        if match := _RESOURCE.search(line):
            resource_type, name, pattern_type = match.groups()
            resource = (resource_type.lower(), name, pattern_type.lower())
        elif match := _ENTRY.search(line):
            principal, host, operation, permission = match.groups()
            found.add((*resource, permission.lower(), principal, host, operation.lower()))
    return found


def listed_by_zkctl(rows: list[dict[str, Any]]) -> set[Rule]:
    keys = ("resource_type", "resource", "pattern_type")
    more = ("permission", "principal", "host", "operation")
    return {tuple(row[key] for key in (*keys, *more)) for row in rows}


FILTERS: Final = (
    "",
    "--topic orders",
    "--topic or --resource-pattern-type prefixed",
    "--topic orders --resource-pattern-type match",
    "--topic or --resource-pattern-type any",
    "--group * --cluster",
    "--group billing --resource-pattern-type match",
    "--transactional-id tx",
    "--principal User:bob",
    "--topic orders --principal User:alice",
    "--delegation-token T1",
)
ADDED: Final = (
    "--allow-principal User:alice --allow-principal User:bob --allow-host 10.0.0.1 "
    "--allow-host 10.0.0.2 --operation Read --operation DescribeConfigs --topic orders",
    "--deny-principal User:bob --deny-host 10.0.0.3 --topic or --resource-pattern-type prefixed",
    "--allow-principal User:* --operation Read --group *",
    "--allow-principal User:ops --operation Alter --operation ClusterAction --cluster",
    "--allow-principal User:bob --operation Describe --delegation-token T1",
    "--allow-principal User:CN=bob,O=Acme --operation Write --transactional-id tx",
)
OF_USERS: Final = "--operation CreateTokens --user-principal User:b"
ROLES: Final = (
    "--producer --topic {0}",
    "--producer --idempotent --topic {0} --topic {0}-too --transactional-id {0}",
    "--consumer --topic {0} --group {0}",
    "--producer --consumer --topic {0} --group {0} --resource-pattern-type prefixed",
)


def test_both_list_what_either_adds_and_neither_removes_more(real: GuardedCluster) -> None:
    for options in ADDED[3:]:
        real.zkctl("acl", "add", *options.split(), "--yes")
    users = () if real.version == OLD else ("--add --allow-principal User:a " + OF_USERS,)

    _, _, _, *printed_lines = real.kafka(
        *(f"--add {options}" for options in ADDED[:3]),
        *(f"--list {options}".strip() for options in FILTERS),
        *users,
    )
    by_kafka = printed_lines[: len(FILTERS)]
    if users:  # listed by neither above
        assert len(real.zkctl("acl", "remove", "--user-principal", "User:b", "--yes")) == 1
    ours = [real.zkctl("acl", "list", *options.split()) for options in FILTERS]
    in_zookeeper = real.run("-z", real.zookeeper, "acl", "list")

    for options, printed, rows in zip(FILTERS, by_kafka, ours, strict=True):
        assert listed_by_zkctl(rows) == listed_by_kafka(printed), options
    assert len(listed_by_kafka(by_kafka[0])) == 14
    assert listed_by_zkctl(in_zookeeper.json) == listed_by_kafka(by_kafka[0])

    # Each removes what the other added, and nothing else.
    for options in ADDED[:2]:
        real.zkctl("acl", "remove", *options.split(), "--yes")
    _, left = real.kafka(f"--remove --force {ADDED[3]}", "--list")
    assert len(listed_by_kafka(left)) == 14 - 8 - 1 - 2
    for options in ("--group *", "--delegation-token T1", "--transactional-id tx"):
        real.zkctl("acl", "remove", *options.split(), "--yes")
    assert real.zkctl("acl", "list") == []


def test_what_is_written_past_a_broker_counts_there(real: GuardedCluster) -> None:
    words = ("--allow-principal", "User:past", "--operation", "read", "--group", "past")
    past = ("--in-zookeeper", "--yes", "-z", real.zookeeper)

    added = real.run("acl", "add", *words, *past)
    real.wait_until(
        lambda: (
            listed_by_zkctl(real.zkctl("acl", "list", "--principal", "User:past"))
            == {("group", "past", "literal", "allow", "User:past", "*", "read")}
        ),
        "the broker knows the ACL",
    )
    removed = real.run("acl", "remove", *words, *past)
    real.wait_until(
        lambda: not real.zkctl("acl", "list", "--principal", "User:past"), "the broker forgets it"
    )

    assert (added.exit_code, removed.exit_code) == (0, 0), added.stderr + removed.stderr


def test_roles_stand_for_the_same_rules(real: GuardedCluster) -> None:
    who = "--allow-principal User:carol --allow-host 10.0.0.9"
    real.kafka(*(f"--add {who} {options.format(f'k{i}')}" for i, options in enumerate(ROLES)))
    for i, options in enumerate(ROLES):
        real.zkctl("acl", "add", *f"{who} {options.format(f'z{i}')}".split(), "--yes")

    rules = listed_by_zkctl(real.zkctl("acl", "list", "--principal", "User:carol"))

    of_kafka = {rule for rule in rules if rule[1].startswith("k") and rule[0] != "cluster"}
    of_zkctl = {rule for rule in rules if rule[1].startswith("z")}
    assert {(kind, f"z{name[1:]}", *rest) for kind, name, *rest in of_kafka} == of_zkctl
    assert len(of_zkctl) == 3 + 8 + 3 + 5
    cluster = [rule for rule in rules if rule[0] == "cluster"]
    assert [rule[-1] for rule in cluster] == ["idempotent_write"]
    real.zkctl("acl", "remove", "--principal", "User:carol", "--yes")


def random_rules(random: Random) -> list[list[str]]:
    """Options of rules about topics t-a and t-ab, and about all."""
    made = []
    for _ in range(8):
        name, kind = random.choice(
            (("t-a", "literal"), ("t-ab", "literal"), ("t-a", "prefixed"), ("*", "literal"))
        )
        permission = random.choice(("allow", "allow", "deny"))
        who = random.choice(("User:alice", "User:alice", "User:*"))
        host = random.choice(("*", "127.0.0.1", "10.0.0.1"))
        operation = random.choice((*supported_operations(ResourceType.TOPIC), AclOperation.ALL))
        words = [f"--{permission}-principal", who, f"--{permission}-host", host, "--topic", name]
        words += ["--operation", operation.name, "--resource-pattern-type", kind]
        made.append(words)
    return made


@pytest.mark.parametrize("seed", [1, 3, 5, 6])
def test_explain_says_what_the_real_authorizer_lets_a_client_do(
    real: GuardedCluster, seed: int
) -> None:
    names = ("t-a", "t-ab")
    for name in names:
        if not real.of(name):
            real.zkctl("topic", "create", name, "--replica-assignment", "1")
    for words in random_rules(Random(seed)):
        real.zkctl("acl", "add", *words, "--yes")

    rows = real.zkctl("acl", "list")
    may = asyncio.run(authorized_operations(real, names))
    real.zkctl("acl", "remove", "--principal", "User:alice", "--principal", "User:*", "--yes")

    decisions = import_module("zkcontroller_cli.acls.decisions")
    settings = decisions.AclSettings(frozenset(), False)
    book = decisions.RuleBook(decisions.cache_of(map(binding_of, rows)), settings)
    alice = Principal("User", "alice")
    for name in names:
        allowed = {
            operation
            for operation in supported_operations(ResourceType.TOPIC)
            if book.decide(
                decisions.AskedRight(alice, "127.0.0.1", operation, ResourceType.TOPIC, name)
            ).is_allowed
        }
        # A topic that must not be described is not shown, whatever else is allowed.
        expected = allowed if AclOperation.DESCRIBE in allowed else None
        assert may[name] == expected, (name, [shlex.join(map(str, row.values())) for row in rows])


def binding_of(row: dict[str, Any]) -> AclBinding:
    return AclBinding(
        ResourcePattern(
            ResourceType[row["resource_type"].upper()],
            row["resource"],
            PatternType[row["pattern_type"].upper()],
        ),
        AccessControlEntry(
            row["principal"],
            row["host"],
            AclOperation[row["operation"].upper()],
            PermissionType[row["permission"].upper()],
        ),
    )


async def authorized_operations(
    real: GuardedCluster, names: tuple[str, ...]
) -> dict[str, set[AclOperation] | None]:
    """What the broker says that alice may do with each topic; None: not even see it."""
    host, _, port = real.address("SASL_PLAINTEXT").rpartition(":")
    alice = ClientSecurity(None, Credentials("PLAIN", "alice", "alice-0451"))
    connection = await Connection.open(host, int(port), client_id="peers", security=alice)
    try:
        result: Any = await connection.request(
            MetadataRequest(
                topics=tuple(MetadataRequestTopic(name=TopicName(name)) for name in names),
                allow_auto_topic_creation=False,
                include_cluster_authorized_operations=False,
                include_topic_authorized_operations=True,
            )
        )
    finally:
        await connection.close()
    return {
        topic.name: None
        if topic.error_code is ErrorCode.topic_authorization_failed
        else {each for each in AclOperation if topic.topic_authorized_operations >> each & 1}
        for topic in result.topics
    }


def test_what_the_broker_hides_of_its_super_users_is_said(real: GuardedCluster) -> None:
    asked = ("acl", "explain", "--principal", "User:admin", "--operation", "Alter", "cluster")
    hidden = real.run("-b", real.bootstrap(BROKER), *asked)
    named = real.run("-b", real.bootstrap(BROKER), *asked, "--super-user", "User:admin")

    assert "super.users is not known: its value is hidden by broker 1" in hidden.stderr
    assert hidden.json["is_super_user"] is None
    assert named.json["because"] == "super_user"


def test_tokens_are_those_that_kafkas_tool_describes(real: GuardedCluster, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
        f'sasl.jaas.config={_PLAIN} username="alice" password="alice-0451";\n'
    )
    by_sasl = ("--bootstrap-server", real.address("SASL_PLAINTEXT"), "--command-config", str(file))

    made = real.run(*by_sasl, "token", "create", "--renewer", "User:admin", "--yes")
    token = made.json
    named = ("--", token["token_id"])  # which may begin with a dash
    described = run_tool(TOKEN_COMMAND, *by_sasl, "--describe", "--owner-principal", "User:alice")
    renewed = real.run(*by_sasl, "token", "renew", "--period", "60000", "--yes", *named)
    for_another = real.run(*by_sasl, "token", "create", "--owner", "User:carol", "--yes")
    ended = real.run(*by_sasl, "token", "expire", "--yes", *named)
    left = real.run(*by_sasl, "token", "list")

    assert made.exit_code == 0, made.stderr
    [row] = (line for line in described.splitlines() if token["token_id"] in line)
    assert row.split()[:3] == [token["token_id"], token["hmac"], "User:alice"]
    assert "User:admin" in row
    assert renewed.exit_code == 0, renewed.stderr
    assert renewed.json["is_shown"]
    assert for_another.exit_code == 5
    assert token["requester"] == (None if real.version == OLD else "User:alice")
    said = (
        "before Kafka 3.3 a token belongs to its requester" if real.version == OLD else "allows it"
    )
    assert said in for_another.stderr
    assert ended.exit_code == 0, ended.stderr
    assert left.json == []


def test_users_are_no_resource_before_kafka_3_3(real: GuardedCluster) -> None:
    words = ("--allow-principal", "User:a", *OF_USERS.split())
    added = real.run("-b", real.bootstrap(BROKER), "acl", "add", *words, "--yes")

    if real.version == OLD:
        assert added.exit_code == 5
        assert "before Kafka 3.3 there are no ACLs on users" in added.stderr
        return
    assert added.exit_code == 0, added.stderr
    listed = real.zkctl("acl", "list", "--user-principal", "User:b")
    assert [(row["resource_type"], row["operation"]) for row in listed] == [
        ("user", "create_tokens")
    ]
    real.zkctl("acl", "remove", "--user-principal", "User:b", "--yes")
