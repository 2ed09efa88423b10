"""CreateDelegationToken (38): creates a token for the client or for another user.

Any broker handles it.

Source: Kafka ``KafkaApis.handleCreateTokenRequest``, ``handleCreateTokenRequestZk`` (KIP-48,
KIP-373).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.delegation_tokens import USER_TYPE
from kafka_common.protocol.numeric_times import NO_TIME
from kafka_common.protocol.request_types import field_or
from replica_manager.security.delegation_token_store import DelegationTokenRefused
from replica_manager.security.delegation_tokens import KnownToken
from replica_manager.security.principals import ANONYMOUS, USER, Principal
from replica_manager.server.authorization import is_allowed
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.token_requests import is_allowed_here, numeric_response

API_KEY: Final = ApiKey.CREATE_DELEGATION_TOKEN
VERSIONS: Final = (0, 3)


async def handle(
    request: request_types.CreateDelegationTokenRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """The response with token and HMAC.

    DELEGATION_TOKEN_AUTH_DISABLED if the broker has no ``delegation.token.secret.key``.
    """
    owner = requester = context.principal
    if name := field_or(request, "owner_principal_name", None):
        owner = Principal(field_or(request, "owner_principal_type", None) or USER, name)
    error = _denial(request, context, broker, owner)
    if error is not ErrorCode.none or broker.administration.token_admin is None:
        return _response(context, error, owner, requester)
    renewers = [f"{each.principal_type}:{each.principal_name}" for each in request.renewers]
    try:
        created = await broker.administration.token_admin.create(
            str(owner), str(requester), renewers, request.max_lifetime
        )
    except DelegationTokenRefused as refused:
        return _response(context, refused.error, owner, requester)
    return _response(context, ErrorCode.none, owner, requester, created)


def refuse(
    _request: request_types.CreateDelegationTokenRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code, and ANONYMOUS as principals."""
    return _response(context, error, ANONYMOUS, ANONYMOUS)


def _denial(
    request: request_types.CreateDelegationTokenRequest,
    context: RequestContext,
    broker: BrokerContext,
    owner: Principal,
) -> ErrorCode:
    if not is_allowed_here(context, broker):
        return ErrorCode.delegation_token_request_not_allowed
    if owner != context.principal and not is_allowed(
        broker, context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
    ):
        return ErrorCode.delegation_token_authorization_failed
    if any(each.principal_type != USER_TYPE for each in request.renewers):
        return ErrorCode.invalid_principal_type
    if broker.administration.token_admin is None:
        return ErrorCode.delegation_token_auth_disabled
    return ErrorCode.none


def _response(
    context: RequestContext,
    error: ErrorCode,
    owner: Principal,
    requester: Principal,
    created: KnownToken | None = None,
) -> ResponsePayload:
    token = None if created is None else created.znode
    return numeric_response(
        API_KEY,
        context.api_version,
        error_code=error,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        token_requester_principal_type=requester.principal_type,
        token_requester_principal_name=requester.name,
        issue_timestamp=NO_TIME if token is None else token.issue_timestamp,
        expiry_timestamp=NO_TIME if token is None else token.expiry_timestamp,
        max_timestamp=NO_TIME if token is None else token.max_timestamp,
        token_id="" if token is None else token.token_id,
        hmac=b"" if created is None else created.hmac,
    )
