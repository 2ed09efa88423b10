"""Options to ACLs as Kafka's tool expands them, and decisions that are those of the broker."""

from __future__ import annotations

import ast
from importlib import import_module
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.protocol.api_versions import APIS, ApiKey
from replica_manager.security.acl_cache import AclBinding, AclCache
from replica_manager.security.authorizer import Authorizer, Requester
from replica_manager.security.principals import Principal
from zkcontroller.zookeeper.kafka_acl_znodes import supported_operations

acl_terms = import_module("zkcontroller_cli.values.acls")
acl_plan = import_module("zkcontroller_cli.acls.plan")
acl_decisions = import_module("zkcontroller_cli.acls.decisions")
acl_explanations = import_module("zkcontroller_cli.acls.explanations")
acl_needs = import_module("zkcontroller_cli.acls.needs")
errors = import_module("zkcontroller_cli.console.errors")

ROOT: Final = Path(__file__).parent.parent.parent.parent
READ, WRITE, CREATE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.CREATE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
ALLOW, DENY = PermissionType.ALLOW, PermissionType.DENY
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
TOPIC: Final = ResourceType.TOPIC


def resources(**options: Any) -> Any:
    return acl_plan.ResourceOptions(**options)


def rules(**options: Any) -> Any:
    return acl_plan.RuleOptions(**options)


def said(bindings: list[AclBinding]) -> set[str]:
    return {acl_terms.rule_text(each) for each in bindings}


# Options to ACLs.

ALICE: Final = {"allow_principals": ("User:alice",)}


@pytest.mark.parametrize(
    ("about", "who", "expected"),
    [
        (
            {"topics": ("orders",)},
            {**ALICE, "operations": ("Read", "describe-configs")},
            {
                "allow User:alice read on topic:orders",
                "allow User:alice describe_configs on topic:orders",
            },
        ),
        ({"is_cluster": True}, ALICE, {"allow User:alice all on cluster"}),
        (
            {"topics": ("a",), "groups": ("g",)},
            {
                **ALICE,
                "deny_principals": ("User:bob",),
                "deny_hosts": ("10.0.0.1", "10.0.0.2"),
                "operations": ("read",),
            },
            {
                "allow User:alice read on topic:a",
                "deny User:bob from 10.0.0.1 read on topic:a",
                "deny User:bob from 10.0.0.2 read on topic:a",
                "allow User:alice read on group:g",
                "deny User:bob from 10.0.0.1 read on group:g",
                "deny User:bob from 10.0.0.2 read on group:g",
            },
        ),
        (
            {"topics": ("a",), "transactional_ids": ("tx",), "groups": ("left-out",)},
            {**ALICE, "is_producer": True, "is_idempotent": True},
            {
                "allow User:alice write on topic:a",
                "allow User:alice describe on topic:a",
                "allow User:alice create on topic:a",
                "allow User:alice write on transactional_id:tx",
                "allow User:alice describe on transactional_id:tx",
                "allow User:alice idempotent_write on cluster",
            },
        ),
        (
            {"topics": ("a",), "groups": ("g",), "resource_pattern_type": "prefixed"},
            {**ALICE, "is_consumer": True},
            {
                "allow User:alice read on topic:a (prefixed)",
                "allow User:alice describe on topic:a (prefixed)",
                "allow User:alice read on group:g (prefixed)",
            },
        ),
        (
            {"topics": ("a",), "groups": ("g",)},
            {**ALICE, "is_consumer": True, "is_producer": True},
            {
                "allow User:alice write on topic:a",
                "allow User:alice create on topic:a",
                "allow User:alice read on topic:a",
                "allow User:alice describe on topic:a",
                "allow User:alice read on group:g",
            },
        ),
        (
            {"user_principals": ("User:bob",), "delegation_tokens": ("T1",)},
            {**ALICE, "operations": ("Describe",)},
            None,
        ),
        (
            {"user_principals": ("User:bob",)},
            {**ALICE, "operations": ("CreateTokens",)},
            {"allow User:alice create_tokens on user:User:bob"},
        ),
    ],
)
def test_options_stand_for_the_acls_of_kafkas_tool(
    about: dict[str, Any], who: dict[str, Any], expected: set[str] | None
) -> None:
    if expected is None:
        with pytest.raises(errors.BadUsage, match="a user has no operation describe;"):
            acl_plan.rules_to_add(resources(**about), rules(**who))
        return
    assert said(acl_plan.rules_to_add(resources(**about), rules(**who))) == expected


@pytest.mark.parametrize(
    ("about", "who", "why"),
    [
        ({}, ALICE, "which resource"),
        ({"topics": ("a",)}, {}, "who\\?"),
        ({"topics": ("a",), "resource_pattern_type": "match"}, ALICE, "literal or prefixed"),
        ({"topics": ("a",)}, {**ALICE, "operations": ("Fly",)}, "'Fly' is no operation"),
        ({"topics": ("a",)}, {"allow_principals": ("alice",)}, "TYPE:NAME"),
        ({"topics": ("a",)}, {**ALICE, "deny_hosts": ("1.2.3.4",)}, "needs --deny-principal"),
        ({"topics": ("a",)}, {**ALICE, "is_idempotent": True}, "goes with --producer"),
        ({"groups": ("g",)}, {**ALICE, "is_producer": True}, "need --topic"),
        ({"topics": ("a",)}, {**ALICE, "is_consumer": True}, "needs --group"),
        (
            {"topics": ("a",)},
            {**ALICE, "is_producer": True, "operations": ("read",)},
            "leave --operation",
        ),
        (
            {"topics": ("a",), "groups": ("g",), "is_cluster": True},
            {**ALICE, "is_consumer": True},
            "no use for --cluster",
        ),
        ({"topics": (" ",)}, ALICE, "is empty"),
        ({"is_cluster": True, "resource_pattern_type": "prefixed"}, ALICE, "one name"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    about: dict[str, Any], who: dict[str, Any], why: str
) -> None:
    with pytest.raises(errors.BadUsage, match=why):
        acl_plan.rules_to_add(resources(**about), rules(**who))


def test_what_add_makes_remove_means_and_nothing_else() -> None:
    about = resources(topics=("orders",), groups=("g",))
    who = rules(**ALICE, is_consumer=True)
    added = acl_plan.rules_to_add(about, who)
    other = added[0]._replace(entry=added[0].entry._replace(principal="User:alicia"))

    filters = acl_plan.filters_to_remove(about, who, acl_plan.FilterOptions())

    assert all(any(one.matches(each) for one in filters) for each in added)
    assert not any(one.matches(other) for one in filters)


def test_an_operation_alone_is_a_filter_and_not_every_acl() -> None:
    chosen = acl_plan.FilterOptions(operations=("read",))
    filters = acl_plan.filters_to_remove(resources(topics=("a",)), rules(), chosen)

    bob = AccessControlEntry("User:bob", "*", READ, ALLOW)
    assert [
        any(one.matches(AclBinding(ResourcePattern(TOPIC, "a"), entry)) for one in filters)
        for entry in (bob, bob._replace(operation=WRITE))
    ] == [True, False]


def test_every_acl_of_a_cluster_is_not_removed_by_one_command() -> None:
    with pytest.raises(errors.BadUsage, match="every ACL of the cluster is never removed"):
        acl_plan.filters_to_remove(resources(), rules(), acl_plan.FilterOptions())


@pytest.mark.parametrize("host", ["broker.example.org", "10.0.0", "10.0.0.0/8", ""])
def test_a_host_that_no_address_equals_is_refused(host: str) -> None:
    with pytest.raises(errors.BadUsage, match="no IP address"):
        acl_terms.parse_host(host)


def test_a_host_is_written_as_the_authorizer_has_it() -> None:
    assert acl_terms.parse_host("::1") == "0:0:0:0:0:0:0:1"
    assert acl_terms.parse_host("*") == "*"


# Decisions.

NAMES: Final = ("*", "a", "ab", "abc", "b")
USERS: Final = ("User:*", "User:alice", "User:bob")
HOSTS: Final = ("*", "10.0.0.1", "10.0.0.2")


def random_rules(random: Random) -> list[AclBinding]:
    bindings = []
    for _ in range(random.randint(0, 9)):
        resource_type = random.choice((TOPIC, TOPIC, ResourceType.GROUP))
        kind = random.choice((LITERAL, PREFIXED))
        pattern = ResourcePattern(resource_type, random.choice(NAMES[kind is PREFIXED :]), kind)
        operation = random.choice((*supported_operations(resource_type), ALL))
        permission = random.choice((ALLOW, ALLOW, DENY))
        entry = AccessControlEntry(
            random.choice(USERS), random.choice(HOSTS), operation, permission
        )
        bindings.append(AclBinding(pattern, entry))
    return bindings


def random_settings(random: Random) -> Any:
    users = random.choice((frozenset(), frozenset({Principal("User", "bob")})))
    return acl_decisions.AclSettings(users, random.random() < 0.5)


def broker_of(bindings: list[AclBinding], settings: Any) -> Authorizer:
    cache: AclCache = acl_decisions.cache_of(bindings)
    return Authorizer(
        cache,
        super_users=settings.super_users,
        allow_everyone_if_no_acl_found=settings.allow_everyone,
    )


ASKERS: Final = ("alice", "bob", "carol")
ADDRESSES: Final = ("10.0.0.1", "10.0.0.2", "10.9.9.9")


@pytest.mark.parametrize("seed", range(60))
def test_explain_says_what_the_brokers_authorizer_decides(seed: int) -> None:
    random = Random(seed)
    bindings, settings = random_rules(random), random_settings(random)
    book = acl_decisions.RuleBook(acl_decisions.cache_of(bindings), settings)
    broker = broker_of(bindings, settings)

    for user, host, name, operation in product(
        ASKERS, ADDRESSES, ("a", "ab", "abcd", "b", "z"), supported_operations(TOPIC)
    ):
        principal = Principal("User", user)
        record = acl_explanations.explain_right(
            book, principal, host, operation, ResourcePattern(TOPIC, name)
        )
        expected = broker.authorize(Requester(principal, host, "x"), operation, TOPIC, name)

        assert record["is_allowed"] is expected
        if record["rule"] is not None:
            assert record["rule"] in said(bindings)
            assert record["because"] == record["rule"].split()[0]
            assert (record["because"] == "allow") is expected
        assert bool(record["commands"]) is not expected


@pytest.mark.parametrize("seed", range(60))
def test_who_has_a_row_just_for_those_whom_the_brokers_authorizer_allows(seed: int) -> None:
    random = Random(seed)
    bindings, settings = random_rules(random), random_settings(random)
    book = acl_decisions.RuleBook(acl_decisions.cache_of(bindings), settings)
    broker = broker_of(bindings, settings)

    for name in ("a", "ab", "abcd", "z"):
        rights = book.who(TOPIC, name)

        # A principal without any row is one of User:*.
        named = {str(each.principal) for each in rights}
        for user, host, operation in product(ASKERS, ADDRESSES, supported_operations(TOPIC)):
            asker = Requester(Principal("User", user), host, "x")
            expected = broker.authorize(asker, operation, TOPIC, name)
            who = f"User:{user}" if f"User:{user}" in named else "User:*"
            assert says(rights, who, host, operation) is expected, (name, user, host, operation)


def says(rights: list[Any], who: str, host: str, operation: AclOperation) -> bool:
    """What the rows say of a principal: that of its own host first."""
    for there in (host, "*"):
        for each in rights:
            if (str(each.principal), each.host) == (who, there) and operation in each.operations:
                return bool(each.decision.is_allowed)
    return False


@pytest.mark.parametrize("seed", range(60))
def test_the_rights_of_a_principal_are_those_on_what_only_that_rule_names(seed: int) -> None:
    random = Random(seed)
    bindings, settings = random_rules(random), random_settings(random)
    cache = acl_decisions.cache_of(bindings)
    book = acl_decisions.RuleBook(cache, settings)
    broker = broker_of(bindings, settings)

    for user in ASKERS:
        principal = Principal("User", user)
        for right in book.rights_of(principal):
            if right.resource is None:
                continue
            host = "10.9.9.9" if right.host == "*" else right.host
            for operation in right.operations:
                asker = Requester(principal, host, "x")
                name = book.probe(right.resource)
                kind = right.resource.resource_type
                assert broker.authorize(asker, operation, kind, name) is right.decision.is_allowed
                assert right.resource in cache.patterns_of(kind, name)


@pytest.mark.parametrize("seed", range(60))
def test_commands_that_would_allow_it_do_allow_it(seed: int) -> None:
    random = Random(seed)
    bindings = random_rules(random)
    settings = acl_decisions.AclSettings(frozenset(), random.random() < 0.5)
    book = acl_decisions.RuleBook(acl_decisions.cache_of(bindings), settings)
    alice = Principal("User", "alice")

    for name, operation in product(("a", "abc", "z"), supported_operations(TOPIC)):
        asked = acl_decisions.AskedRight(alice, "10.0.0.1", operation, TOPIC, name)
        after = set(bindings)
        for binding, is_added in book.changes_to_allow(asked):
            assert (binding in after) is not is_added
            after ^= {binding}
        broker = broker_of(sorted(after), settings)
        requester = Requester(alice, asked.host, "x")
        assert broker.authorize(requester, operation, TOPIC, name)


@pytest.mark.parametrize("seed", range(60))
def test_a_right_on_any_topic_is_decided_as_by_the_broker(seed: int) -> None:
    random = Random(seed)
    bindings, settings = random_rules(random), random_settings(random)
    book = acl_decisions.RuleBook(acl_decisions.cache_of(bindings), settings)
    broker = broker_of(bindings, settings)

    for user, host in product(ASKERS, ADDRESSES):
        principal = Principal("User", user)
        decision = book.decide_on_any(principal, host, WRITE, TOPIC)
        expected = broker.authorize_by_resource_type(Requester(principal, host, "x"), WRITE, TOPIC)
        assert decision.is_allowed is expected
        if decision.rule is not None:
            assert decision.rule in bindings
            assert (decision.rule.entry.permission_type is ALLOW) is expected


def test_what_brokers_hide_makes_a_decision_unknown_only_where_it_decides() -> None:
    rule = AclBinding(ResourcePattern(TOPIC, "a"), AccessControlEntry("User:bob", "*", READ, ALLOW))
    unknown = acl_decisions.AclSettings(None, None)
    book = acl_decisions.RuleBook(acl_decisions.cache_of([rule]), unknown)

    def explained(name: str, user: str) -> Any:
        return acl_explanations.explain_right(
            book, Principal("User", user), None, READ, ResourcePattern(TOPIC, name)
        )

    assert explained("a", "bob")["is_allowed"] is True
    refused = explained("a", "alice")
    assert (refused["is_allowed"], refused["is_super_user"]) == (False, None)
    assert refused["reason"] == (
        "there are ACLs, and none of them allows read on topic:a; as a super user it may all the "
        "same, and super.users is not known"
    )
    assert explained("z", "alice")["is_allowed"] is None
    assert explained("z", "alice")["because"] == "no_acl_found"


def test_hosts_where_it_is_otherwise_are_named() -> None:
    pattern = ResourcePattern(TOPIC, "a")
    bindings = [
        AclBinding(pattern, AccessControlEntry("User:bob", "*", READ, ALLOW)),
        AclBinding(pattern, AccessControlEntry("User:*", "10.0.0.1", ALL, DENY)),
        AclBinding(pattern, AccessControlEntry("User:bob", "10.0.0.2", WRITE, DENY)),
    ]
    settings = acl_decisions.AclSettings(frozenset(), False)
    book = acl_decisions.RuleBook(acl_decisions.cache_of(bindings), settings)

    record = acl_explanations.explain_right(book, Principal("User", "bob"), None, DESCRIBE, pattern)

    assert record["is_allowed"] is True
    assert record["reason"] == "an ACL allows what implies describe on topic:a"
    assert [(each["host"], each["rule"]) for each in record["other_hosts"]] == [
        ("10.0.0.1", "deny User:* from 10.0.0.1 all on topic:a")
    ]


def test_a_super_user_called_star_is_not_every_user() -> None:
    star = frozenset({Principal("User", "*")})
    book = acl_decisions.RuleBook(
        acl_decisions.cache_of([]), acl_decisions.AclSettings(star, False)
    )

    assert [each.decision.is_allowed for each in book.who(TOPIC, "a")] == [False]


# Requests.

HANDLERS: Final = ROOT / "replica_manager" / "server" / "handlers"
CHECKED_ELSEWHERE: Final = {
    "OffsetCommit": {(READ, TOPIC)},  # group_partitions.py
    "OffsetDelete": {(READ, TOPIC)},
    "TxnOffsetCommit": {(READ, TOPIC)},
    "AlterConfigs": {
        (AclOperation.ALTER_CONFIGS, TOPIC),
        (AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),
    },
    "IncrementalAlterConfigs": {
        (AclOperation.ALTER_CONFIGS, TOPIC),
        (AclOperation.ALTER_CONFIGS, ResourceType.CLUSTER),
    },
    "DescribeCluster": {(DESCRIBE, ResourceType.CLUSTER)},  # authorization.py::cluster_operations
}
TYPE_OF_CHECK: Final = {
    "check_cluster": ResourceType.CLUSTER,
    "is_cluster_allowed": ResourceType.CLUSTER,
    "cluster_operations": ResourceType.CLUSTER,
    "check_group": ResourceType.GROUP,
    "check_transactional_id": ResourceType.TRANSACTIONAL_ID,
}


def checked_by(handler: Path) -> set[tuple[AclOperation, ResourceType]]:
    """The (operation, type) pairs that a handler's calls name."""
    found = set()
    for node in ast.walk(ast.parse(handler.read_text())):
        if not isinstance(node, ast.Call):
            continue
        names = [ast.unparse(each).split(".") for each in node.args]
        operations = [AclOperation[each[1]] for each in names if each[0] == "AclOperation"]
        types = [
            ResourceType[each[1]]
            for each in names
            if each[0] in ("ResourceType", "AclResourceType")
        ]
        function = ast.unparse(node.func)
        types += [TYPE_OF_CHECK[function]] if function in TYPE_OF_CHECK else []
        found |= set(product(operations, types))
        if function == "cluster_operations":
            found.add((DESCRIBE, ResourceType.CLUSTER))
        if function == "may_describe":
            found |= {(DESCRIBE, each) for each in types}
    return found


NOT_SERVED: Final = (
    ApiKey.ENVELOPE,  # closes the connection
    ApiKey.CONSUMER_GROUP_HEARTBEAT,  # is refused, as the next
    ApiKey.CONSUMER_GROUP_DESCRIBE,
)


def test_the_rights_of_each_request_are_those_that_its_handler_checks() -> None:
    differing = {}
    for handler in sorted(HANDLERS.glob("*.py")):
        key = next((row for row in APIS.values() if snake(row.name) == handler.stem), None)
        if key is None or key.key in NOT_SERVED:
            continue
        table = {choice for check in acl_needs.checks_of(key.key) for choice in check.choices}
        gates = acl_needs.CLUSTER_GATES.get(key.key, ())
        checked = checked_by(handler) | CHECKED_ELSEWHERE.get(key.name, set())
        checked |= {(operation, ResourceType.CLUSTER) for operation in gates}
        if table != checked:
            differing[key.name] = table ^ checked
    assert differing == {}


def snake(name: str) -> str:
    return "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")


def needed(api: str, *about: ResourcePattern) -> list[tuple[list[str], str | None]]:
    row = acl_needs.api_named(api)
    return [
        ([acl_explanations._right_text(each) for each in need.choices], need.when)
        for need in acl_needs.needs_of(row, about)
    ]


ORDERS: Final = ResourcePattern(TOPIC, "orders")
TX: Final = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx")
GROUP: Final = ResourcePattern(ResourceType.GROUP, "g")


def test_a_request_needs_the_rights_on_what_it_names() -> None:
    assert needed("produce", ORDERS) == [(["write on topic:orders"], None)]
    assert needed("0", ORDERS, TX) == [
        (["write on transactional_id:tx"], None),
        (["write on topic:orders"], None),
    ]
    assert needed("InitProducerId") == [
        (["idempotent_write on cluster", "write on any topic"], None)
    ]
    assert needed("INIT_PRODUCER_ID", TX) == [(["write on transactional_id:tx"], None)]
    assert needed("CreateTopicsRequest", ORDERS)[0] == (
        ["create on cluster", "create on topic:orders"],
        None,
    )
    assert needed("FindCoordinator", GROUP)[0] == (["describe on group:g"], None)
    assert needed("FindCoordinator", TX)[0] == (["describe on transactional_id:tx"], None)
    assert needed("Heartbeat", GROUP) == [(["read on group:g"], None)]
    assert needed("DescribeConfigs") == [(["describe_configs on cluster"], None)]
    assert needed("CreateAcls") == [(["alter on cluster"], None)]
    assert needed("ApiVersions") == []


@pytest.mark.parametrize(
    ("api", "why"),
    [
        ("Produce", "Produce is about a topic: say --topic NAME"),
        ("OffsetCommit", "say --group NAME"),
        ("Prodduce", "no request of Kafka; say one of Produce, Fetch"),
        ("ShareFetch", "do not serve ShareFetch"),
        ("ConsumerGroupDescribe", "do not serve ConsumerGroupDescribe"),
    ],
)
def test_a_request_that_cannot_be_explained_is_refused_with_what_is_missing(
    api: str, why: str
) -> None:
    with pytest.raises(errors.BadUsage, match=why):
        needed(api)
