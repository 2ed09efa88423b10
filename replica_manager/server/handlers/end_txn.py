"""EndTxn (26): a producer commits or aborts its transaction.

The response is sent when the decision is in the transaction log; the markers are written after it.

Source: Kafka ``KafkaApis.handleEndTxnRequest`` (KIP-98).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.coordinators.transactions.requests import EndTransaction, ErrorResult
from replica_manager.request_errors import before_producer_fenced
from replica_manager.server.authorization import check_transactional_id
from replica_manager.server.context import BrokerContext, RequestContext

API_KEY: Final = ApiKey.END_TXN
VERSIONS: Final = (0, 4)

_FENCED_SINCE: Final = 2
"""The first version whose clients know PRODUCER_FENCED."""


async def handle(
    request: request_types.EndTxnRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload:
    """The response with an error code, NONE if the decision was written."""
    check_transactional_id(broker, context, AclOperation.WRITE, request.transactional_id)
    asked = EndTransaction(
        broker.records.transactions.new_request_id(),
        request.transactional_id,
        request.producer_id,
        request.producer_epoch,
        request.committed,
    )
    error = (await broker.records.transactions.ask(asked, ErrorResult)).error
    error = before_producer_fenced(error, context.api_version, _FENCED_SINCE)
    return refuse(request, context, error)


def refuse(
    _request: request_types.EndTxnRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error``."""
    return response_schema(API_KEY, context.api_version).response(error_code=error)
