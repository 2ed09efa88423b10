"""IncrementalAlterConfigs (44): changes single keys of configurations.

Source: Kafka ``KafkaApis.handleIncrementalAlterConfigsRequest`` (KIP-339).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.configs.config_alteration import altered, refused
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext

API_KEY: Final = ApiKey.INCREMENTAL_ALTER_CONFIGS
VERSIONS: Final = (0, 1)


async def handle(
    request: request_types.IncrementalAlterConfigsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with one result per resource, in the request's order."""
    return await altered(request, context, broker)


def refuse(
    request: request_types.IncrementalAlterConfigsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every resource of the request."""
    return refused(request, context, error)
