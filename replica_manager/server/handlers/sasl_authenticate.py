"""SaslAuthenticate (36) after authentication, or on a listener without SASL: an error.

SASL authentication itself is in :mod:`replica_manager.security.sasl_authenticator`.

Source: Kafka ``KafkaApis.handleSaslAuthenticateRequest``.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.SASL_AUTHENTICATE
VERSIONS: Final = (0, 2)


async def handle(
    _request: request_types.SaslAuthenticateRequest, context: RequestContext, _broker: BrokerContext
) -> ResponsePayload:
    """The response with ILLEGAL_SASL_STATE and a message."""
    return _response(
        context,
        ErrorCode.illegal_sasl_state,
        "SaslAuthenticate request received after successful authentication",
    )


def refuse(
    _request: request_types.SaslAuthenticateRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, error, None)


def _response(context: RequestContext, error: ErrorCode, message: str | None) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, error_message=message, auth_bytes=b"", session_lifetime=timedelta(0)
    )
