"""Kafka's authorizer for KRaft: decides with the ACLs in the metadata log.

Until the log has been read up to the committed offset, only super users are authorized: an ACL that
denies may not have been read yet.

Source: Kafka ``StandardAuthorizer``, ``StandardAuthorizerData`` (KIP-801).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.acls import (
    AclOperation,
    PatternType,
    PermissionType,
    ResourceType,
    pascal_name,
    standard_acl_text,
)
from kafka_common.api_error import ApiException
from kafka_common.observability.prefixed_log import PrefixedLog
from replica_manager.security.acl_cache import WILDCARD, AclBinding, AclCache
from replica_manager.security.audit_log import LONGEST_NAME
from replica_manager.security.authorizer import Authorizer, Requester, verdict_of
from replica_manager.security.principals import Principal

_log: Final = logging.getLogger("org.apache.kafka.metadata.authorizer.StandardAuthorizerData")


class AuthorizerNotReady(ApiException):
    """The ACLs are not loaded yet.  Kafka has no error code for it."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.unknown_server_error, "the authorizer has not loaded its rules")


class StandardAuthorizer(Authorizer):
    """Authorizes operations on the event loop; its cache is replaced when ACLs change."""

    def __init__(
        self,
        *,
        node_id: int = 0,
        super_users: frozenset[Principal] = frozenset(),
        allow_everyone_if_no_acl_found: bool = False,
        now_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        super().__init__(
            AclCache({}),
            super_users=super_users,
            allow_everyone_if_no_acl_found=allow_everyone_if_no_acl_found,
            now_s=now_s,
        )
        self._logger = PrefixedLog(_log, f"[StandardAuthorizer {node_id}] ")
        self._logger.info(
            "set super.users=%s, default result=%s",
            ",".join(sorted(map(str, super_users))),
            "ALLOWED" if allow_everyone_if_no_acl_found else "DENIED",
        )
        self.is_loaded = False
        """Whether all committed ACLs were loaded."""

    def complete_initial_load(self) -> None:
        """Marks the ACLs as loaded, so that requests are authorized by them from now on."""
        if not self.is_loaded:
            self.is_loaded = True
            self._logger.info("Completed initial ACL load process.")

    @override
    def _decision(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
    ) -> bool:
        if not self.is_loaded and requester.principal not in self._super_users:
            raise AuthorizerNotReady
        return super()._decision(requester, operation, resource_type, name)

    @override
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
        rule = self._rule(requester, operation, resource_type, name, is_allowed=is_allowed)
        return (
            f"Principal = {requester.principal} is {'Allowed' if is_allowed else 'Denied'} "
            f"operation = {operation.name} from host = {requester.host} on resource = "
            f"{pascal_name(resource_type)}:LITERAL:{name[:LONGEST_NAME]} for request = "
            f"{requester.api_name} with resourceRefCount = {reference_count} based on rule {rule}"
        )

    def _rule(
        self,
        requester: Requester,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        is_allowed: bool,
    ) -> str:
        """The text of the ACL that decided, for the audit log."""
        if requester.principal in self._super_users:
            return "SuperUser"
        wanted = PermissionType.ALLOW if is_allowed else PermissionType.DENY
        found = [
            binding
            for binding in self._bindings_of(resource_type, name)
            if verdict_of(binding.entry, requester, operation) is wanted
        ]
        if not found:
            return "DefaultAllow" if is_allowed else "DefaultDeny"
        # Kafka continues after an ACL that allows, and stops at one that denies.
        pattern, entry = found[-1] if is_allowed else found[0]
        return f"MatchingAcl(acl={standard_acl_text(pattern, entry)})"

    def _bindings_of(self, resource_type: ResourceType, name: str) -> list[AclBinding]:
        """The ACLs that apply to the resource, in Kafka's order: long names first, ``*`` last."""
        cache = self.cache
        patterns = sorted(
            cache.patterns_of(resource_type, name),
            key=lambda pattern: (
                pattern.name == WILDCARD and pattern.pattern_type is PatternType.LITERAL,
                -len(pattern.name),
                pattern.pattern_type,
            ),
        )
        return [
            AclBinding(pattern, entry)
            for pattern in patterns
            for entry in cache.acls[pattern].entries
        ]
