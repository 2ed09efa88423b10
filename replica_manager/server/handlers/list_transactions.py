"""ListTransactions (66): the transactional ids that this broker coordinates.

Source: Kafka ``KafkaApis.handleListTransactionsRequest`` (KIP-664, KIP-994).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.coordinators.transactions.requests import (
    ANY_DURATION,
    ListTransactions,
    ListTransactionsResult,
)
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed

API_KEY: Final = ApiKey.LIST_TRANSACTIONS
VERSIONS: Final = (0, 1)


async def handle(
    request: request_types.ListTransactionsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the transactions that match the filters and the client may describe."""
    asked = ListTransactions(
        broker.records.transactions.new_request_id(),
        tuple(request.state_filters),
        tuple(request.producer_id_filters),
        field_or(request, "duration_filter", ANY_DURATION),
    )
    result = await broker.records.transactions.ask(asked, ListTransactionsResult)
    visible = await allowed_names(
        broker,
        context,
        AclOperation.DESCRIBE,
        ResourceType.TRANSACTIONAL_ID,
        [each.transactional_id for each in result.transactions],
    )
    shown = [each for each in result.transactions if each.transactional_id in visible]
    visible_result = ListTransactionsResult(result.error, tuple(shown), result.unknown_states)
    return await composed(len(shown), lambda: _response(visible_result, context))


def refuse(
    _request: request_types.ListTransactionsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(ListTransactionsResult(error), context)


def _response(result: ListTransactionsResult, context: RequestContext) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=result.error,
        unknown_state_filters=result.unknown_states,
        transaction_states=tuple(
            schema.part(
                "TransactionState",
                transactional_id=each.transactional_id,
                producer_id=each.producer_id,
                transaction_state=each.state,
            )
            for each in result.transactions
        ),
    )
