"""The vocabulary of access control lists: resources, patterns, operations, permissions.

:mod:`zkcontroller.zookeeper.kafka_acl_znodes` stores them in ZooKeeper, :mod:`kraft.controller` in
a quorum's log, and ``replica_manager.security`` authorizes requests by them.

Source: Kafka ``ResourceType``, ``PatternType``, ``AclOperation``, ``AclPermissionType``,
``ResourcePattern``, ``AccessControlEntry``.
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple, TypeVar

from typing_extensions import override

_E = TypeVar("_E", bound=IntEnum)


class ResourceType(IntEnum):
    """The type of resource that an ACL protects; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an ACL's resource name matches; ANY and MATCH are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """The operation that an ACL allows or denies; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class PermissionType(IntEnum):
    """Whether an ACL allows or denies; ANY is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


def pascal_name(value: IntEnum) -> str:
    """The name in znodes and audit lines: ``TransactionalId`` for TRANSACTIONAL_ID."""
    return value.name.title().replace("_", "")


def by_pascal_name(kind: type[_E], name: str) -> _E:
    """The value with that :func:`pascal_name`, ignoring case; UNKNOWN if there is none."""
    found: _E = _by_name(kind).get(name.upper(), kind(0))
    return found


@cache
def _by_name(kind: type[_E]) -> dict[str, _E]:
    return {pascal_name(value).upper(): value for value in kind}


def by_code(kind: type[_E], code: int) -> _E:
    """The value with that code on the wire; UNKNOWN if there is none."""
    try:
        return kind(code)
    except ValueError:
        return kind(0)


class ResourcePattern(NamedTuple):
    """The resources of one type whose name equals (LITERAL) or begins with (PREFIXED) a text."""

    resource_type: ResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    @override
    def __str__(self) -> str:
        return (
            f"ResourcePattern(resourceType={self.resource_type.name}, name={self.name}, "
            f"patternType={self.pattern_type.name})"
        )


class AccessControlEntry(NamedTuple):
    """One ACL of a pattern: principal, host, operation and permission."""

    principal: str
    host: str
    operation: AclOperation
    permission_type: PermissionType


def standard_acl_text(pattern: ResourcePattern, entry: AccessControlEntry) -> str:
    """An ACL as Kafka's ``StandardAcl`` prints it."""
    return (
        f"StandardAcl(resourceType={pattern.resource_type.name}, resourceName={pattern.name}, "
        f"patternType={pattern.pattern_type.name}, principal={entry.principal}, "
        f"host={entry.host}, operation={entry.operation.name}, "
        f"permissionType={entry.permission_type.name})"
    )
