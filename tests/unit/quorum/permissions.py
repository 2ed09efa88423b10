"""Permissions at a quorum's controller."""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.primitive import i8
from kio.static.protocol import RequestPayload

from tests.support.quorum import in_the_end
from tests.support.secured_quorum import SecuredNode
from zkcontroller.acls import AclOperation, PatternType, PermissionType, ResourceType
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.versioned_messages import request_schema

CLUSTER: Final = "kafka-cluster"


DENIED: Final = ErrorCode.cluster_authorization_failed


TOPIC_DENIED: Final = ErrorCode.topic_authorization_failed


def acl_creation(*rules: tuple[ResourceType, str, AclOperation]) -> RequestPayload:
    """Rules that allow something to alice."""
    schema = request_schema(ApiKey.CREATE_ACLS, 3)
    return schema.request(
        creations=tuple(
            schema.part(
                "AclCreation",
                resource_type=i8(resource_type),
                resource_name=name,
                resource_pattern_type=i8(PatternType.LITERAL),
                principal="User:alice",
                host="*",
                operation=i8(operation),
                permission_type=i8(PermissionType.ALLOW),
            )
            for resource_type, name, operation in rules
        )
    )


def _any_rule_of(name: str | None) -> dict[str, object]:
    return {
        "resource_type_filter": i8(ResourceType.ANY),
        "resource_name_filter": name,
        "pattern_type_filter": i8(PatternType.ANY),
        "principal_filter": None,
        "host_filter": None,
        "operation": i8(AclOperation.ANY),
        "permission_type": i8(PermissionType.ANY),
    }


def acl_description(name: str | None = None) -> RequestPayload:
    return request_schema(ApiKey.DESCRIBE_ACLS, 3).request(**_any_rule_of(name))


async def allow(node: SecuredNode, *rules: tuple[ResourceType, str, AclOperation]) -> None:
    """The admin allows something to alice, and it counts."""
    async with node.client("admin") as admin:
        answer = await admin.ask(acl_creation(*rules))
        assert codes(answer.results) == [ErrorCode.none] * len(rules)

        async def is_known() -> bool:
            described = await admin.ask(acl_description())
            known = {
                (resource.resource_type, resource.resource_name, int(acl.operation))
                for resource in described.resources
                for acl in resource.acls
            }
            return known >= set(rules)

        await in_the_end(is_known, "the rules count")


def codes(rows: Any) -> list[ErrorCode]:
    return [ErrorCode(row.error_code) for row in rows]
