"""Znodes of ACLs: ``/kafka-acl``, ``/kafka-acl-extended`` and their change notifications.

ACLs for a literal name (``*`` included) are in ``/kafka-acl/<Type>/<name>``, those for a prefix in
``/kafka-acl-extended/prefixed/<Type>/<name>``.  Each change creates a sequential notification in
``/kafka-acl-changes`` or ``/kafka-acl-extended-changes``.  The access control lists of ZooKeeper's
own znodes are in :mod:`.acls`.

An unknown type, operation or permission is read as UNKNOWN, as in Kafka, and such an ACL matches no
request.

Source: Kafka ``ZkData`` (``ZkAclStore``, ``ZkAclChangeStore``), ``AclEntry``, ``SecurityUtils``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Final, TypeVar

from msgspec import Struct

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    by_pascal_name,
    pascal_name,
)
from kafka_common.errors import ZnodeCorrupt
from zkcontroller.zookeeper.scala_order import java_hash_map_order
from zkcontroller.zookeeper.znode_json import INT32_MIN, JsonFields, json_object, json_string

_E = TypeVar("_E", bound=IntEnum)

_ENTRY_KEYS: Final = tuple(
    java_hash_map_order(["principal", "permissionType", "operation", "host"])
)
_TOP_KEYS: Final = tuple(java_hash_map_order(["version", "acls"]))
_CURRENT_VERSION: Final = 1


class AclZnode(Struct, frozen=True):
    """``/kafka-acl/Topic/orders``, JSON version 1: the ACLs of one pattern.

    Written by brokers and ``kafka-acls``, removed with its last ACL.  Kafka's order of more than a
    few ACLs depends on object hash codes and differs in every process; here the ACLs are in the
    order in which they were added.
    """

    ROOTS = ("/kafka-acl", "/kafka-acl-extended/prefixed")

    entries: tuple[AccessControlEntry, ...]

    @staticmethod
    def root(pattern_type: PatternType) -> str:
        """The parent of the resource types for patterns of that type."""
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
    operation = by_pascal_name(AclOperation, fields.text("operation"))
    permission_type = by_pascal_name(PermissionType, fields.text("permissionType"))
    if operation is AclOperation.ANY or permission_type is PermissionType.ANY:
        raise ZnodeCorrupt(path, "a rule of ANY, which only filters have")
    return AccessControlEntry(principal, fields.text("host"), operation, permission_type)


class AclChangeZnode(Struct, frozen=True):
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
            if fields.has("version"):
                fields.integer("version", INT32_MIN, _CURRENT_VERSION)
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
