"""Rules of Kafka's access control lists: their znodes, what follows from them, how they change."""

from __future__ import annotations

import logging
import tracemalloc
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.errors import ConfigInvalid, ZnodeCorrupt
from replica_manager.security.acl_cache import (
    AclBinding,
    AclBindingFilter,
    AclBindingFilters,
    AclCache,
    FiltersByPattern,
    VersionedAcls,
)
from replica_manager.security.acl_store import MOST_UNPUBLISHED, AclStore
from replica_manager.security.audit_log import LINES_WITH_REPEATS, MOST_LINES, WINDOW_S, AuditLog
from replica_manager.security.authorizer import MOST_DECISION_BYTES, Authorizer, Requester
from replica_manager.security.permissions import Permissions
from replica_manager.security.principals import Principal, host_name_of, parse_super_users
from tests.support.broker_world import BrokersSession
from zkcontroller.zookeeper.kafka_acl_znodes import AclChangeZnode, AclZnode
from zkcontroller.zookeeper.requests import Create, SetData, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_simulation.zookeeper import SimulatedZooKeeper

READ, WRITE, DESCRIBE, ALL = (
    AclOperation.READ,
    AclOperation.WRITE,
    AclOperation.DESCRIBE,
    AclOperation.ALL,
)
ALICE = Requester(Principal("User", "alice"), "10.0.0.1", "METADATA")


def topic(name: str, *, prefixed: bool = False) -> ResourcePattern:
    kind = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return ResourcePattern(ResourceType.TOPIC, name, kind)


def allow(who: str, operation: AclOperation, host: str = "*") -> AccessControlEntry:
    return AccessControlEntry(who, host, operation, PermissionType.ALLOW)


def deny(who: str, operation: AclOperation, host: str = "*") -> AccessControlEntry:
    return AccessControlEntry(who, host, operation, PermissionType.DENY)


def authorizer(
    rules: dict[ResourcePattern, list[AccessControlEntry]], **options: Any
) -> Authorizer:
    acls = {pattern: VersionedAcls(tuple(entries), 0) for pattern, entries in rules.items()}
    return Authorizer(AclCache(acls), **options)


# Bytes: what Kafka 3.9.1 itself writes for the same rules.


def test_a_znode_of_rules_equals_kafkas_byte_for_byte() -> None:
    one = allow("User:alice", READ)
    two = deny('User:CN=b"ob,O=Ünal', AclOperation.IDEMPOTENT_WRITE, "10.0.0.1")

    assert AclZnode((one,)).encode() == (
        b'{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*",'
        b'"operation":"Read"}],"version":1}'
    )
    assert (
        AclZnode((one, two)).encode()
        == (
            '{"acls":[{"principal":"User:alice","permissionType":"Allow","host":"*","operation":"Read"}'
            ',{"principal":"User:CN=b\\"ob,O=Ünal","permissionType":"Deny","host":"10.0.0.1",'
            '"operation":"IdempotentWrite"}],"version":1}'
        ).encode()
    )
    assert AclZnode.decode("/p", AclZnode((one, two)).encode()) == AclZnode((one, two))


@pytest.mark.parametrize(
    ("kind", "path", "data"),
    [
        (PatternType.LITERAL, "/kafka-acl-changes/acl_changes_", b"TRANSACTIONAL_ID:tx:a"),
        (
            PatternType.PREFIXED,
            "/kafka-acl-extended-changes/acl_changes_",
            b'{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"tx:a",'
            b'"patternType":"PREFIXED"}',
        ),
    ],
)
def test_a_note_of_a_change_equals_kafkas(kind: PatternType, path: str, data: bytes) -> None:
    change = AclChangeZnode(ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx:a", kind))

    assert (change.create_path, change.encode()) == (path, data)
    assert AclChangeZnode.decode(f"{path}0000000001", data) == change


def test_prefixes_have_a_tree_of_their_own() -> None:
    pattern = ResourcePattern(ResourceType.TRANSACTIONAL_ID, "tx-", PatternType.PREFIXED)

    assert AclZnode.path(pattern) == "/kafka-acl-extended/prefixed/TransactionalId/tx-"
    assert AclZnode.path(topic("a")) == "/kafka-acl/Topic/a"


def test_names_are_read_in_any_case_and_unknown_ones_match_nothing() -> None:
    data = (
        b'{"version":1,"acls":[{"principal":"User:a","permissionType":"ALLOW","operation":'
        b'"describeconfigs","host":"*"},{"principal":"User:a","permissionType":"Allow",'
        b'"operation":"TwoPhaseCommit","host":"*"}]}'
    )

    known, unknown = AclZnode.decode("/p", data).entries

    assert known.operation is AclOperation.DESCRIBE_CONFIGS
    assert unknown.operation is AclOperation.UNKNOWN


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"[]",
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[{}]}',
        b'{"version":1,"acls":[{"principal":"alice","permissionType":"Allow","operation":"Read",'
        b'"host":"*"}]}',
    ],
)
def test_a_corrupt_znode_is_no_set_of_rules(data: bytes) -> None:
    with pytest.raises(ZnodeCorrupt):
        AclZnode.decode("/kafka-acl/Topic/a", data)


# Decisions


@pytest.mark.parametrize(
    ("rules", "operation", "expected"),
    [
        ({}, READ, False),
        ({topic("orders"): [allow("User:alice", READ)]}, READ, True),
        ({topic("orders"): [allow("User:alice", READ)]}, WRITE, False),
        ({topic("orders"): [allow("User:bob", READ)]}, READ, False),
        ({topic("orders"): [allow("Group:alice", READ)]}, READ, False),
        ({topic("order"): [allow("User:alice", READ)]}, READ, False),
        ({topic("*"): [allow("User:alice", READ)]}, READ, True),
        ({topic("*", prefixed=True): [allow("User:alice", READ)]}, READ, False),
        ({topic("ord", prefixed=True): [allow("User:*", READ)]}, READ, True),
        ({topic("orders", prefixed=True): [allow("User:*", ALL)]}, READ, True),
        ({topic("orders-", prefixed=True): [allow("User:*", ALL)]}, READ, False),
        ({topic("orders"): [allow("User:alice", READ, "10.0.0.1")]}, READ, True),
        ({topic("orders"): [allow("User:alice", READ, "10.0.0.2")]}, READ, False),
        ({topic("orders"): [allow("User:alice", WRITE)]}, DESCRIBE, True),
        ({topic("orders"): [allow("User:alice", AclOperation.ALTER_CONFIGS)]}, DESCRIBE, False),
        (
            {topic("orders"): [allow("User:alice", AclOperation.ALTER_CONFIGS)]},
            AclOperation.DESCRIBE_CONFIGS,
            True,
        ),
        # Deny wins, wherever it stands and however general it is.
        (
            {topic("orders"): [allow("User:alice", READ)], topic("*"): [deny("User:*", ALL)]},
            READ,
            False,
        ),
        (
            {
                topic("orders"): [allow("User:alice", READ)],
                topic("o", prefixed=True): [deny("User:alice", READ, "10.0.0.1")],
            },
            READ,
            False,
        ),
        # To deny reading does not deny describing.
        (
            {topic("orders"): [allow("User:alice", WRITE), deny("User:alice", READ)]},
            DESCRIBE,
            True,
        ),
    ],
)
def test_what_the_rules_say(
    rules: dict[ResourcePattern, list[AccessControlEntry]],
    operation: AclOperation,
    expected: bool,
) -> None:
    decision = authorizer(rules).authorize(ALICE, operation, ResourceType.TOPIC, "orders")

    assert decision is expected


def test_without_acls_everything_is_allowed_if_configured() -> None:
    generous = authorizer(
        {topic("orders"): [allow("User:bob", READ)]}, allow_everyone_if_no_acl_found=True
    )

    assert generous.authorize(ALICE, READ, ResourceType.TOPIC, "invoices")
    assert not generous.authorize(ALICE, READ, ResourceType.TOPIC, "orders")


def test_a_decision_holds_as_long_as_the_rules_and_is_not_kept_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("replica_manager.security.authorizer.MOST_DECISION_BYTES", 1_500)
    rules = authorizer({topic("orders"): [allow("User:alice", READ)]})

    for number in range(10):
        assert not rules.authorize(ALICE, READ, ResourceType.TOPIC, f"orders-{number}")
    assert len(rules._decisions) <= 3
    assert rules.authorize(ALICE, READ, ResourceType.TOPIC, "orders")
    rules.cache = AclCache({})
    assert not rules.authorize(ALICE, READ, ResourceType.TOPIC, "orders")


def test_a_super_user_may_do_what_is_denied() -> None:
    users = parse_super_users(" User:alice; User:CN=bob,O=acme ;")
    strict = authorizer({topic("orders"): [deny("User:alice", ALL)]}, super_users=users)

    assert strict.authorize(ALICE, READ, ResourceType.TOPIC, "orders")
    assert strict.authorize_by_resource_type(ALICE, WRITE, ResourceType.TOPIC)
    assert Principal("User", "CN=bob,O=acme") in users
    with pytest.raises(ConfigInvalid, match=r"super\.users"):
        parse_super_users("alice")


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, False),
        ({topic("a"): [allow("User:alice", WRITE)]}, True),
        ({topic("a"): [allow("User:alice", READ)]}, False),
        ({topic("a"): [allow("User:alice", WRITE), deny("User:alice", WRITE)]}, False),
        ({topic("*"): [deny("User:*", ALL)], topic("a"): [allow("User:alice", WRITE)]}, False),
        (
            {
                topic("a", prefixed=True): [deny("User:alice", WRITE)],
                topic("ab"): [allow("User:alice", WRITE)],
            },
            False,
        ),
        (
            {
                topic("ab", prefixed=True): [deny("User:alice", WRITE)],
                topic("a", prefixed=True): [allow("User:alice", WRITE)],
            },
            True,
        ),
        (
            {
                topic("a", prefixed=True): [deny("User:alice", WRITE)],
                topic("*"): [allow("User:alice", WRITE)],
            },
            True,
        ),
    ],
)
def test_whether_anything_of_a_type_is_allowed(
    rules: dict[ResourcePattern, list[AccessControlEntry]], expected: bool
) -> None:
    decision = authorizer(rules).authorize_by_resource_type(ALICE, WRITE, ResourceType.TOPIC)

    assert decision is expected


@pytest.mark.parametrize("names", [["orders", "bills"], {"orders": None, "bills": None}])
def test_the_audit_log_counts_a_name_once_that_comes_once(
    names: Iterable[str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")

    allowed = Permissions(authorizer({}), ALICE).allowed_names(WRITE, ResourceType.TOPIC, names)

    assert allowed == {}
    assert [each.rpartition(" with ")[2] for each in caplog.messages] == [
        "resourceRefCount = 1",
        "resourceRefCount = 1",
    ]


def test_the_audit_log_says_what_kafkas_says(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "kafka.authorizer.logger")
    rules = authorizer({topic("orders"): [allow("User:alice", READ)]})

    rules.authorize(ALICE, READ, ResourceType.TOPIC, "orders", reference_count=2)
    rules.authorize(ALICE, WRITE, ResourceType.TOPIC, "orders")
    rules.authorize(ALICE, WRITE, ResourceType.TOPIC, "orders", log_if_denied=False)

    assert [(each.levelname, each.getMessage()) for each in caplog.records] == [
        (
            "DEBUG",
            "Principal = User:alice is Allowed Operation = Read from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = METADATA with resourceRefCount = 2",
        ),
        (
            "INFO",
            "Principal = User:alice is Denied Operation = Write from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = METADATA with resourceRefCount = 1",
        ),
    ]


def test_what_is_remembered_of_decisions_is_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    most_bytes = MOST_DECISION_BYTES // 8
    monkeypatch.setattr("replica_manager.security.authorizer.MOST_DECISION_BYTES", most_bytes)
    rules = authorizer({})

    tracemalloc.start()
    for number in range(30_000):
        name = f"{number:0200d}"
        rules.authorize(ALICE, READ, ResourceType.TOPIC, name, log_if_denied=False)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert held < 1.5 * most_bytes


def test_a_name_that_no_topic_can_have_is_not_remembered() -> None:
    rules = authorizer({topic("*"): [allow("User:alice", READ)]})

    assert rules.authorize(ALICE, READ, ResourceType.TOPIC, "x" * 30_000)
    assert not rules._decisions


def test_repeated_denials_are_counted_and_not_written_without_end(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")
    now_s = 0.0
    log = AuditLog(lambda: now_s)
    alice, bob = ALICE.principal, Principal("User", "bob")

    for _ in range(2 * LINES_WITH_REPEATS):
        log.denied(alice, "the same")
    assert len(caplog.records) == LINES_WITH_REPEATS
    for number in range(2 * MOST_LINES):
        log.denied(alice, f"another {number}")
    assert len(caplog.records) == MOST_LINES
    log.denied(bob, "his first")
    assert caplog.records[-1].getMessage() == "his first"

    caplog.clear()
    now_s = WINDOW_S
    log.denied(alice, "the same")

    assert [each.getMessage() for each in caplog.records] == [
        f"Principal = User:alice was Denied {LINES_WITH_REPEATS + 2 * MOST_LINES - 900} "
        "more times than are listed here",
        "the same",
    ]


def test_a_line_of_the_audit_log_shows_the_beginning_of_a_long_name(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "kafka.authorizer.logger")

    authorizer({}).authorize(ALICE, READ, ResourceType.TOPIC, "x" * 30_000)

    assert len(caplog.records[0].getMessage()) < 600


def test_hosts_are_named_as_java_names_them() -> None:
    assert host_name_of("10.0.0.1") == "10.0.0.1"
    assert host_name_of("2001:db8::1") == "2001:db8:0:0:0:0:0:1"


# Filters


def wanted(
    name: str | None, kind: PatternType, resource_type: ResourceType = ResourceType.TOPIC
) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type, name, kind, None, None, AclOperation.ANY, PermissionType.ANY
    )


@pytest.mark.parametrize(
    ("name", "kind", "expected"),
    [
        (None, PatternType.ANY, {"orders", "*", "ord", "o"}),
        ("orders", PatternType.LITERAL, {"orders"}),
        ("orders", PatternType.PREFIXED, set()),
        ("ord", PatternType.ANY, {"ord"}),
        ("orders", PatternType.MATCH, {"orders", "*", "ord", "o"}),
        ("oranges", PatternType.MATCH, {"*", "o"}),
    ],
)
def test_a_filter_means_patterns_by_name_or_by_what_they_apply_to(
    name: str | None, kind: PatternType, expected: set[str]
) -> None:
    patterns = (topic("orders"), topic("*"), topic("ord", prefixed=True), topic("o", prefixed=True))
    cache = AclCache({each: VersionedAcls((allow("User:a", READ),), 0) for each in patterns})

    assert {each.pattern.name for each in cache.bindings(wanted(name, kind))} == expected


NAMES: Final = ("a", "ab", "abc", "b", "*")
FILTERS: Final = st.builds(
    AclBindingFilter,
    st.sampled_from([ResourceType.ANY, ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from([None, *NAMES]),
    st.sampled_from(
        [PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]
    ),
    st.sampled_from([None, "User:a", "User:b"]),
    st.sampled_from([None, "*", "10.0.0.1"]),
    st.sampled_from([AclOperation.ANY, READ, WRITE]),
    st.sampled_from([PermissionType.ANY, PermissionType.ALLOW, PermissionType.DENY]),
)
PATTERNS: Final = st.builds(
    ResourcePattern,
    st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP]),
    st.sampled_from(NAMES),
    st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
)
ENTRIES: Final = st.builds(
    AccessControlEntry,
    st.sampled_from(["User:a", "User:b"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([READ, WRITE]),
    st.sampled_from([PermissionType.ALLOW, PermissionType.DENY]),
)


@given(
    st.dictionaries(PATTERNS, st.lists(ENTRIES, min_size=1, max_size=3, unique=True)),
    st.lists(FILTERS, max_size=6),
)
def test_rules_that_are_found_by_an_index_are_those_that_each_filter_matches(
    rules: dict[ResourcePattern, list[AccessControlEntry]], filters: list[AclBindingFilter]
) -> None:
    cache = AclCache({each: VersionedAcls(tuple(those), 0) for each, those in rules.items()})
    bindings = [AclBinding(each, entry) for each, those in rules.items() for entry in those]

    for each in filters:
        found = cache.bindings(each)
        assert len(found) == len(set(found))
        assert set(found) == {binding for binding in bindings if each.matches(binding)}
    most = 2
    assert AclBindingFilters(tuple(filters)).find(dict(enumerate(bindings)), most) == [
        [n for n, binding in enumerate(bindings) if each.matches(binding)][: most + 1]
        for each in filters
    ]
    meant = FiltersByPattern(cache, filters)
    for binding in bindings:
        places = [n for n, each in enumerate(filters) if each.matches(binding)]
        assert meant.first(*binding) == min(places, default=None)
        if places:
            assert binding.pattern in meant.patterns
    exact = {pattern for each in filters for pattern in each.exact_patterns()}
    assert exact <= set(meant.patterns)


# ZooKeeper


class Side:
    """One broker's rules on a ZooKeeper that others share."""

    def __init__(self, zookeeper: SimulatedZooKeeper) -> None:
        self.session = BrokersSession(zookeeper)
        self.session.start()
        self.authorizer = Authorizer(AclCache({}))
        self.store = AclStore(
            cast(ZooKeeperSession, self.session), self.authorizer, sleep=lambda _: None
        )

    def allows(self, name: str, operation: AclOperation = READ) -> bool:
        return self.authorizer.authorize(ALICE, operation, ResourceType.TOPIC, name)


def test_rules_that_one_broker_writes_count_on_the_next() -> None:
    zookeeper = SimulatedZooKeeper()
    one, other = Side(zookeeper), Side(zookeeper)
    one.store.load()
    other.store.load()
    rules = [
        AclBinding(topic("orders"), allow("User:alice", READ)),
        AclBinding(topic("inv", prefixed=True), allow("User:alice", WRITE)),
    ]

    assert one.store.create(rules) == [ErrorCode.none, ErrorCode.none]
    assert one.allows("orders")
    assert not other.allows("orders")
    other.store.process_changes()
    assert other.allows("orders")
    assert other.allows("invoices", WRITE)

    late = Side(zookeeper)
    late.store.load()
    assert late.allows("orders")

    removed = other.store.delete([wanted("orders", PatternType.LITERAL)])
    assert removed == [[(rules[0], ErrorCode.none)]]
    assert one.session.exists(AclZnode.path(topic("orders"))) is ZkCode.NO_NODE
    one.store.process_changes()
    assert not one.allows("orders")
    assert one.allows("invoices", WRITE)


def test_filters_that_match_nothing_are_looked_up_in_zookeeper_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    side = Side(SimulatedZooKeeper())
    side.store.load()
    side.store.create([AclBinding(topic(f"o{n}"), allow("User:alice", READ)) for n in range(20)])
    asked: list[object] = []
    perform = side.session.perform

    def counted(request: Any, *rest: Any) -> Any:
        asked.append(request)
        return perform(request, *rest)

    monkeypatch.setattr(side.session, "perform", counted)
    cache = side.authorizer.cache
    named = [wanted(f"t{n}", PatternType.ANY) for n in range(1_000)]
    of_nobody = wanted(None, PatternType.ANY)._replace(principal="User:nobody")
    removed = side.store.delete([*named, of_nobody])

    assert removed == [[] for _ in range(1_001)]
    assert len(asked) == 1
    assert side.authorizer.cache is cache


def test_a_rule_that_another_broker_has_just_added_is_deleted_too() -> None:
    zookeeper = SimulatedZooKeeper()
    one, other = Side(zookeeper), Side(zookeeper)
    one.store.load()
    one.store.create([AclBinding(topic("orders"), allow("User:bob", READ))])
    other.store.load()
    added = AclBinding(topic("orders"), allow("User:alice", READ))
    one.store.create([added])
    one.store.process_changes()
    assert one.allows("orders")

    of_alice = wanted(None, PatternType.ANY)._replace(principal="User:alice")

    # The other one deletes by what it reads when its first attempt meets another version.
    assert other.store.delete([of_alice]) == [[(added, ErrorCode.none)]]
    assert other.store.delete([of_alice]) == [[]]
    one.store.process_changes()
    assert not one.allows("orders")


def test_a_rule_that_another_broker_has_just_deleted_is_created_again_for_all() -> None:
    zookeeper = SimulatedZooKeeper()
    one, other = Side(zookeeper), Side(zookeeper)
    of_alice = AclBinding(topic("orders"), allow("User:alice", READ))
    one.store.load()
    one.store.create([of_alice, AclBinding(topic("orders"), allow("User:bob", READ))])
    other.store.load()
    one.store.delete([wanted(None, PatternType.ANY)._replace(principal="User:alice")])
    one.store.process_changes()

    assert other.store.create([of_alice]) == [ErrorCode.none]
    one.store.process_changes()
    assert one.allows("orders")


def test_many_changes_of_one_request_are_in_the_cache_when_it_ends() -> None:
    side = Side(SimulatedZooKeeper())
    side.store.load()
    caches: list[AclCache] = []
    updated = AclCache.updated
    rules = [
        AclBinding(topic(f"t{n}"), allow("User:alice", READ)) for n in range(MOST_UNPUBLISHED + 1)
    ]

    def kept(cache: AclCache, changes: Mapping[ResourcePattern, VersionedAcls]) -> AclCache:
        caches.append(updated(cache, changes))
        return caches[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AclCache, "updated", kept)
        created = side.store.create(rules)
        removed = side.store.delete([wanted(None, PatternType.ANY)])

    assert set(created) == {ErrorCode.none}
    assert [len(each.acls) for each in caches] == [500, 501, 1, 0]
    assert [binding for binding, _ in removed[0]] == rules
    assert not side.allows("t0")


def test_two_brokers_that_write_at_once_lose_nothing() -> None:
    zookeeper = SimulatedZooKeeper()
    one, other = Side(zookeeper), Side(zookeeper)
    one.store.load()
    other.store.load()

    one.store.create([AclBinding(topic("orders"), allow("User:alice", READ))])
    other.store.create([AclBinding(topic("orders"), allow("User:alice", WRITE))])
    one.store.create([AclBinding(topic("orders"), allow("User:alice", AclOperation.DELETE))])

    found = one.session.read(AclZnode.path(topic("orders")))
    assert not isinstance(found, ZkCode)
    operations = {each.operation for each in AclZnode.decode("/", found.data).entries}
    assert operations == {READ, WRITE, AclOperation.DELETE}


def test_a_rule_created_twice_stands_there_once_and_is_reported_once() -> None:
    side = Side(SimulatedZooKeeper())
    side.store.load()
    rule = AclBinding(topic("orders"), allow("User:alice", READ))

    side.store.create([rule, rule])
    side.store.create([rule])

    assert side.authorizer.cache.acls[topic("orders")].entries == (rule.entry,)
    assert len(cast(list[str], side.session.children("/kafka-acl-changes"))) == 1


def test_a_corrupt_znode_leaves_the_rules_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    side = Side(SimulatedZooKeeper())
    side.store.load()
    side.store.create([AclBinding(topic("orders"), allow("User:alice", READ))])
    side.session.write(SetData(AclZnode.path(topic("orders")), b"{"))
    side.session.write(
        Create(AclZnode.path(topic("new")), AclZnode((allow("User:alice", READ),)).encode())
    )
    for name in ("orders", "new"):
        change = AclChangeZnode(topic(name))
        side.session.write(Create(change.create_path, change.encode(), sequential=True))

    side.store.process_changes()

    assert side.allows("orders")
    assert side.allows("new")
    assert "/kafka-acl/Topic/orders is corrupt" in caplog.text
