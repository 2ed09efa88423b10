"""CreateAcls (30): adds ACLs.  Any broker handles it.

Source: Kafka ``AclApis.handleCreateAcls``, ``AclAuthorizer.createAcls``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, PatternType, PermissionType, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.security.acl_cache import AclBinding
from replica_manager.security.principals import parse_principal
from replica_manager.server.acl_messages import (
    SECURITY_DISABLED,
    SENTENCES,
    binding_of,
    invalid_name,
)
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.CREATE_ACLS
VERSIONS: Final = (0, 3)
_Outcome: TypeAlias = tuple[ErrorCode, str | None]


async def handle(
    request: request_types.CreateAclsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per ACL; SECURITY_DISABLED without an authorizer."""
    if broker.administration.acls is None:
        outcome = ErrorCode.security_disabled, SECURITY_DISABLED
        count = len(request.creations)
        return await composed(count, lambda: _response(context, [outcome] * count))
    bindings = [binding_of(creation) async for creation in in_slices(request.creations)]
    outcomes: list[_Outcome] = [_refusal(binding) async for binding in in_slices(bindings)]
    valid = [i for i, (error, _) in enumerate(outcomes) if error is ErrorCode.none]
    if valid:
        wanted = [bindings[i] for i in valid]
        errors = await broker.administration.acls.create(wanted)
        for i, error in zip(valid, errors, strict=True):
            outcomes[i] = error, SENTENCES.get(error)
    return await composed(len(outcomes), lambda: _response(context, outcomes))


def refuse(
    request: request_types.CreateAclsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every ACL of the request."""
    return _response(context, [(error, SENTENCES.get(error))] * len(request.creations))


def _refusal(binding: AclBinding) -> _Outcome:
    """The error code and message for an invalid ACL; NONE if it is valid."""
    resource_type, name, pattern_type = binding.pattern
    invalid = invalid_name(binding)
    if invalid is not None:
        return ErrorCode.invalid_request, invalid
    entry = binding.entry
    # Refuse values that only filters may have (ANY, MATCH).  Kafka writes them, and then cannot
    # read the znode.
    is_rule = (
        resource_type > ResourceType.ANY
        and pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
        and entry.operation > AclOperation.ANY
        and entry.permission_type > PermissionType.ANY
        and parse_principal(entry.principal) is not None
    )
    if not is_rule or "/" in name or name in (".", ".."):
        return ErrorCode.invalid_request, "Failed to create ACL"
    return ErrorCode.none, None


def _response(context: RequestContext, outcomes: Sequence[_Outcome]) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        results=tuple(
            schema.part("AclCreationResult", error_code=error, error_message=message)
            for error, message in outcomes
        )
    )
