"""DeleteAcls (31): deletes the ACLs that filters match.  Any broker handles it.

Source: Kafka ``AclApis.handleDeleteAcls``, ``AclAuthorizer.deleteAcls``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.security.acl_cache import AclBinding
from replica_manager.server.acl_messages import SECURITY_DISABLED, SENTENCES, deleted, filter_of
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DELETE_ACLS
VERSIONS: Final = (0, 3)


async def handle(
    request: request_types.DeleteAclsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the ACLs deleted for each filter.

    SECURITY_DISABLED without an authorizer.
    """
    if broker.administration.acls is None:
        return await composed(
            len(request.filters),
            lambda: _refusal(request, context, ErrorCode.security_disabled, SECURITY_DISABLED),
        )
    filters = [filter_of(wanted) async for wanted in in_slices(request.filters)]
    removed = await broker.administration.acls.delete(filters)
    count = len(removed) + sum(map(len, removed))
    return await composed(count, lambda: _response(removed, context))


def _response(
    removed: Sequence[Sequence[tuple[AclBinding, ErrorCode]]], context: RequestContext
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        filter_results=tuple(
            schema.part(
                "DeleteAclsFilterResult",
                error_code=ErrorCode.none,
                error_message=None,
                matching_acls=tuple(
                    deleted(schema, *binding, error) for binding, error in bindings
                ),
            )
            for bindings in removed
        )
    )


def refuse(
    request: request_types.DeleteAclsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every filter of the request."""
    return _refusal(request, context, error, SENTENCES.get(error))


def _refusal(
    request: request_types.DeleteAclsRequest,
    context: RequestContext,
    error: ErrorCode,
    message: str | None,
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    result = schema.part(
        "DeleteAclsFilterResult", error_code=error, error_message=message, matching_acls=()
    )
    return schema.response(filter_results=(result,) * len(request.filters))
