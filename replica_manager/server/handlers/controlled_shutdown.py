"""ControlledShutdown (7): moves the leaderships of a broker that is shutting down.

The active controller handles it in its event thread.  Any other broker responds with
STALE_CONTROLLER_EPOCH, as in Kafka.

Source: Kafka ``KafkaApis.handleControlledShutdownRequest``.
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.handlers.control_requests import broker_epoch_of

API_KEY: Final = ApiKey.CONTROLLED_SHUTDOWN
VERSIONS: Final = (0, 3)


async def handle(
    request: request_types.ControlledShutdownRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with the partitions that the stopping broker still leads."""
    result = await broker.administration.controller.controlled_shutdown(
        request.broker_id, broker_epoch_of(request)
    )
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=result.error_code,
        remaining_partitions=tuple(
            schema.part("RemainingPartition", topic_name=tp.topic, partition_index=tp.partition)
            for tp in result.remaining_partitions
        ),
    )


def refuse(
    _request: request_types.ControlledShutdownRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return response_schema(API_KEY, context.api_version).response(
        error_code=error, remaining_partitions=()
    )
