"""How many rules one request may create and delete."""

from __future__ import annotations

from itertools import count
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.api_error import NO_ERROR, ApiException
from kraft.controller.acl_control import AclControlManager, StandardAcl
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.metadata.records import AccessControlEntryRecord
from replica_manager.security.acl_cache import AclBindingFilter, AclBindingFilters

MOST = 10_000


def rule(number: int) -> StandardAcl:
    return StandardAcl(
        ResourcePattern(
            ResourceType.TOPIC if number % 2 else ResourceType.GROUP,
            f"r{number}",
            PatternType.LITERAL,
        ),
        AccessControlEntry("User:alice", "*", AclOperation.READ, PermissionType.ALLOW),
    )


def meaning(resource_type: ResourceType, name: str | None = None) -> AclBindingFilter:
    return AclBindingFilter(
        resource_type, name, PatternType.ANY, None, None, AclOperation.ANY, PermissionType.ANY
    )


def with_rules(number: int) -> AclControlManager:
    ids = (UUID(int=n) for n in count(1))
    manager = AclControlManager(SnapshotRegistry(), lambda: next(ids))
    for first in range(0, number, MOST):
        part = [rule(n) for n in range(first, min(first + MOST, number))]
        for versioned in manager.create_acls(part).records:
            assert isinstance(versioned.record, AccessControlEntryRecord)
            manager.replay(versioned.record)
    return manager


def test_so_many_rules_are_created_at_once_and_no_more() -> None:
    manager = with_rules(0)

    assert len(manager.create_acls([rule(n) for n in range(MOST)]).records) == MOST
    with pytest.raises(ApiException) as refused:
        manager.create_acls([rule(n) for n in range(MOST + 1)])

    assert refused.value.error is ErrorCode.policy_violation


def test_so_many_rules_are_deleted_at_once_and_no_more() -> None:
    all_of_them = with_rules(MOST).delete_acls(AclBindingFilters((meaning(ResourceType.ANY),)))
    too_many = with_rules(MOST + 2).delete_acls(
        AclBindingFilters(
            (
                meaning(ResourceType.TOPIC),
                meaning(ResourceType.ANY),
                meaning(ResourceType.GROUP, "r0"),
            )
        )
    )

    assert len(all_of_them.records) == MOST
    assert all_of_them.response[0].error == NO_ERROR
    topics, everything, one = too_many.response
    assert (len(topics.deleted), len(one.deleted)) == (MOST // 2 + 1, 1)
    assert everything.error == (
        ErrorCode.policy_violation,
        "Cannot remove more than 10000 acls in a single delete operation.",
    )
    assert everything.deleted == ()
    assert len(too_many.records) == MOST // 2 + 2


def test_many_filters_are_not_compared_with_every_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The controller's thread has other requests, and heartbeats."""
    compared = 0
    matches_pattern = AclBindingFilter.matches_pattern

    def counted(wanted: AclBindingFilter, pattern: ResourcePattern) -> bool:
        nonlocal compared
        compared += 1
        return matches_pattern(wanted, pattern)

    manager = with_rules(1_000)
    monkeypatch.setattr(AclBindingFilter, "matches_pattern", counted)
    named = [meaning(ResourceType.ANY, f"r{n}") for n in range(100)]
    prefixes = [each._replace(pattern_type=PatternType.MATCH) for each in named]
    nameless = [meaning(ResourceType.ANY)._replace(principal=f"User:u{n}") for n in range(100)]

    deleted = manager.delete_acls(AclBindingFilters((*named, *prefixes, *nameless)))

    assert [len(each.deleted) for each in deleted.response] == [1] * 200 + [0] * 100
    assert len(deleted.records) == 100
    assert compared == 0
