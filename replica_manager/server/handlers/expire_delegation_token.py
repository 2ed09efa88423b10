"""ExpireDelegationToken (40): changes a token's expiry time, or deletes it at once.

The owner and the renewers of a token may send the request to any broker.

Source: Kafka ``KafkaApis.handleExpireTokenRequest``, ``handleExpireTokenRequestZk`` (KIP-48).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.token_requests import changed_expiry, expiry_response

API_KEY: Final = ApiKey.EXPIRE_DELEGATION_TOKEN
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.ExpireDelegationTokenRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """The response with the new expiry time of the token."""
    return await changed_expiry(
        context,
        broker,
        lambda tokens, requester: tokens.expire(
            requester, request.hmac, request.expiry_time_period
        ),
    )


def refuse(
    _request: request_types.ExpireDelegationTokenRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return expiry_response(context, error, 0)
