"""AlterConfigs (33): replaces whole configurations; keys that are not in the request are deleted.

Source: Kafka ``KafkaApis.handleAlterConfigsRequest`` (KIP-133).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from replica_manager.server.configs.config_alteration import altered, refused
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext

API_KEY: Final = ApiKey.ALTER_CONFIGS
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.AlterConfigsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per resource, in the request's order."""
    return await altered(request, context, broker)


def refuse(
    request: request_types.AlterConfigsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every resource of the request."""
    return refused(request, context, error)
