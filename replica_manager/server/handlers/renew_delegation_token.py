"""RenewDelegationToken (39): extends a token's expiry time, up to its maximum lifetime.

The owner and the renewers of a token may send the request to any broker.

Source: Kafka ``KafkaApis.handleRenewTokenRequest``, ``handleRenewTokenRequestZk`` (KIP-48).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.token_requests import changed_expiry, expiry_response

API_KEY: Final = ApiKey.RENEW_DELEGATION_TOKEN
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.RenewDelegationTokenRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """The response with the new expiry time of the token."""
    return await changed_expiry(
        context,
        broker,
        lambda tokens, requester: tokens.renew(requester, request.hmac, request.renew_period),
    )


def refuse(
    _request: request_types.RenewDelegationTokenRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return expiry_response(context, error, 0)
