"""ApiVersions (18): which APIs and versions are answered here; the first thing a client asks.

A version from the future is answered too, in version 0's format; the dispatcher does that, because
such a body cannot be parsed.

Source: Kafka ``KafkaApis.handleApiVersionsRequest`` (KIP-511, KIP-584).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.server.context import BrokerContext, RequestContext
from zkcontroller.protocol.api_versions import (
    ApiKey,
    api_versions_error,
    api_versions_response,
    is_valid_software,
)

API_KEY: Final = ApiKey.API_VERSIONS
VERSIONS: Final = (0, 4)
_NAMES_SOFTWARE_SINCE: Final = 3


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """Every API of this broker; INVALID_REQUEST for a client with an odd name."""
    if context.api_version >= _NAMES_SOFTWARE_SINCE and not (
        is_valid_software(request.client_software_name)
        and is_valid_software(request.client_software_version)
    ):
        return refuse(request, context, ErrorCode.invalid_request)
    return api_versions_response(
        context.api_version,
        broker.offered,
        finalized_features_epoch=broker.features.epoch,
    )


def refuse(_request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The answer that carries only a code."""
    return api_versions_error(context.api_version, error)
