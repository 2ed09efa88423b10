"""Kafka's ACL authorizer: decides with the ACLs in memory.

Deny takes precedence over allow.  READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS
implies DESCRIBE_CONFIGS.  Super users may do everything.  If no ACL applies to a resource, no other
client may use it, unless ``allow.everyone.if.no.acl.found`` is true.

Source: Kafka ``AclAuthorizer`` (``authorizeAction``, ``authorizeByResourceType``,
``logAuditMessage``).
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    pascal_name,
)
from replica_manager.security.acl_cache import WILDCARD, AclCache
from replica_manager.security.audit_log import LONGEST_NAME, AuditLog
from replica_manager.security.principals import USER, Principal

CLUSTER_NAME: Final = "kafka-cluster"
_EVERY_USER: Final = f"{USER}:{WILDCARD}"
MOST_DECISION_BYTES: Final = 32 * 1024 * 1024
"""The memory limit of cached decisions; at the limit, all are discarded."""
LONGEST_REMEMBERED_NAME: Final = 249
"""Decisions on resource names of more characters are not cached; no topic name is longer."""
_BYTES_BESIDE_NAME: Final = 450
"""Bytes of memory for one cached decision, without the resource name."""

_TRACE: Final = 5
_log = logging.getLogger("kafka.authorizer.logger")

_IMPLIED_BY: Final = {
    AclOperation.DESCRIBE: frozenset(
        (
            AclOperation.DESCRIBE,
            AclOperation.READ,
            AclOperation.WRITE,
            AclOperation.DELETE,
            AclOperation.ALTER,
            AclOperation.ALL,
        )
    ),
    AclOperation.DESCRIBE_CONFIGS: frozenset(
        (AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS, AclOperation.ALL)
    ),
}


class Requester(NamedTuple):
    """The client of a request: its principal, address and API."""

    principal: Principal
    host: str
    """The client's address in the form of ``host_name_of``."""
    api_name: str
    """The name of the API, for the audit log."""


class Authorizer:
    """Authorizes operations on the event loop; :attr:`cache` is replaced when ACLs change."""

    def __init__(
        self,
        cache: AclCache,
        *,
        super_users: frozenset[Principal] = frozenset(),
        allow_everyone_if_no_acl_found: bool = False,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """``now_s``: a clock in seconds for the windows of the audit log."""
        self.cache = cache
        self._super_users = super_users
        self._allow_everyone = allow_everyone_if_no_acl_found
        # Clients repeat the same operations, so decisions are cached until the ACLs change.
        self._decided_by = cache
        self._decisions: dict[tuple[Principal, str, AclOperation, ResourceType, str], bool] = {}
        self._decision_bytes = 0
        self._audit_log = AuditLog(now_s)

    def authorize(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_allowed: bool = True,
        log_if_denied: bool = True,
        reference_count: int = 1,
    ) -> bool:
        """Whether the operation on the resource is allowed; writes the audit log."""
        is_allowed = self._decision(requester, operation, resource_type, name)
        is_asked = log_if_allowed if is_allowed else log_if_denied
        level = (logging.DEBUG if is_allowed else logging.INFO) if is_asked else _TRACE
        if _log.isEnabledFor(level):
            line = self._audit_line(
                requester, operation, resource_type, name, reference_count, is_allowed=is_allowed
            )
            self._write(requester, level, line)
        return is_allowed

    def _write(self, requester: Requester, level: int, line: str) -> None:
        if level == logging.INFO:
            self._audit_log.denied(requester.principal, line)
        else:
            _log.log(level, "%s", line)

    def _audit_line(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        reference_count: int,
        *,
        is_allowed: bool,
    ) -> str:
        resource = f"{pascal_name(resource_type)}:LITERAL:{name[:LONGEST_NAME]}"
        return _audit_line(requester, operation, resource, reference_count, is_allowed=is_allowed)

    def _decision(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        cache = self.cache
        if cache is not self._decided_by or self._decision_bytes >= MOST_DECISION_BYTES:
            self._decided_by, self._decisions, self._decision_bytes = cache, {}, 0
        key = (requester.principal, requester.host, operation, resource_type, name)
        decision = self._decisions.get(key)
        if decision is None:
            decision = requester.principal in self._super_users or self._is_allowed(
                requester, operation, cache.matching(resource_type, name)
            )
            if len(name) <= LONGEST_REMEMBERED_NAME:
                self._decisions[key] = decision
                self._decision_bytes += _BYTES_BESIDE_NAME + sys.getsizeof(name)
        return decision

    def _is_allowed(
        self, requester: Requester, operation: AclOperation, entries: Sequence[AccessControlEntry]
    ) -> bool:
        if not entries:
            return self._allow_everyone
        is_allowed = False
        for entry in entries:
            verdict = verdict_of(entry, requester, operation)
            if verdict is PermissionType.DENY:
                return False
            is_allowed |= verdict is PermissionType.ALLOW
        return is_allowed

    def authorize_by_resource_type(
        self, requester: Requester, operation: AclOperation, resource_type: ResourceType
    ) -> bool:
        """Whether the operation is allowed on at least one resource of the type (KIP-679)."""
        if requester.principal in self._super_users:
            return True
        rules = _RulesOfType(self.cache, requester, operation, resource_type)
        if WILDCARD in rules.denied_literals:
            is_allowed = False
        else:
            is_allowed = self._allow_everyone or rules.allow_any()
        level = logging.DEBUG if is_allowed else logging.INFO
        if _log.isEnabledFor(level):
            resource = f"{pascal_name(resource_type)}:UNKNOWN:NONE"
            line = _audit_line(requester, operation, resource, 0, is_allowed=is_allowed)
            self._write(requester, level, line)
        return is_allowed


def verdict_of(
    entry: AccessControlEntry, requester: Requester, operation: AclOperation
) -> PermissionType | None:
    """Whether one ACL allows or denies the operation; None if it does not apply."""
    principal, host, entry_operation, permission = entry
    if principal not in (str(requester.principal), _EVERY_USER):
        return None
    if host not in (requester.host, WILDCARD):
        return None
    same = (operation, AclOperation.ALL)
    covered = _IMPLIED_BY.get(operation, same) if permission is PermissionType.ALLOW else same
    return permission if entry_operation in covered else None


class _RulesOfType:
    """The names and prefixes of one resource type that ACLs allow or deny to the client."""

    def __init__(
        self,
        cache: AclCache,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
    ) -> None:
        self.denied_literals: set[str] = set()
        self._denied_prefixes: set[str] = set()
        self._allowed: list[tuple[str, PatternType]] = []
        principals = (str(requester.principal), _EVERY_USER)
        for pattern, found in cache.acls.items():
            if pattern.resource_type is not resource_type:
                continue
            for entry in found.entries:
                if (
                    entry.principal not in principals
                    or entry.host not in (requester.host, WILDCARD)
                    or entry.operation not in (operation, AclOperation.ALL)
                ):
                    continue
                if entry.permission_type is PermissionType.ALLOW:
                    self._allowed.append((pattern.name, pattern.pattern_type))
                elif pattern.pattern_type is PatternType.PREFIXED:
                    self._denied_prefixes.add(pattern.name)
                else:
                    self.denied_literals.add(pattern.name)

    def allow_any(self) -> bool:
        """Whether an allowed name or prefix is not completely denied by another ACL."""
        for name, pattern_type in self._allowed:
            if pattern_type is PatternType.LITERAL:
                if name == WILDCARD:
                    return True
                if name in self.denied_literals:
                    continue
            if not any(name[:size] in self._denied_prefixes for size in range(1, len(name) + 1)):
                return True
        return False


def _audit_line(
    requester: Requester,
    operation: AclOperation,
    resource: str,
    reference_count: int,
    *,
    is_allowed: bool,
) -> str:
    return (
        f"Principal = {requester.principal} is {'Allowed' if is_allowed else 'Denied'} "
        f"Operation = {pascal_name(operation)} from host = {requester.host} on resource = "
        f"{resource} for request = {requester.api_name} with resourceRefCount = {reference_count}"
    )


def bits(operations: Iterable[AclOperation]) -> int:
    """Operations as the bit field that clients get (KIP-430)."""
    return sum(1 << operation for operation in operations)
