"""ApiVersions (18): the supported APIs and versions; the first request of a client.

A request of a newer version gets a response of version 0.  The dispatcher sends it, because the
body of such a request cannot be decoded.

Source: Kafka ``KafkaApis.handleApiVersionsRequest`` (KIP-511, KIP-584).
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import (
    ApiKey,
    api_versions_error,
    api_versions_response,
    client_software,
)
from kafka_common.protocol.messages import write
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.throttled_responses import throttled

API_KEY: Final = ApiKey.API_VERSIONS
VERSIONS: Final = (0, 4)


async def handle(
    request: request_types.ApiVersionsRequest, context: RequestContext, broker: BrokerContext
) -> EncodedBody | ResponsePayload:
    """The response with every API; INVALID_REQUEST for an invalid software name or version."""
    if client_software(context.api_version, request) is None:
        return refuse(request, context, ErrorCode.invalid_request)
    offered = tuple(broker.offered.items())
    version, features_epoch = context.api_version, broker.administration.features.epoch
    return EncodedBody(
        (_encoded(version, offered, features_epoch),),
        errors=lambda: {ErrorCode.none: 1},
        throttled=lambda throttle_ms: (
            write(throttled(_response(version, offered, features_epoch), throttle_ms)),
        ),
    )


@lru_cache(maxsize=64)  # encoding sixty APIs is slow, and all connections get the same bytes
def _encoded(
    version: int, offered: tuple[tuple[int, tuple[int, int]], ...], features_epoch: int
) -> bytes:
    return write(_response(version, offered, features_epoch))


def _response(
    version: int, offered: tuple[tuple[int, tuple[int, int]], ...], features_epoch: int
) -> ResponsePayload:
    return api_versions_response(version, dict(offered), finalized_features_epoch=features_epoch)


def refuse(
    _request: request_types.ApiVersionsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return api_versions_error(context.api_version, error)
