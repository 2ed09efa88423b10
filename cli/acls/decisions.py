"""What ACLs allow, and which ACL decides it: pure, by the authorizer that brokers use.

:class:`RuleBook` asks :class:`replica_manager.security.authorizer.Authorizer`, then finds the ACL
that decided.  In a question ``User:*`` and the host ``*`` mean a principal and a host that no ACL
names, so only ACLs for ``User:*`` and ``*`` apply to them.

Source: Kafka ``AclAuthorizer``, ``StandardAuthorizerData``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from replica_manager.security.acl_cache import (
    NO_VERSION,
    WILDCARD,
    AclBinding,
    AclCache,
    VersionedAcls,
)
from replica_manager.security.authorizer import CLUSTER_NAME, Authorizer, Requester, verdict_of
from replica_manager.security.principals import USER, Principal, parse_principal
from zkcontroller.zookeeper.kafka_acl_znodes import supported_operations

EVERY_PRINCIPAL: Final = Principal(USER, WILDCARD)
_CLIENT_ID: Final = "zkctl"


class Because(StrEnum):
    """The reason of a decision."""

    SUPER_USER = "super_user"
    DENY = "deny"
    ALLOW = "allow"
    NO_RULE_APPLIES = "no_rule_applies"
    """The resource has ACLs, and none of them applies, so it is denied."""
    NO_ACL_FOUND = "no_acl_found"
    """The resource has no ACL: ``allow.everyone.if.no.acl.found`` decides."""


class AclSettings(NamedTuple):
    """The settings in brokers' configuration that decide with the ACLs; None: not known."""

    super_users: frozenset[Principal] | None
    allow_everyone: bool | None


class AskedRight(NamedTuple):
    """An operation that one principal wants to do on one resource, from one host."""

    principal: Principal
    host: str
    operation: AclOperation
    resource_type: ResourceType
    name: str


class RuleChange(NamedTuple):
    """An ACL to add, or to remove."""

    binding: AclBinding
    is_added: bool


class AclDecision(NamedTuple):
    """Whether something is allowed (None: it depends on an unknown setting), and why.

    ``rule`` is the ACL that decided; None if no ACL did.
    """

    is_allowed: bool | None
    because: Because
    rule: AclBinding | None


_SUPER: Final = AclDecision(True, Because.SUPER_USER, None)


class PrincipalRights(NamedTuple):
    """Operations of one principal, from one host, that all have the same decision."""

    resource: ResourcePattern | None
    """None: every resource without any ACL."""
    principal: Principal
    host: str
    operations: tuple[AclOperation, ...]
    decision: AclDecision


def cache_of(bindings: Iterable[AclBinding]) -> AclCache:
    """The ACLs as the cache of an authorizer."""
    entries: dict[ResourcePattern, dict[AccessControlEntry, None]] = {}
    for pattern, entry in bindings:
        entries.setdefault(pattern, {})[entry] = None
    return AclCache(
        {pattern: VersionedAcls(tuple(those), NO_VERSION) for pattern, those in entries.items()}
    )


class RuleBook:
    """Decides what principals may do, for one set of ACLs and settings."""

    def __init__(self, cache: AclCache, settings: AclSettings) -> None:
        self.settings = settings
        # A super user "User:*" is the user with that name; here it means all principals not named.
        self.super_users = (settings.super_users or frozenset()) - {EVERY_PRINCIPAL}
        self._cache = cache
        self._names = sorted(pattern.name for pattern in cache.acls)
        self._authorizer = Authorizer(
            cache,
            super_users=self.super_users,
            allow_everyone_if_no_acl_found=bool(settings.allow_everyone),
        )

    def decide(self, right: AskedRight) -> AclDecision:
        """The broker's decision about a right, and the ACL that decides."""
        principal, host, operation, resource_type, name = right
        requester = Requester(principal, host, _CLIENT_ID)
        is_allowed = self._authorizer.authorize(
            requester, operation, resource_type, name, log_if_allowed=False, log_if_denied=False
        )
        if principal in self.super_users:
            return AclDecision(is_allowed, Because.SUPER_USER, None)
        if not self._cache.patterns_of(resource_type, name):
            known = None if self.settings.allow_everyone is None else is_allowed
            return AclDecision(known, Because.NO_ACL_FOUND, None)
        wanted = PermissionType.ALLOW if is_allowed else PermissionType.DENY
        rule = next(
            (
                binding
                for binding in self.rules_of(resource_type, name)
                if verdict_of(binding.entry, requester, operation) is wanted
            ),
            None,
        )
        if rule is None:
            return AclDecision(is_allowed, Because.NO_RULE_APPLIES, None)
        return AclDecision(is_allowed, Because(wanted.name.lower()), rule)

    def decide_on_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> AclDecision:
        """Whether the operation is allowed on at least one resource of that type (KIP-679)."""
        is_allowed = self._authorizer.authorize_by_resource_type(
            Requester(principal, host, _CLIENT_ID), operation, resource_type
        )
        if principal in self.super_users:
            return AclDecision(is_allowed, Because.SUPER_USER, None)
        if is_allowed:
            rule = next(self._allowing_any(principal, host, operation, resource_type), None)
            because = Because.NO_ACL_FOUND if rule is None else Because.ALLOW
            return AclDecision(is_allowed, because, rule)
        if self.settings.allow_everyone is None:
            generous = Authorizer(self._cache, allow_everyone_if_no_acl_found=True)
            requester = Requester(principal, host, _CLIENT_ID)
            if generous.authorize_by_resource_type(requester, operation, resource_type):
                return AclDecision(None, Because.NO_ACL_FOUND, None)
        every = ResourcePattern(resource_type, WILDCARD)
        requester = Requester(principal, host, _CLIENT_ID)
        for binding in self.rules_of(*every[:2]):
            if verdict_of(binding.entry, requester, operation) is PermissionType.DENY:
                return AclDecision(is_allowed, Because.DENY, binding)
        return AclDecision(is_allowed, Because.NO_RULE_APPLIES, None)

    def _allowing_any(
        self, principal: Principal, host: str, operation: AclOperation, resource_type: ResourceType
    ) -> Iterator[AclBinding]:
        """The ACLs that allow the operation on a resource that they name."""
        requester = Requester(principal, host, _CLIENT_ID)
        for pattern, found in sorted(self._cache.acls.items()):
            if pattern.resource_type is not resource_type:
                continue
            name = self.probe(pattern)
            for entry in found.entries:
                if (
                    verdict_of(entry, requester, operation) is PermissionType.ALLOW
                    and self.decide(
                        AskedRight(principal, host, operation, resource_type, name)
                    ).is_allowed
                ):
                    yield AclBinding(pattern, entry)

    def changes_to_allow(self, right: AskedRight) -> list[RuleChange]:
        """The ACLs to remove, and the one to add, so that brokers allow the right."""
        requester = Requester(right.principal, right.host, _CLIENT_ID)
        verdicts = [
            (binding, verdict_of(binding.entry, requester, right.operation))
            for binding in self.rules_of(right.resource_type, right.name)
        ]
        changes = [
            RuleChange(binding, is_added=False)
            for binding, verdict in verdicts
            if verdict is PermissionType.DENY
        ]
        if all(verdict is not PermissionType.ALLOW for _, verdict in verdicts):
            who, host = str(right.principal), right.host
            entry = AccessControlEntry(who, host, right.operation, PermissionType.ALLOW)
            resource = ResourcePattern(right.resource_type, right.name)
            changes.append(RuleChange(AclBinding(resource, entry), is_added=True))
        return changes

    def rules_of(self, resource_type: ResourceType, name: str) -> Iterator[AclBinding]:
        """The ACLs that apply to a resource: first by name, then by longest prefix, then ``*``."""
        patterns = self._cache.patterns_of(resource_type, name)
        for pattern in sorted(patterns, key=lambda each: _closeness(each, name)):
            for entry in self._cache.acls[pattern].entries:
                yield AclBinding(pattern, entry)

    def who(
        self, resource_type: ResourceType, name: str, operations: Sequence[AclOperation] = ()
    ) -> list[PrincipalRights]:
        """Which principals, from which hosts, are allowed or denied operations on a resource.

        ``User:*`` means the principals that no ACL names.  Principals that no ACL allows or denies
        anything are left out, and hosts with the same decision as other hosts.
        """
        resource = ResourcePattern(resource_type, name)
        wanted = tuple(operations) or tuple(supported_operations(resource_type))
        entries = [binding.entry for binding in self.rules_of(resource_type, name)]
        named = {parse_principal(entry.principal) for entry in entries} - {None}
        found = [
            PrincipalRights(resource, each, WILDCARD, wanted, _SUPER)
            for each in sorted(self.super_users)
        ]
        for principal in sorted({*named, EVERY_PRINCIPAL} - self.super_users, key=str):
            assert principal is not None, "taken out above"
            found += self._rights(resource, name, principal, wanted, entries)
        return found

    def rights_of(
        self, principal: Principal, operations: Sequence[AclOperation] = ()
    ) -> list[PrincipalRights]:
        """The operations that ACLs allow and deny a principal, by the resources that ACLs name.

        A row for a prefix or ``*`` is about those of its resources that no other ACL names.
        """
        if principal in self.super_users:
            return [PrincipalRights(None, principal, WILDCARD, (AclOperation.ALL,), _SUPER)]
        found: list[PrincipalRights] = []
        for pattern in sorted(self._cache.acls):
            known = supported_operations(pattern.resource_type)
            wanted = tuple(each for each in known if not operations or each in operations)
            name = self.probe(pattern)
            entries = [binding.entry for binding in self.rules_of(pattern.resource_type, name)]
            is_named = any(
                entry.principal in (str(principal), str(EVERY_PRINCIPAL))
                for entry in self._cache.acls[pattern].entries
            )
            if is_named or self.settings.allow_everyone:
                rights = self._rights(pattern, name, principal, wanted, entries, is_whole=True)
                found += [each for each in rights if is_named or each.decision.rule is None]
        if self.settings.allow_everyone is not False:
            decision = AclDecision(self.settings.allow_everyone, Because.NO_ACL_FOUND, None)
            all_of_it = tuple(operations) or (AclOperation.ALL,)
            found.append(PrincipalRights(None, principal, WILDCARD, all_of_it, decision))
        return found

    def _rights(
        self,
        resource: ResourcePattern,
        name: str,
        principal: Principal,
        operations: Sequence[AclOperation],
        entries: Sequence[AccessControlEntry],
        *,
        is_whole: bool = False,
    ) -> list[PrincipalRights]:
        """The operations on a resource, grouped by host and decision.

        ``is_whole``: also operations to which no ACL applies, if ``allow_everyone`` is true.
        """
        hosts = self.hosts_of(principal, entries)
        by_decision: dict[tuple[str, AclDecision], list[AclOperation]] = {}
        for operation in operations:
            decided = {
                host: self.decide(
                    AskedRight(principal, host, operation, resource.resource_type, name)
                )
                for host in hosts
            }
            for host, decision in decided.items():
                if host != WILDCARD and decision == decided[WILDCARD]:
                    continue
                if decision.because is Because.NO_RULE_APPLIES and not (
                    is_whole and self.settings.allow_everyone
                ):
                    continue
                by_decision.setdefault((host, decision), []).append(operation)
        return [
            PrincipalRights(resource, principal, host, tuple(those), decision)
            for (host, decision), those in sorted(
                by_decision.items(), key=lambda each: hosts.index(each[0][0])
            )
        ]

    @staticmethod
    def hosts_of(principal: Principal, entries: Iterable[AccessControlEntry]) -> list[str]:
        """``*``, then every host in the ACLs of that principal and of ``User:*``, sorted."""
        who = (str(principal), str(EVERY_PRINCIPAL))
        named = {entry.host for entry in entries if entry.principal in who} - {WILDCARD}
        return [WILDCARD, *sorted(named)]

    def probe(self, pattern: ResourcePattern) -> str:
        """A resource name that this pattern matches, but no more specific pattern of an ACL."""
        if pattern.resource_type is ResourceType.CLUSTER:
            return CLUSTER_NAME
        if pattern.pattern_type is PatternType.LITERAL and pattern.name != WILDCARD:
            return pattern.name
        start = pattern.name if pattern.pattern_type is PatternType.PREFIXED else ""
        code = ord("a")
        # Each name rules out at most one letter, so the loop ends.
        while self._is_begun(start + chr(code)):
            code += 1
        return start + chr(code)

    def _is_begun(self, start: str) -> bool:
        """Whether the name of any ACL's resource begins with ``start``."""
        at = bisect_left(self._names, start)
        return at < len(self._names) and self._names[at].startswith(start)


def _closeness(pattern: ResourcePattern, name: str) -> tuple[int, int]:
    if pattern.pattern_type is PatternType.PREFIXED:
        return 1, -len(pattern.name)
    return (0, 0) if pattern.name == name and name != WILDCARD else (2, 0)
