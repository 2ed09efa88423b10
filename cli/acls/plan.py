"""Makes ACLs and filters from the options, such as ``--producer``.

The options and their meaning are those of Kafka's tool.

Source: Kafka ``AclCommand`` (``getResourceFilterToAcls``, ``checkArgs``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from replica_manager.security.acl_cache import WILDCARD, AclBinding, AclBindingFilter
from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.acls import (
    CLUSTER,
    check_operation,
    distinct_resources,
    every_rule,
    exact_filter,
    filter_of_resource,
    parse_operation,
    parse_pattern_type,
    parse_user,
)

_OF_PRODUCERS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
_OF_TRANSACTIONS: Final = (AclOperation.WRITE, AclOperation.DESCRIBE)
_OF_CONSUMERS: Final = (AclOperation.READ, AclOperation.DESCRIBE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceOptions:
    """The options that name resources."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    is_cluster: bool = False
    transactional_ids: tuple[str, ...] = ()
    delegation_tokens: tuple[str, ...] = ()
    user_principals: tuple[str, ...] = ()
    resource_pattern_type: str | None = None

    @property
    def pattern_type(self) -> PatternType:
        """The chosen pattern type; LITERAL by default, as in Kafka's tool."""
        return parse_pattern_type(self.resource_pattern_type or "literal")

    def resources(self) -> list[ResourcePattern]:
        """The resources, each once; BadUsage for an empty name, or a prefix for the cluster."""
        named = (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.DELEGATION_TOKEN, self.delegation_tokens),
            (ResourceType.USER, self.user_principals),
        )
        found = [CLUSTER] if self.is_cluster else []
        if self.is_cluster and self.pattern_type is PatternType.PREFIXED:
            raise BadUsage("the cluster has one name: --cluster does not go with prefixed")
        for resource_type, names in named:
            for name in names:
                if not name.strip():
                    raise BadUsage("the name of a resource is empty")
                found.append(ResourcePattern(resource_type, name.strip(), self.pattern_type))
        return distinct_resources(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """The options that name principals, hosts and operations of ACLs."""

    allow_principals: tuple[str, ...] = ()
    deny_principals: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    deny_hosts: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    is_producer: bool = False
    is_consumer: bool = False
    is_idempotent: bool = False

    @property
    def is_empty(self) -> bool:
        """Whether no principal is named."""
        return not self.allow_principals and not self.deny_principals

    def entries(self, operations: Iterable[AclOperation]) -> Iterator[AccessControlEntry]:
        """The ACL entries: each principal with each of its hosts and each of the operations."""
        wanted = tuple(operations)
        sides = (
            (PermissionType.ALLOW, "--allow-principal", self.allow_principals, self.allow_hosts),
            (PermissionType.DENY, "--deny-principal", self.deny_principals, self.deny_hosts),
        )
        for permission, option, principals, hosts in sides:
            if hosts and not principals:
                raise BadUsage(f"{option.replace('principal', 'host')} needs {option}")
            for principal in principals:
                for host in hosts or (WILDCARD,):
                    for operation in wanted:
                        who = str(parse_user(principal, option))
                        yield AccessControlEntry(who, host.strip(), operation, permission)


def planned_rules(resources: ResourceOptions, rules: RuleOptions) -> list[AclBinding]:
    """The ACLs that the options describe, each once; BadUsage if options contradict each other.

    They have the pattern type of the options, which for a filter may be ANY or MATCH.
    """
    _check_roles(resources, rules)
    named = resources.resources()
    if not named and not rules.is_idempotent:
        raise BadUsage(
            "which resource? Say --topic, --group, --cluster, --transactional-id, "
            "--delegation-token or --user-principal"
        )
    wanted: dict[AclBinding, None] = {}
    for resource, operations in _operations_by_resource(named, rules):
        for operation in operations:
            check_operation(operation, resource.resource_type)
        for entry in rules.entries(operations):
            wanted[AclBinding(resource, entry)] = None
    return list(wanted)


def _operations_by_resource(
    resources: Sequence[ResourcePattern], rules: RuleOptions
) -> Iterator[tuple[ResourcePattern, tuple[AclOperation, ...]]]:
    if not rules.is_producer and not rules.is_consumer:
        said = tuple(map(parse_operation, rules.operations)) or (AclOperation.ALL,)
        yield from ((resource, said) for resource in resources)
        return
    for resource in resources:
        match resource.resource_type:
            case ResourceType.TOPIC:
                if rules.is_producer:
                    yield resource, _OF_PRODUCERS
                if rules.is_consumer:
                    yield resource, _OF_CONSUMERS
            case ResourceType.TRANSACTIONAL_ID if rules.is_producer:
                yield resource, _OF_TRANSACTIONS
            case ResourceType.GROUP if rules.is_consumer:
                yield resource, (AclOperation.READ,)
            case _:
                pass
    if rules.is_idempotent:
        yield CLUSTER, (AclOperation.IDEMPOTENT_WRITE,)


def _check_roles(resources: ResourceOptions, rules: RuleOptions) -> None:
    if rules.is_idempotent and not rules.is_producer:
        raise BadUsage("--idempotent goes with --producer")
    if not rules.is_producer and not rules.is_consumer:
        return
    if rules.operations or rules.deny_principals or rules.deny_hosts:
        raise BadUsage(
            "--producer and --consumer say the operations, and allow: leave --operation, "
            "--deny-principal and --deny-host out"
        )
    if not resources.topics:
        raise BadUsage("--producer and --consumer need --topic")
    if rules.is_consumer and not resources.groups:
        raise BadUsage("--consumer needs --group")
    if not rules.is_producer and (resources.is_cluster or resources.transactional_ids):
        raise BadUsage("--consumer has no use for --cluster and --transactional-id")


def rules_to_add(resources: ResourceOptions, rules: RuleOptions) -> list[AclBinding]:
    """The ACLs to add; BadUsage if the options do not describe them completely."""
    if resources.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise BadUsage("an ACL is literal or prefixed; any and match are for list and remove")
    if rules.is_empty:
        raise BadUsage("who? Say --allow-principal or --deny-principal")
    return planned_rules(resources, rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterOptions:
    """The options that filter the ACLs of the resources; without any, all ACLs match."""

    principals: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    operations: tuple[str, ...] = ()
    permission: str | None = None

    def narrowed(self, wanted: AclBindingFilter) -> Iterator[AclBindingFilter]:
        """``wanted`` as one filter for each combination of principal, host and operation."""
        permission = PermissionType[(self.permission or "any").upper()]
        who = [str(parse_user(each, "--principal")) for each in self.principals]
        principals: Sequence[str | None] = who or (None,)
        hosts: Sequence[str | None] = self.hosts or (None,)
        operations = [parse_operation(each) for each in self.operations] or [AclOperation.ANY]
        for principal in principals:
            for host in hosts:
                for operation in operations:
                    yield wanted._replace(
                        principal=principal,
                        host=host,
                        operation=operation,
                        permission_type=permission,
                    )


def filters_to_list(resources: ResourceOptions, chosen: FilterOptions) -> list[AclBindingFilter]:
    """The filters for ``acl list``; without a resource they match ACLs of all resources.

    Unlike in Kafka's tool, a pattern type without a resource is a filter too.
    """
    named = resources.resources()
    if not named:
        said = resources.resource_pattern_type
        pattern_type = PatternType.ANY if said is None else resources.pattern_type
        if pattern_type is PatternType.MATCH:
            raise BadUsage("match needs a resource, such as --topic NAME")
        return list(chosen.narrowed(every_rule()._replace(pattern_type=pattern_type)))
    return [
        narrowed for resource in named for narrowed in chosen.narrowed(filter_of_resource(resource))
    ]


def filters_to_remove(
    resources: ResourceOptions, rules: RuleOptions, chosen: FilterOptions
) -> list[AclBindingFilter]:
    """The filters for ``acl remove``.

    With ``--allow-principal`` or ``--deny-principal`` they match exactly the ACLs that ``add``
    makes from the same options.  Otherwise they match the ACLs of the resources that ``chosen``
    selects.
    """
    if not rules.is_empty or rules.allow_hosts or rules.deny_hosts:
        if chosen.principals or chosen.hosts or chosen.permission:
            raise BadUsage(
                "say --principal, --host and --permission for a filter, or --allow-principal and "
                "--deny-principal for the ACLs that add makes, not both"
            )
        return [exact_filter(each) for each in planned_rules(resources, rules)]
    if rules.is_producer or rules.is_consumer:
        raise BadUsage("whose? --producer and --consumer need --allow-principal")
    if not resources.resources() and not chosen.principals:
        raise BadUsage(
            "which ACLs? Name a resource, such as --topic NAME, or say --principal; "
            "every ACL of the cluster is never removed by one command"
        )
    return filters_to_list(resources, chosen)
