"""SaslHandshake (17) after authentication, or on a listener without SASL: an error.

SASL authentication itself is in :mod:`replica_manager.security.sasl_authenticator`.

Source: Kafka ``KafkaApis.handleSaslHandshakeRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.SASL_HANDSHAKE
VERSIONS: Final = (0, 1)


async def handle(
    request: request_types.SaslHandshakeRequest, context: RequestContext, _broker: BrokerContext
) -> ResponsePayload:
    """The response with ILLEGAL_SASL_STATE."""
    return refuse(request, context, ErrorCode.illegal_sasl_state)


def refuse(
    _request: request_types.SaslHandshakeRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return response_schema(API_KEY, context.api_version).response(error_code=error, mechanisms=())
