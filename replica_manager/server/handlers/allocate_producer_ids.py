"""AllocateProducerIds (67): a broker asks the controller for a block of producer ids.

Source: Kafka ``KafkaApis.handleAllocateProducerIdsRequest`` (KIP-730).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.controller_requests import ask
from zkcontroller.core.effects import ProducerIdBlock
from zkcontroller.core.events import AllocateProducerIds

API_KEY: Final = ApiKey.ALLOCATE_PRODUCER_IDS
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.AllocateProducerIdsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload:
    """The response with the block of producer ids, or with an error code."""
    block = await ask(
        broker,
        lambda request_id: AllocateProducerIds(request.broker_id, request.broker_epoch, request_id),
        ProducerIdBlock,
    )
    return _response(context, block)


def refuse(
    _request: request_types.AllocateProducerIdsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, ProducerIdBlock(error))


def _response(context: RequestContext, block: ProducerIdBlock) -> ResponsePayload:
    return response_schema(API_KEY, context.api_version).response(
        error_code=block.error_code,
        producer_id_start=block.start,
        producer_id_len=block.length,
    )
