"""DescribeAcls (29): the rules that a filter means.

Source: Kafka ``AclApis.handleDescribeAcls``.
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.server.acl_messages import SENTENCES, filter_of
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.schema import response_schema
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AccessControlEntry, ResourcePattern

API_KEY: Final = ApiKey.DESCRIBE_ACLS
VERSIONS: Final = (0, 3)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """The rules by pattern; SECURITY_DISABLED without an authorizer."""
    if broker.authorizer is None:
        return _refusal(
            context, ErrorCode.security_disabled, "No Authorizer is configured on the broker"
        )
    schema = response_schema(API_KEY, context.api_version)
    by_pattern: dict[ResourcePattern, list[AccessControlEntry]] = {}
    for binding in broker.authorizer.cache.bindings(filter_of(request)):
        by_pattern.setdefault(binding.pattern, []).append(binding.entry)
    return schema.response(
        error_code=ErrorCode.none,
        error_message=None,
        resources=tuple(
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
        ),
    )


def refuse(_request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The answer that carries only a code and its sentence."""
    return _refusal(context, error, SENTENCES.get(error))


def _refusal(context: RequestContext, error: ErrorCode, message: str | None) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, error_message=message, resources=()
    )
