"""AddOffsetsToTxn (25): adds a group's partition of ``__consumer_offsets`` to a transaction.

Source: Kafka ``KafkaApis.handleAddOffsetsToTxnRequest`` (KIP-98).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from replica_manager.coordinators.transactions.requests import AddPartitions, ErrorResult
from replica_manager.request_errors import before_producer_fenced
from replica_manager.server.authorization import check_group, check_transactional_id
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.ADD_OFFSETS_TO_TXN
VERSIONS: Final = (0, 4)

_FENCED_SINCE: Final = 2
"""The first version whose clients know PRODUCER_FENCED."""


async def handle(
    request: request_types.AddOffsetsToTxnRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with an error code, NONE if the partition was added."""
    check_transactional_id(broker, context, AclOperation.WRITE, request.transactional_id)
    check_group(broker, context, AclOperation.READ, request.group_id)
    partition = TopicPartition(OFFSETS_TOPIC, broker.records.groups.partition_for(request.group_id))
    asked = AddPartitions(
        broker.records.transactions.new_request_id(),
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        (partition,),
    )
    error = (await broker.records.transactions.ask(asked, ErrorResult)).error
    error = before_producer_fenced(error, context.api_version, _FENCED_SINCE)
    return refuse(request, context, error)


def refuse(
    _request: request_types.AddOffsetsToTxnRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``."""
    return response_schema(API_KEY, context.api_version).response(error_code=error)
