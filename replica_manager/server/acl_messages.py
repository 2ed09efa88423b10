"""ACLs in CreateAcls, DeleteAcls and DescribeAcls messages.

Version 0 has no pattern types: its resource names are literal, and its filters match literal ones.

Source: Kafka ``CreateAclsRequest``, ``DeleteAclsRequest``, ``DescribeAclsRequest``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
    by_code,
)
from kafka_common.protocol import request_types
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema
from replica_manager.request_errors import RequestRefused
from replica_manager.security.acl_cache import AclBinding, AclBindingFilter, AclCache
from replica_manager.security.authorizer import CLUSTER_NAME
from replica_manager.server.large_responses import aside

SECURITY_DISABLED: Final = "No Authorizer is configured."
SENTENCES: Final = {
    ErrorCode.cluster_authorization_failed: "Cluster authorization failed.",
    ErrorCode.security_disabled: "Security features are disabled.",
    ErrorCode.unknown_server_error: (
        "The server experienced an unexpected error when processing the request."
    ),
}


def binding_of(creation: request_types.AclCreation) -> AclBinding:
    """The ACL to create; RequestRefused(INVALID_REQUEST) if a field is UNKNOWN (code 0)."""
    pattern = ResourcePattern(
        by_code(ResourceType, creation.resource_type),
        creation.resource_name,
        by_code(PatternType, field_or(creation, "resource_pattern_type", PatternType.LITERAL)),
    )
    entry = AccessControlEntry(
        creation.principal,
        creation.host,
        by_code(AclOperation, creation.operation),
        by_code(PermissionType, creation.permission_type),
    )
    # Kafka cannot parse a request with UNKNOWN (code 0), and closes the connection.
    if 0 in (
        creation.resource_type,
        field_or(creation, "resource_pattern_type", PatternType.LITERAL),
        creation.operation,
        creation.permission_type,
    ):
        raise RequestRefused(ErrorCode.invalid_request, "CreatableAcls contain unknown elements")
    return AclBinding(pattern, entry)


def filter_of(
    wanted: request_types.DescribeAclsRequest | request_types.DeleteAclsFilter,
) -> AclBindingFilter:
    """The ACL filter; RequestRefused(INVALID_REQUEST) if a field is UNKNOWN (code 0)."""
    codes = (
        wanted.resource_type_filter,
        field_or(wanted, "pattern_type_filter", PatternType.LITERAL),
        wanted.operation,
        wanted.permission_type,
    )
    if 0 in codes:
        raise RequestRefused(ErrorCode.invalid_request, "a filter contains UNKNOWN elements")
    resource_type, pattern_type, operation, permission_type = codes
    return AclBindingFilter(
        by_code(ResourceType, resource_type),
        wanted.resource_name_filter,
        by_code(PatternType, pattern_type),
        wanted.principal_filter,
        wanted.host_filter,
        by_code(AclOperation, operation),
        by_code(PermissionType, permission_type),
    )


async def found(cache: AclCache, wanted: AclBindingFilter) -> list[AclBinding]:
    """The ACLs that match a filter; a search through many ACLs runs in a thread.

    The thread is safe because an ACL cache is immutable.
    """
    is_one = wanted.name is not None and wanted.pattern_type is not PatternType.MATCH
    looked_at = 1 if is_one else len(cache.acls)
    return await aside(looked_at, lambda: cache.bindings(wanted))


def invalid_name(binding: AclBinding) -> str | None:
    """The error message for an invalid resource name of the ACL; None if it is valid.

    Source: Kafka ``AclApis.handleCreateAcls``.
    """
    resource_type, name, _ = binding.pattern
    if resource_type is ResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
    return None if name else "Invalid empty resource name"


def described(schema: ResponseSchema, bindings: Iterable[AclBinding]) -> tuple[Any, ...]:
    """ACLs grouped by resource pattern, for DescribeAcls."""
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for pattern, entry in bindings:
        by_pattern.setdefault(pattern, []).append(entry)
    return tuple(
        schema.part(
            "DescribeAclsResource",
            resource_type=int(pattern.resource_type),
            resource_name=pattern.name,
            pattern_type=int(pattern.pattern_type),
            acls=tuple(
                schema.part(
                    "AclDescription",
                    principal=entry.principal,
                    host=entry.host,
                    operation=int(entry.operation),
                    permission_type=int(entry.permission_type),
                )
                for entry in entries
            ),
        )
        for pattern, entries in by_pattern.items()
    )


def deleted(
    schema: ResponseSchema,
    pattern: ResourcePattern,
    entry: AccessControlEntry,
    error: ErrorCode = ErrorCode.none,
) -> Any:
    """A deleted ACL for the DeleteAcls response, with its own error code."""
    return schema.part(
        "DeleteAclsMatchingAcl",
        error_code=error,
        error_message=SENTENCES.get(error),
        resource_type=int(pattern.resource_type),
        resource_name=pattern.name,
        pattern_type=int(pattern.pattern_type),
        principal=entry.principal,
        host=entry.host,
        operation=int(entry.operation),
        permission_type=int(entry.permission_type),
    )
