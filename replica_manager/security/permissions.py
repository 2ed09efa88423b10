"""The permissions of one client, for handlers.

Without an authorizer everything is allowed.

Source: Kafka ``AuthHelper``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from kafka_common.acls import AclOperation, ResourceType
from replica_manager.security.authorizer import CLUSTER_NAME, Authorizer, Requester, bits
from zkcontroller.zookeeper.kafka_acl_znodes import supported_operations


def reference_counts(names: Iterable[str]) -> Counter[str]:
    """How often each name comes, for the audit log.  ``names`` may be the keys of a mapping."""
    return Counter(iter(names))  # of a mapping itself it takes the values for counts


class Permissions(NamedTuple):
    """The permissions of one client, by an authorizer."""

    authorizer: Authorizer | None
    """None without an authorizer: every client may do everything."""
    requester: Requester

    def allow(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        name: str,
        *,
        log_if_denied: bool = True,
        reference_count: int = 1,
    ) -> bool:
        """Whether the operation is allowed on the resource.

        ``reference_count``: how often the request names the resource, for the audit log.
        """
        return self.authorizer is None or self.authorizer.authorize(
            self.requester,
            operation,
            resource_type,
            name,
            log_if_denied=log_if_denied,
            reference_count=reference_count,
        )

    def allow_on_cluster(self, operation: AclOperation, *, log_if_denied: bool = True) -> bool:
        """Whether the operation is allowed on the cluster."""
        return self.allow(
            operation, ResourceType.CLUSTER, CLUSTER_NAME, log_if_denied=log_if_denied
        )

    def allowed_names(
        self,
        operation: AclOperation,
        resource_type: ResourceType,
        names: Iterable[str],
        *,
        log_if_denied: bool = True,
    ) -> dict[str, None]:
        """The names on which the operation is allowed, each once, in order."""
        if self.authorizer is None:
            return dict.fromkeys(names)
        return {
            name: None
            for name, count in reference_counts(names).items()
            if self.allow(
                operation, resource_type, name, log_if_denied=log_if_denied, reference_count=count
            )
        }

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """The operations allowed on the resource, as a bit field (KIP-430)."""
        operations = supported_operations(resource_type)
        authorizer = self.authorizer
        if authorizer is None:
            return bits(operations)
        return bits(
            operation
            for operation in operations
            if authorizer.authorize(
                self.requester,
                operation,
                resource_type,
                name,
                log_if_allowed=False,
                log_if_denied=False,
            )
        )
