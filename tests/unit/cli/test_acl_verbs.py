"""``zkctl acl list``, ``who`` and ``explain`` by ZooKeeper alone, on a ZooKeeper in memory."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from tests.support.broker_world import BrokersSession
from tests.support.cli_world import Zkctl, installed_zkctl
from zkcontroller.zookeeper.kafka_acl_znodes import AclZnode, supported_operations
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig

HERE = ("-z", "zookeeper:2181")
KNOWN = ("--super-user", "User:admin", "--allow-everyone", "false")
READ, WRITE, ALL = AclOperation.READ, AclOperation.WRITE, AclOperation.ALL
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY


def put(zkctl: Zkctl, pattern: ResourcePattern, *entries: AccessControlEntry) -> None:
    zkctl.create(AclZnode.path(pattern), AclZnode(entries).encode())


@pytest.fixture
def zkctl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Zkctl]:
    yield from installed_zkctl(monkeypatch, capsys)


@pytest.fixture
def cluster(zkctl: Zkctl) -> Zkctl:
    """ACLs of each kind, and no broker."""
    topic = ResourceType.TOPIC
    put(
        zkctl,
        ResourcePattern(topic, "orders"),
        AccessControlEntry("User:alice", "*", READ, ALLOW),
        AccessControlEntry("User:alice", "*", WRITE, ALLOW),
        AccessControlEntry("User:*", "10.0.0.1", ALL, DENY),
    )
    put(
        zkctl,
        ResourcePattern(topic, "or", PatternType.PREFIXED),
        AccessControlEntry("User:bob", "*", AclOperation.DESCRIBE, ALLOW),
    )
    put(
        zkctl,
        ResourcePattern(ResourceType.GROUP, "*"),
        AccessControlEntry("User:alice", "*", READ, ALLOW),
    )
    put(
        zkctl,
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
        AccessControlEntry("User:ops", "*", AclOperation.ALTER, ALLOW),
    )
    return zkctl


def texts(result: object) -> list[tuple[str, ...]]:
    keys = ("resource_type", "resource", "pattern_type", "permission", "principal", "operation")
    return [tuple(row[key] for key in keys) for row in result.json]  # type: ignore[attr-defined]


def test_every_acl_of_zookeeper_is_listed_once_in_order(cluster: Zkctl) -> None:
    assert texts(cluster("acl", "list", *HERE, "-o", "json")) == [
        ("topic", "or", "prefixed", "allow", "User:bob", "describe"),
        ("topic", "orders", "literal", "deny", "User:*", "all"),
        ("topic", "orders", "literal", "allow", "User:alice", "read"),
        ("topic", "orders", "literal", "allow", "User:alice", "write"),
        ("group", "*", "literal", "allow", "User:alice", "read"),
        ("cluster", "kafka-cluster", "literal", "allow", "User:ops", "alter"),
    ]


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--topic", "orders"), 3),
        (("--topic", "or"), 0),
        (("--topic", "or", "--resource-pattern-type", "prefixed"), 1),
        (("--topic", "or", "--resource-pattern-type", "any"), 1),
        (("--topic", "orders", "--resource-pattern-type", "match"), 4),
        (("--resource-pattern-type", "prefixed"), 1),
        (("--group", "g", "--resource-pattern-type", "match"), 1),
        (("--topic", "orders", "--group", "*"), 4),
        (("--cluster",), 1),
        (("--principal", "User:alice"), 3),
        (("--principal", "User:alice", "--principal", "User:bob"), 4),
        (("--principal", "User:alice", "--operation", "READ"), 2),
        (("--host", "10.0.0.1"), 1),
        (("--permission", "deny"), 1),
        (("--transactional-id", "t", "--delegation-token", "d", "--user-principal", "User:u"), 0),
    ],
)
def test_filters_leave_what_they_name(cluster: Zkctl, options: tuple[str, ...], count: int) -> None:
    assert len(cluster("acl", "list", *options, *HERE, "-o", "json").json) == count


def test_a_grouped_row_has_all_operations_of_a_principal(cluster: Zkctl) -> None:
    rows = cluster("acl", "list", "--grouped", "--topic", "orders", *HERE, "-o", "json").json

    assert [(row["principal"], row["operations"]) for row in rows] == [
        ("User:*", ["all"]),
        ("User:alice", ["read", "write"]),
    ]


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        (("list", "--cluster"), ["cluster"]),
        (("list", "--group", "*"), ["group:*"]),
        (("who", "group:g"), ["User:admin", "User:alice"]),
        (("who", "--principal", "User:bob"), ["topic:or", "topic:orders", "topic:orders"]),
        (("who", "--principal", "User:admin"), ["User:admin"]),
        (
            ("explain", "--principal", "User:bob", "--api", "DescribeGroups", "--group", "g"),
            ["describe:group:g"],
        ),
    ],
)
def test_a_row_is_identified_by_what_it_is_about(
    cluster: Zkctl, asked: tuple[str, ...], names: list[str]
) -> None:
    known = () if asked[0] == "list" else KNOWN

    assert cluster("acl", *asked, *known, *HERE, "-o", "name").stdout.splitlines() == names


@pytest.mark.parametrize("more", [(), ("--grouped",)])
def test_an_empty_listing_has_the_same_header_as_a_full_one(
    cluster: Zkctl, more: tuple[str, ...]
) -> None:
    def header(*options: str) -> list[str]:
        printed = cluster("acl", "list", *more, *options, *HERE, "-o", "csv").stdout
        return next(iter(csv.reader(io.StringIO(printed))))

    assert header("--topic", "nothing") == header("--topic", "orders")


def test_a_corrupt_znode_and_an_unknown_type_are_named_and_the_rest_is_listed(
    cluster: Zkctl,
) -> None:
    cluster.create("/kafka-acl/Topic/broken", b"{")
    cluster.create("/kafka-acl/Planet/mars", b"{}")

    result = cluster("acl", "list", *HERE, "-o", "json")

    assert result.exit_code == 0
    assert len(result.json) == 6
    assert "/kafka-acl/Topic/broken" in result.stderr
    assert "/kafka-acl/Planet is of no known type of resource" in result.stderr


def test_a_cluster_without_any_acl_lists_nothing(zkctl: Zkctl) -> None:
    result = zkctl("acl", "list", *HERE, "-o", "json")

    assert (result.exit_code, result.json) == (0, [])


def test_who_names_each_principal_with_the_rule_that_decides(cluster: Zkctl) -> None:
    rows = cluster("acl", "who", "topic:orders", *KNOWN, *HERE, "-o", "json").json

    denied = (len(supported_operations(ResourceType.TOPIC)), False)
    rule = "deny User:* from 10.0.0.1 all on topic:orders"
    assert [
        (row["principal"], row["host"], len(row["operations"]), row["is_allowed"], row["rule"])
        for row in rows
        if row["principal"] != "User:admin"
    ] == [
        ("User:*", "10.0.0.1", *denied, rule),
        ("User:alice", "*", 2, True, "allow User:alice read on topic:orders"),
        ("User:alice", "*", 1, True, "allow User:alice write on topic:orders"),
        ("User:alice", "10.0.0.1", *denied, rule),
        ("User:bob", "*", 1, True, "allow User:bob describe on topic:or (prefixed)"),
        ("User:bob", "10.0.0.1", *denied, rule),
    ]
    assert rows[1 + 1]["operations"] == ["read", "describe"]
    assert [row["because"] for row in rows if row["principal"] == "User:admin"] == ["super_user"]


def test_all_that_a_principal_may_do_is_listed_by_resource(cluster: Zkctl) -> None:
    rows = cluster("acl", "who", "--principal", "User:alice", *KNOWN, *HERE, "-o", "json").json

    allowed = [(row["resource"], row["operations"]) for row in rows if row["is_allowed"]]
    assert allowed == [
        ("orders", ["read", "describe"]),
        ("orders", ["write"]),
        ("*", ["read", "describe"]),
    ]
    assert [row["host"] for row in rows if not row["is_allowed"]] == ["10.0.0.1"]


def test_a_super_user_may_do_everything(cluster: Zkctl) -> None:
    [row] = cluster("acl", "who", "--principal", "User:admin", *KNOWN, *HERE, "-o", "json").json

    assert (row["because"], row["operations"], row["resource"]) == ("super_user", ["all"], None)


def test_a_refusal_is_explained_with_the_command_that_allows_it(cluster: Zkctl) -> None:
    asked = ("acl", "explain", "--principal", "User:bob", "--operation", "Read", "topic:orders")
    result = cluster(*asked, *KNOWN, *HERE, "-o", "json", "--check")

    assert result.exit_code == 1
    assert result.json["is_allowed"] is False
    assert result.json["because"] == "no_rule_applies"
    assert result.json["commands"] == [
        "zkctl acl add --allow-principal User:bob --operation read --topic orders"
    ]


def test_a_deny_is_explained_with_the_command_that_removes_it(cluster: Zkctl) -> None:
    asked = ("acl", "explain", "--principal", "User:alice", "--operation", "read", "topic:orders")
    here = cluster(*asked, *KNOWN, *HERE, "-o", "json", "--check")
    there = cluster(*asked, "--host", "10.0.0.1", *KNOWN, *HERE, "-o", "json")

    assert (here.exit_code, here.json["is_allowed"]) == (0, True)
    assert [each["host"] for each in here.json["other_hosts"]] == ["10.0.0.1"]
    assert there.json["commands"] == [
        "zkctl acl remove --deny-principal 'User:*' --deny-host 10.0.0.1 --operation all "
        "--topic orders"
    ]


def test_a_request_is_explained_right_by_right(cluster: Zkctl) -> None:
    about = ("--api", "TxnOffsetCommit", "--topic", "orders", "--group", "billing")
    asked = ("acl", "explain", "--principal", "User:alice", *about, "--transactional-id", "tx")
    result = cluster(*asked, *KNOWN, *HERE, "-o", "json", "--check")

    assert result.exit_code == 1
    assert [(row["resource"], row["operation"], row["is_allowed"]) for row in result.json] == [
        ("tx", "write", False),
        ("billing", "read", True),
        ("orders", "read", True),
    ]
    assert (
        "TxnOffsetCommit lacks write on transactional_id tx; next: zkctl acl add "
        "--allow-principal User:alice --operation write --transactional-id tx" in result.stderr
    )


def test_rights_that_only_some_requests_need_are_no_finding(cluster: Zkctl) -> None:
    about = ("--api", "Fetch", "--topic", "orders")
    asked = ("acl", "explain", "--principal", "User:alice", *about)
    result = cluster(*asked, *KNOWN, *HERE, "-o", "json", "--check")

    assert result.exit_code == 0
    assert [(row["when"], row["is_allowed"]) for row in result.json] == [
        (None, True),
        ("a follower asks, instead of READ", False),
    ]
    assert "Fetch is allowed" in result.stderr
    assert "from which it may be otherwise: say --host (10.0.0.1)" in result.stderr
    from_there = cluster(*asked, "--host", "10.0.0.1", *KNOWN, *HERE, "-o", "json", "--check")
    assert (from_there.exit_code, from_there.json[0]["because"]) == (1, "deny")
    assert "may be otherwise" not in from_there.stderr


def test_without_brokers_their_settings_are_said_to_be_unknown(cluster: Zkctl) -> None:
    asked = ("acl", "explain", "--principal", "User:carol", "--operation", "read", "topic:other")
    result = cluster(*asked, *HERE, "-o", "json")

    assert result.exit_code == 0
    assert (result.json["is_allowed"], result.json["is_super_user"]) == (None, None)
    assert "super.users and allow.everyone.if.no.acl.found are not known" in result.stderr


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("who",), "say RESOURCE"),
        (("who", "topic:a", "--principal", "User:a"), "say RESOURCE"),
        (("who", "orders"), "'orders' is no type of resource"),
        (("who", "topic:"), "has no name"),
        (("who", "cluster:other"), "the only name of a cluster"),
        (("who", "group:g", "--operation", "write"), "a group has no operation write"),
        (("explain", "--principal", "User:a", "topic:a"), "say --operation"),
        (("explain", "--principal", "a", "--operation", "read", "topic:a"), "TYPE:NAME"),
        (("explain", "--principal", "User:a", "--operation", "read"), "say one RESOURCE"),
        (
            ("explain", "--principal", "User:a", "--operation", "read", "topic:a", "--host", "x"),
            "no IP address",
        ),
        (("list", "--resource-pattern-type", "match"), "match needs a resource"),
        (("list", "--operation", "fly"), "no operation"),
    ],
)
def test_a_command_line_that_lacks_something_is_refused(
    cluster: Zkctl, words: tuple[str, ...], why: str
) -> None:
    result = cluster("acl", *words, *HERE)

    assert result.exit_code == 2
    assert why in result.stderr
    assert result.stdout == ""


def test_a_change_off_a_terminal_needs_yes_before_anything_is_asked(cluster: Zkctl) -> None:
    words = ("--allow-principal", "User:a", "--topic", "orders")
    for verb in ("add", "remove"):
        result = cluster("acl", verb, *words, "-b", "127.0.0.1:1")

        assert result.exit_code == 5
        assert "say --yes" in result.stderr


# Written past the brokers.

PAST = (*HERE, "--in-zookeeper", "--yes", "-o", "json")
CAROL = ("--allow-principal", "User:carol", "--operation", "read", "--topic")


@pytest.fixture
def writable(zkctl: Zkctl, monkeypatch: pytest.MonkeyPatch) -> list[ZooKeeperConfig]:
    """ZooKeeper as the code of brokers needs it; the sessions that were opened."""
    opened: list[ZooKeeperConfig] = []

    def open_session(config: ZooKeeperConfig, **callbacks: Any) -> BrokersSession:
        opened.append(config)
        return BrokersSession(zkctl.zookeeper, **callbacks)

    module = import_module("zkcontroller_cli.znodes.session")
    monkeypatch.setattr(module, "ZooKeeperSession", open_session)
    return opened


def data_of(zkctl: Zkctl, path: str) -> bytes | None:
    found = zkctl.session().read(path)
    return None if isinstance(found, ZkCode) else found.data


@pytest.mark.usefixtures("writable")
def test_an_acl_is_written_to_zookeeper_as_brokers_write_it(zkctl: Zkctl) -> None:
    zkctl.create("/brokers/ids")
    prefixed = ("--resource-pattern-type", "prefixed")

    added = zkctl("acl", "add", *CAROL, "orders", *PAST)
    more = zkctl("acl", "add", *CAROL, "pay", *prefixed, *PAST)
    again = zkctl("acl", "add", *CAROL, "orders", *PAST)

    entry = AccessControlEntry("User:carol", "*", READ, ALLOW)
    assert [each.exit_code for each in (added, more, again)] == [0, 0, 0], added.stderr
    assert [row["is_there"] for row in added.json] == [True]
    assert "target: cluster without id, ZooKeeper zookeeper:2181" in added.stderr
    assert "past the brokers, which check no right for it" in added.stderr
    assert "1 of 1 are there already" in again.stderr
    assert data_of(zkctl, "/kafka-acl/Topic/orders") == AclZnode((entry,)).encode()
    assert data_of(zkctl, "/kafka-acl-extended/prefixed/Topic/pay") == AclZnode((entry,)).encode()
    # Each change once, for the brokers that run.
    session = zkctl.session()
    assert session.children("/kafka-acl-changes") == ["acl_changes_0000000000"]
    assert data_of(zkctl, "/kafka-acl-changes/acl_changes_0000000000") == b"TOPIC:orders"
    assert session.children("/kafka-acl-extended-changes") == ["acl_changes_0000000000"]


@pytest.mark.usefixtures("writable")
def test_the_last_acl_in_zookeeper_takes_its_znode_along(cluster: Zkctl) -> None:
    some = cluster("acl", "remove", "--topic", "orders", "--operation", "read", *PAST)
    left = cluster("acl", "list", "--topic", "orders", *HERE, "-o", "json").json
    rest = cluster("acl", "remove", "--topic", "orders", *PAST)

    assert (some.exit_code, rest.exit_code) == (0, 0), some.stderr + rest.stderr
    assert [row["is_there"] for row in some.json] == [False]
    assert [row["operation"] for row in left] == ["all", "write"]
    assert data_of(cluster, "/kafka-acl/Topic/orders") is None


def test_a_dry_run_in_zookeeper_writes_no_acl(cluster: Zkctl) -> None:
    before = cluster("acl", "list", *HERE, "-o", "json").json
    for verb, name in (("add", "new"), ("remove", "orders")):
        words = CAROL if verb == "add" else ("--topic",)
        planned = cluster("acl", verb, *words, name, *PAST, "--dry-run")
        assert planned.exit_code == 0

    assert cluster("acl", "list", *HERE, "-o", "json").json == before
    assert cluster.session().children("/kafka-acl-changes") is ZkCode.NO_NODE


@pytest.mark.parametrize("name", ["a/b", "..", "."])
def test_a_name_that_no_znode_can_have_is_refused(cluster: Zkctl, name: str) -> None:
    result = cluster("acl", "add", *CAROL, name, *PAST)

    assert result.exit_code == 5
    assert f"no room for a resource called {name!r}" in result.stderr


@pytest.mark.parametrize(
    ("words", "credentials", "set_acl"),
    [
        ((), "", False),
        (("--set-acl",), "", True),
        ((), "sasl:kafka:secret", True),
        (("--no-set-acl",), "sasl:kafka:secret", False),
    ],
)
def test_new_znodes_are_protected_with_credentials_or_if_it_is_said(
    cluster: Zkctl,
    writable: list[ZooKeeperConfig],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    credentials: str,
    set_acl: bool,
) -> None:
    """As Kafka's ``kafka-acls`` does, whose default is whether it logs in at ZooKeeper."""
    monkeypatch.setenv("ZKCTL_ZOOKEEPER_AUTH", credentials)

    assert cluster("acl", "add", *CAROL, "orders", *words, *PAST).exit_code == 0
    # The other sessions only read, so they need no ACL for what they create.
    assert [each.set_acl for each in writable] == [False, False, set_acl, False]
    assert cluster("acl", "add", *CAROL, "a", "--set-acl", "--yes", *HERE).exit_code == 2
