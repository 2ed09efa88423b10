"""Znodes of ACLs: ``/kafka-acl``, ``/kafka-acl-extended`` and their change notifications.

Rules for one literal name (``*`` included) stand in ``/kafka-acl/<Type>/<name>``, those for a
prefix in ``/kafka-acl-extended/prefixed/<Type>/<name>``; each change leaves a numbered notification
in ``/kafka-acl-changes`` or ``/kafka-acl-extended-changes``.  The access control lists of ZooKeeper
itself are another matter: :mod:`.acls`.

A type, operation or permission that this version does not know is read as UNKNOWN, as in Kafka: it
matches nothing that is ever asked.

Source: Kafka ``ZkData`` (``ZkAclStore``, ``ZkAclChangeStore``), ``AclEntry``, ``SecurityUtils``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from typing import Final, NamedTuple, TypeVar

from typing_extensions import override

from zkcontroller.errors import ZnodeCorrupt
from zkcontroller.zookeeper.scala_order import java_hash_map_order
from zkcontroller.zookeeper.znode_json import JsonFields, json_object, json_string

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
    """``TransactionalId`` for TRANSACTIONAL_ID, as znodes and audit lines write it."""
    return value.name.title().replace("_", "")


def by_pascal_name(kind: type[_E], name: str) -> _E:
    """The value of that name, whatever its case; UNKNOWN if there is none."""
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
    """The resources of one type whose name equals, or begins with, a text."""

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


_ENTRY_KEYS: Final = tuple(
    java_hash_map_order(["principal", "permissionType", "operation", "host"])
)
_TOP_KEYS: Final = tuple(java_hash_map_order(["version", "acls"]))
_CURRENT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class AclZnode:
    """``/kafka-acl/Topic/orders``, JSON version 1: the ACLs of one pattern.

    Written by brokers and ``kafka-acls``, removed when the last rule goes.  Kafka writes more than
    a few rules in the order of a hash over object identities, which is not repeatable; here they
    stand in the order in which they were added.
    """

    ROOTS = ("/kafka-acl", "/kafka-acl-extended/prefixed")

    entries: tuple[AccessControlEntry, ...]

    @staticmethod
    def root(pattern_type: PatternType) -> str:
        """Below it stand the resource types of that kind of pattern."""
        return AclZnode.ROOTS[pattern_type is PatternType.PREFIXED]

    @staticmethod
    def type_path(resource_type: ResourceType, pattern_type: PatternType) -> str:
        return f"{AclZnode.root(pattern_type)}/{pascal_name(resource_type)}"

    @staticmethod
    def path(pattern: ResourcePattern) -> str:
        parent = AclZnode.type_path(pattern.resource_type, pattern.pattern_type)
        return f"{parent}/{pattern.name}"

    def encode(self) -> bytes:
        acls = b"[%s]" % b",".join(map(_encode_entry, self.entries))
        values = {"version": b"%d" % _CURRENT_VERSION, "acls": acls}
        return json_object((key, values[key]) for key in _TOP_KEYS)

    @classmethod
    def decode(cls, path: str, data: bytes) -> AclZnode:
        if not data:
            return cls(())
        fields = JsonFields.parse(path, data)
        fields.integer("version", _CURRENT_VERSION, _CURRENT_VERSION)
        entries = [_decode_entry(path, entry) for entry in fields.objects("acls")]
        return cls(tuple(dict.fromkeys(entries)))


def _encode_entry(entry: AccessControlEntry) -> bytes:
    values = {
        "principal": entry.principal,
        "permissionType": pascal_name(entry.permission_type),
        "operation": pascal_name(entry.operation),
        "host": entry.host,
    }
    return json_object((key, json_string(values[key])) for key in _ENTRY_KEYS)


def _decode_entry(path: str, fields: JsonFields) -> AccessControlEntry:
    principal = fields.text("principal")
    if ":" not in principal:
        raise ZnodeCorrupt(path, f"principal is not type:name: {principal[:100]!r}")
    return AccessControlEntry(
        principal,
        fields.text("host"),
        by_pascal_name(AclOperation, fields.text("operation")),
        by_pascal_name(PermissionType, fields.text("permissionType")),
    )


@dataclass(frozen=True, slots=True)
class AclChangeZnode:
    """``/kafka-acl-changes/acl_changes_<n>``, sequential: the ACLs of this pattern changed.

    Text ``TOPIC:orders`` for a literal pattern; JSON version 1 below
    ``/kafka-acl-extended-changes`` for any other.  Removed by brokers after 15 minutes.
    """

    PREFIX = "acl_changes_"
    ROOTS = ("/kafka-acl-changes", "/kafka-acl-extended-changes")

    pattern: ResourcePattern

    @property
    def root(self) -> str:
        """The parent of this notification."""
        return self.ROOTS[self.pattern.pattern_type is not PatternType.LITERAL]

    @property
    def create_path(self) -> str:
        return f"{self.root}/{self.PREFIX}"

    def encode(self) -> bytes:
        resource_type, name, pattern_type = self.pattern
        if pattern_type is PatternType.LITERAL:
            return f"{resource_type.name}:{name}".encode()
        return json_object(
            (
                ("version", b"1"),
                ("resourceType", json_string(resource_type.name)),
                ("name", json_string(name)),
                ("patternType", json_string(pattern_type.name)),
            )
        )

    @classmethod
    def decode(cls, path: str, data: bytes) -> AclChangeZnode:
        if path.startswith(f"{cls.ROOTS[1]}/"):
            fields = JsonFields.parse(path, data)
            fields.integer("version", 0, _CURRENT_VERSION)
            return cls(
                ResourcePattern(
                    _by_enum_name(ResourceType, fields.text("resourceType")),
                    fields.text("name"),
                    _by_enum_name(PatternType, fields.text("patternType")),
                )
            )
        type_name, colon, name = data.decode("utf-8", "replace").partition(":")
        if not colon:
            raise ZnodeCorrupt(path, "not in the format ResourceType:ResourceName")
        return cls(ResourcePattern(_by_enum_name(ResourceType, type_name), name))


def _by_enum_name(kind: type[_E], name: str) -> _E:
    try:
        return kind[name.upper()]
    except KeyError:
        return kind(0)


def supported_operations(resource_type: ResourceType) -> Sequence[AclOperation]:
    """The operations on a resource of that type (``AclEntry.supportedOperations``)."""
    return _SUPPORTED[resource_type]


_SUPPORTED: Final = {
    ResourceType.TOPIC: (
        AclOperation.READ,
        AclOperation.WRITE,
        AclOperation.CREATE,
        AclOperation.DESCRIBE,
        AclOperation.DELETE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DESCRIBE, AclOperation.DELETE),
    ResourceType.CLUSTER: (
        AclOperation.CREATE,
        AclOperation.CLUSTER_ACTION,
        AclOperation.DESCRIBE_CONFIGS,
        AclOperation.ALTER_CONFIGS,
        AclOperation.IDEMPOTENT_WRITE,
        AclOperation.ALTER,
        AclOperation.DESCRIBE,
    ),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.DESCRIBE, AclOperation.WRITE),
    ResourceType.DELEGATION_TOKEN: (AclOperation.DESCRIBE,),
    ResourceType.USER: (AclOperation.CREATE_TOKENS, AclOperation.DESCRIBE_TOKENS),
}
