"""ACLs as texts of the command line, and as rows: resources, operations, principals, commands.

The words are those of Kafka's own tool.  Input may be in upper or lower case, with ``-``, ``_`` or
nothing between words; output is in lower case with ``_``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, TypeVar

from kafka_common.acls import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    by_pascal_name,
)
from kafka_common.sanitizer import is_ip_address
from replica_manager.security.acl_cache import WILDCARD, AclBinding, AclBindingFilter
from replica_manager.security.authorizer import CLUSTER_NAME
from replica_manager.security.principals import USER, Principal, host_name_of, parse_principal
from zkcontroller.zookeeper.kafka_acl_znodes import supported_operations
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.console.render import Layout, Row

E = TypeVar("E", bound=IntEnum)

RULE_KEYS: Final = (
    "resource_type",
    "resource",
    "pattern_type",
    "permission",
    "principal",
    "host",
    "operation",
)
GROUPED_KEYS: Final = (*RULE_KEYS[:-1], "operations")
OPTIONS: Final = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.CLUSTER: "--cluster",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
"""By resource type, the option of ``zkctl acl`` and of Kafka's tool that names a resource."""
CLUSTER: Final = ResourcePattern(ResourceType.CLUSTER, CLUSTER_NAME)
_UNKNOWN_OR_ANY: Final = 1
"""The values 0 (unknown) and 1 (any) of each type, which no ACL has."""


def word(value: IntEnum) -> str:
    """A value as rows show it, such as ``describe_configs``."""
    return value.name.lower()


def words_of(kind: type[E]) -> list[str]:
    """The words for all values that an ACL may have, without those only for filters."""
    return [word(value) for value in kind if value > _UNKNOWN_OR_ANY and value.name != "MATCH"]


def _value(kind: type[E], text: str, what: str) -> E:
    found = by_pascal_name(kind, text.strip().replace("_", "").replace("-", ""))
    if found <= _UNKNOWN_OR_ANY:
        raise BadUsage(f"{text!r} is no {what}; say one of {', '.join(words_of(kind))}")
    return found


def parse_operation(text: str) -> AclOperation:
    """The operation of that name; BadUsage if there is none."""
    return _value(AclOperation, text, "operation")


def parse_pattern_type(text: str) -> PatternType:
    """The pattern type: ``literal``, ``prefixed``, or for a filter ``any`` or ``match``."""
    return PatternType[text.upper()]


def parse_user(text: str, option: str) -> Principal:
    """Parse a principal such as ``User:alice``; BadUsage without type or name."""
    principal = parse_principal(text.strip())
    if principal is None or not principal.principal_type or not principal.name:
        raise BadUsage(f"{option} takes TYPE:NAME, such as {USER}:alice, not {text!r}")
    return principal


def parse_host(text: str) -> str:
    """An IP address in the form that the authorizer compares; BadUsage for a host name."""
    if text == WILDCARD:
        return text
    if not is_ip_address(text):
        raise BadUsage(f"{text!r} is no IP address: rules are compared with addresses")
    return host_name_of(text)


def parse_resource(text: str) -> ResourcePattern:
    """Parse a resource such as ``topic:orders`` or ``cluster``; BadUsage for another text."""
    type_text, colon, name = text.partition(":")
    resource_type = _value(ResourceType, type_text, "type of resource")
    if resource_type is ResourceType.CLUSTER:
        if name not in ("", CLUSTER_NAME):
            raise BadUsage(f"the only name of a cluster is {CLUSTER_NAME}")
        return CLUSTER
    if not colon or not name:
        raise BadUsage(f"{text!r} has no name: say {word(resource_type)}:NAME")
    return ResourcePattern(resource_type, name)


def check_operation(operation: AclOperation, resource_type: ResourceType) -> None:
    """BadUsage if resources of that type have no such operation."""
    known = supported_operations(resource_type)
    if operation not in (*known, AclOperation.ALL):
        raise BadUsage(
            f"a {word(resource_type)} has no operation {word(operation)}; "
            f"say one of {', '.join(map(word, (*known, AclOperation.ALL)))}"
        )


def resource_text(resource: ResourcePattern) -> str:
    """A resource as text, in the form that ``zkctl acl who`` and ``explain`` take."""
    if resource.resource_type is ResourceType.CLUSTER:
        return "cluster"
    text = f"{word(resource.resource_type)}:{resource.name}"
    return f"{text} (prefixed)" if resource.pattern_type is PatternType.PREFIXED else text


def rule_text(binding: AclBinding) -> str:
    """One ACL as text, such as ``allow User:alice read on topic:orders``."""
    entry = binding.entry
    host = "" if entry.host == WILDCARD else f" from {entry.host}"
    return (
        f"{word(entry.permission_type)} {entry.principal}{host} {word(entry.operation)} "
        f"on {resource_text(binding.pattern)}"
    )


def rule_row(binding: AclBinding) -> dict[str, Any]:
    """One ACL as a row with the keys of :data:`RULE_KEYS`."""
    pattern, entry = binding
    values = (
        word(pattern.resource_type),
        pattern.name,
        word(pattern.pattern_type),
        word(entry.permission_type),
        entry.principal,
        entry.host,
        word(entry.operation),
    )
    return dict(zip(RULE_KEYS, values, strict=True))


def grouped_rows(bindings: Iterable[AclBinding]) -> list[dict[str, Any]]:
    """A row for each pattern, permission, principal and host, with its operations."""
    rows: dict[tuple[Any, ...], dict[str, Any]] = {}
    for binding in bindings:
        row = rule_row(binding)
        operation = row.pop("operation")
        rows.setdefault(tuple(row.values()), {**row, "operations": []})["operations"].append(
            operation
        )
    return list(rows.values())


def in_order(bindings: Iterable[AclBinding]) -> list[AclBinding]:
    """The ACLs, each once, sorted by resource, those that deny first."""
    return sorted(
        set(bindings), key=lambda each: (each.pattern, each.entry.permission_type, each.entry)
    )


def resource_name(row: Row) -> str:
    """The identifier of a row: its resource in the form that ``zkctl acl who`` takes."""
    if row["resource_type"] == word(ResourceType.CLUSTER):
        return "cluster"
    return f"{row['resource_type']}:{row['resource']}"


def rule_layout(*more: str, is_grouped: bool = False) -> Layout:
    """The layout of rows of ACLs, with ``more`` keys after those of the ACL."""
    return Layout(resource_name, (), (*(GROUPED_KEYS if is_grouped else RULE_KEYS), *more))


def exact_filter(binding: AclBinding) -> AclBindingFilter:
    """The filter that matches exactly one ACL."""
    (resource_type, name, pattern_type), entry = binding
    return AclBindingFilter(
        resource_type,
        name,
        pattern_type,
        entry.principal,
        entry.host,
        entry.operation,
        entry.permission_type,
    )


def filter_of_resource(resource: ResourcePattern) -> AclBindingFilter:
    """The filter that matches every ACL of a resource."""
    return AclBindingFilter(*resource, None, None, AclOperation.ANY, PermissionType.ANY)


def every_rule() -> AclBindingFilter:
    """The filter that matches all ACLs."""
    return AclBindingFilter(
        ResourceType.ANY,
        None,
        PatternType.ANY,
        None,
        None,
        AclOperation.ANY,
        PermissionType.ANY,
    )


def change_command(verb: str, binding: AclBinding) -> str:
    """The command line that adds or removes exactly that ACL."""
    (resource_type, name, pattern_type), entry = binding
    kind = word(entry.permission_type)
    words = [f"--{kind}-principal", entry.principal]
    if entry.host != WILDCARD:
        words += [f"--{kind}-host", entry.host]
    words += ["--operation", word(entry.operation), OPTIONS[resource_type]]
    if resource_type is not ResourceType.CLUSTER:
        words.append(name)
    if pattern_type is PatternType.PREFIXED:
        words += ["--resource-pattern-type", word(pattern_type)]
    return command_line(f"acl {verb}", options=words)


def distinct_resources(resources: Sequence[ResourcePattern]) -> list[ResourcePattern]:
    """The resources without repetitions, in the same order."""
    return list(dict.fromkeys(resources))
