"""RenewDelegationToken (39): lets a token live longer, up to its lifetime.

The owner and the renewers of a token may ask, at any broker.

Source: Kafka ``KafkaApis.handleRenewTokenRequest``, ``handleRenewTokenRequestZk`` (KIP-48).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.security.delegation_token_store import DelegationTokenRefused
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.token_requests import is_allowed_here, numeric_response
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.protocol.numeric_times import NO_TIME

API_KEY: Final = ApiKey.RENEW_DELEGATION_TOKEN
VERSIONS: Final = (0, 2)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """When the token expires now; DELEGATION_TOKEN_AUTH_DISABLED without a secret."""
    if not is_allowed_here(context, broker):
        return _response(context, ErrorCode.delegation_token_request_not_allowed, NO_TIME)
    if broker.token_store is None:
        return _response(context, ErrorCode.delegation_token_auth_disabled, NO_TIME)
    change = partial(
        broker.token_store.renew,
        str(context.principal),
        request.hmac,
        request.renew_period,
    )
    try:
        expires_ms = await broker.admin.run(change)
    except DelegationTokenRefused as refused:
        return _response(context, refused.error, NO_TIME)
    return _response(context, ErrorCode.none, expires_ms)


def refuse(_request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The answer that carries only a code."""
    return _response(context, error, 0)


def _response(context: RequestContext, error: ErrorCode, expires_ms: int) -> ResponsePayload:
    return numeric_response(
        API_KEY, context.api_version, error_code=error, expiry_timestamp=expires_ms
    )
