"""ConsumerGroupHeartbeat (68): refused, as by Kafka's brokers in ZooKeeper mode.

The protocol of KIP-848 needs a KRaft quorum.  Kafka advertises its APIs nevertheless.

Source: Kafka ``KafkaApis.handleConsumerGroupHeartbeat``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import NO_THROTTLE, response_schema
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.CONSUMER_GROUP_HEARTBEAT
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.ConsumerGroupHeartbeatRequest, context: RequestContext, _: BrokerContext
) -> ResponsePayload:
    """The response with UNSUPPORTED_VERSION, from which a consumer says what it lacks."""
    return refuse(request, context, ErrorCode.unsupported_version)


def refuse(
    _: request_types.ConsumerGroupHeartbeatRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, member_epoch=0, heartbeat_interval=NO_THROTTLE
    )
