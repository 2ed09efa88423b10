"""DescribeAcls (29): the ACLs that match a filter.

Source: Kafka ``AclApis.handleDescribeAcls``.
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
from replica_manager.server.acl_messages import SENTENCES, described, filter_of, found
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed

API_KEY: Final = ApiKey.DESCRIBE_ACLS
VERSIONS: Final = (0, 3)


async def handle(
    request: request_types.DescribeAclsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the ACLs by resource pattern; SECURITY_DISABLED without an authorizer."""
    if broker.authorizer is None:
        return _refusal(
            context, ErrorCode.security_disabled, "No Authorizer is configured on the broker"
        )
    bindings = await found(broker.authorizer.cache, filter_of(request))
    return await composed(len(bindings), lambda: _response(bindings, context))


def _response(bindings: Sequence[AclBinding], context: RequestContext) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=ErrorCode.none, error_message=None, resources=described(schema, bindings)
    )


def refuse(
    _request: request_types.DescribeAclsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code and Kafka's default message for it."""
    return _refusal(context, error, SENTENCES.get(error))


def _refusal(context: RequestContext, error: ErrorCode, message: str | None) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, error_message=message, resources=()
    )
