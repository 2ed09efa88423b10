"""Common parts of the delegation token APIs of brokers and KRaft controllers.

Source: Kafka ``KafkaApis.allowTokenRequests``, ``ControllerApis.allowTokenRequests`` (KIP-48).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final, cast

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol.numeric_times import NO_TIME, numeric_response_type
from kafka_common.protocol.versioned_messages import NO_THROTTLE, made_of
from replica_manager.security.delegation_token_store import DelegationTokenRefused
from replica_manager.security.principals import ANONYMOUS, Principal
from replica_manager.server.administration import TokenAdmin
from replica_manager.server.context import BrokerContext, RequestContext

_PLAINTEXT: Final = "PLAINTEXT"
_SSL: Final = "SSL"


def are_token_requests_allowed(
    security_protocol: str, principal: Principal, *, is_token_authenticated: bool
) -> bool:
    """Whether the client is authenticated, but not with a delegation token."""
    if is_token_authenticated or security_protocol == _PLAINTEXT:
        return False
    return security_protocol != _SSL or principal != ANONYMOUS


def is_allowed_here(context: RequestContext, broker: BrokerContext) -> bool:
    """Whether the request's client is authenticated, but not with a delegation token."""
    protocols = {
        endpoint.listener_name: endpoint.security_protocol
        for endpoint in broker.config().listeners.bound
    }
    # A listener that was removed from the configuration counts as PLAINTEXT: not allowed.
    protocol = protocols.get(context.listener_name, _PLAINTEXT)
    return are_token_requests_allowed(
        protocol, context.principal, is_token_authenticated=context.is_token_authenticated
    )


def numeric_response(api_key: int, version: int, **values: object) -> ResponsePayload:
    """A response whose time fields are numbers of milliseconds."""
    kind = numeric_response_type(api_key, version)
    return cast(ResponsePayload, made_of(kind, {"throttle_time": NO_THROTTLE} | values))


async def changed_expiry(
    context: RequestContext,
    broker: BrokerContext,
    change: Callable[[TokenAdmin, str], Awaitable[int]],
) -> ResponsePayload:
    """The RenewDelegationToken or ExpireDelegationToken response with the new expiry time.

    ``change`` is called with the requesting principal.  The error is DELEGATION_TOKEN_AUTH_DISABLED
    if the broker has no ``delegation.token.secret.key``.
    """
    if not is_allowed_here(context, broker):
        return expiry_response(context, ErrorCode.delegation_token_request_not_allowed)
    tokens = broker.administration.token_admin
    if tokens is None:
        return expiry_response(context, ErrorCode.delegation_token_auth_disabled)
    try:
        expires_ms = await change(tokens, str(context.principal))
    except DelegationTokenRefused as refused:
        return expiry_response(context, refused.error)
    return expiry_response(context, ErrorCode.none, expires_ms)


def expiry_response(
    context: RequestContext, error: ErrorCode, expires_ms: int = NO_TIME
) -> ResponsePayload:
    """A response to RenewDelegationToken or ExpireDelegationToken."""
    return numeric_response(
        context.api_key, context.api_version, error_code=error, expiry_timestamp=expires_ms
    )
