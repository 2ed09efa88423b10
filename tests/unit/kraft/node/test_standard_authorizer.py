"""Kafka's authorizer for a quorum: the rules of the log, and what is written of each decision."""

from __future__ import annotations

import logging
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import AclOperation, PatternType, PermissionType, ResourceType
from kraft.metadata.records import AccessControlEntryRecord, RemoveAccessControlEntryRecord
from kraft.node.security_publishers import AclPublisher
from replica_manager.security.acl_cache import AclBindingFilter
from replica_manager.security.authorizer import CLUSTER_NAME, Requester
from replica_manager.security.principals import Principal
from replica_manager.security.standard_authorizer import AuthorizerNotReady, StandardAuthorizer

ADMIN = Requester(Principal("User", "admin"), "10.0.0.1", "CREATE_TOPICS")
ALICE = Requester(Principal("User", "alice"), "10.0.0.2", "CREATE_TOPICS")
ALL_RULES = AclBindingFilter(
    ResourceType.ANY,
    None,
    PatternType.ANY,
    None,
    None,
    AclOperation.ANY,
    PermissionType.ANY,
)


def rule(
    number: int,
    name: str = "orders",
    operation: AclOperation = AclOperation.READ,
    permission: PermissionType = PermissionType.ALLOW,
    *,
    pattern_type: PatternType = PatternType.LITERAL,
    principal: str = "User:alice",
) -> AccessControlEntryRecord:
    return AccessControlEntryRecord(
        UUID(int=number),
        ResourceType.TOPIC,
        name,
        pattern_type,
        principal,
        "*",
        operation,
        permission,
    )


def told(
    *records: AccessControlEntryRecord | RemoveAccessControlEntryRecord,
    allow_everyone: bool = False,
) -> tuple[StandardAuthorizer, AclPublisher]:
    """An authorizer that has read the whole log."""
    authorizer = StandardAuthorizer(
        super_users=frozenset((ADMIN.principal,)), allow_everyone_if_no_acl_found=allow_everyone
    )
    publisher = AclPublisher(authorizer)
    publisher.publish(records)
    publisher.caught_up()
    return authorizer, publisher


def may_read(authorizer: StandardAuthorizer, name: str = "orders") -> bool:
    return authorizer.authorize(ALICE, AclOperation.READ, ResourceType.TOPIC, name)


def rules_in(authorizer: StandardAuthorizer) -> list[tuple[str, AclOperation]]:
    found = authorizer.cache.bindings(ALL_RULES)
    return [(binding.pattern.name, binding.entry.operation) for binding in found]


def test_until_the_rules_are_there_only_super_users_may() -> None:
    authorizer = StandardAuthorizer(super_users=frozenset((ADMIN.principal,)))
    publisher = AclPublisher(authorizer)
    publisher.publish([rule(1)])

    assert authorizer.authorize(
        ADMIN, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME
    )
    with pytest.raises(AuthorizerNotReady) as refused:
        may_read(authorizer)
    assert refused.value.error is ErrorCode.unknown_server_error

    publisher.caught_up()
    assert may_read(authorizer)


def test_rules_count_from_their_commit_to_their_removal() -> None:
    authorizer, publisher = told()
    assert not may_read(authorizer)

    publisher.publish([rule(1), rule(2, operation=AclOperation.WRITE)])
    assert may_read(authorizer)

    publisher.publish([RemoveAccessControlEntryRecord(UUID(int=1))])
    assert not may_read(authorizer)
    assert rules_in(authorizer) == [("orders", AclOperation.WRITE)]


def test_what_comes_and_goes_at_once_was_never_there() -> None:
    authorizer, publisher = told()

    publisher.publish([rule(1), RemoveAccessControlEntryRecord(UUID(int=1))])

    assert rules_in(authorizer) == []


def test_a_rule_that_is_there_twice_stays_until_both_are_gone() -> None:
    authorizer, publisher = told(rule(1), rule(2))
    assert rules_in(authorizer) == [("orders", AclOperation.READ)]

    publisher.publish([RemoveAccessControlEntryRecord(UUID(int=1))])
    assert may_read(authorizer)

    publisher.publish([RemoveAccessControlEntryRecord(UUID(int=2))])
    assert not may_read(authorizer)


def test_a_removal_of_what_is_not_there_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    authorizer, publisher = told(rule(1))

    publisher.publish([RemoveAccessControlEntryRecord(UUID(int=9))])

    assert may_read(authorizer)
    assert "removes rule 00000000-0000-0000-0000-000000000009" in caplog.text


def test_a_snapshot_replaces_every_rule() -> None:
    authorizer, publisher = told(rule(1), rule(2, "payments"))

    publisher.load([rule(3, "parcels")])
    assert rules_in(authorizer) == [("parcels", AclOperation.READ)]

    publisher.publish([RemoveAccessControlEntryRecord(UUID(int=3))])
    assert rules_in(authorizer) == []


@pytest.mark.parametrize("allow_everyone", [False, True])
def test_where_there_is_no_rule_the_configuration_decides(allow_everyone: bool) -> None:
    authorizer, _ = told(rule(1, principal="User:bob"), allow_everyone=allow_everyone)

    assert may_read(authorizer, "payments") is allow_everyone
    assert not may_read(authorizer, "orders")


@pytest.mark.parametrize(
    ("records", "requester", "line"),
    [
        (
            (),
            ADMIN,
            "Principal = User:admin is Allowed operation = READ from host = 10.0.0.1 on resource = "
            "Topic:LITERAL:orders for request = CREATE_TOPICS with resourceRefCount = 1 based on "
            "rule SuperUser",
        ),
        (
            (),
            ALICE,
            "Principal = User:alice is Denied operation = READ from host = 10.0.0.2 on resource = "
            "Topic:LITERAL:orders for request = CREATE_TOPICS with resourceRefCount = 1 based on "
            "rule DefaultDeny",
        ),
        (
            (rule(1), rule(2, "*"), rule(3, "ord", pattern_type=PatternType.PREFIXED)),
            ALICE,
            "rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=*, "
            "patternType=LITERAL, principal=User:alice, host=*, operation=READ, "
            "permissionType=ALLOW))",
        ),
        (
            (
                rule(1),
                rule(2, "o", permission=PermissionType.DENY, pattern_type=PatternType.PREFIXED),
                rule(3, "ord", permission=PermissionType.DENY, pattern_type=PatternType.PREFIXED),
            ),
            ALICE,
            "rule MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=ord, "
            "patternType=PREFIXED, principal=User:alice, host=*, operation=READ, "
            "permissionType=DENY))",
        ),
    ],
)
def test_the_audit_log_names_the_rule_that_decided(
    caplog: pytest.LogCaptureFixture,
    records: tuple[AccessControlEntryRecord, ...],
    requester: Requester,
    line: str,
) -> None:
    authorizer, _ = told(*records)

    with caplog.at_level(logging.DEBUG, "kafka.authorizer.logger"):
        authorizer.authorize(requester, AclOperation.READ, ResourceType.TOPIC, "orders")

    [written] = [each.getMessage() for each in caplog.records]
    assert written.endswith(line)
