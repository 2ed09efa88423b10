"""DescribeTransactions (65): the state of transactional ids at their coordinator.

Source: Kafka ``KafkaApis.handleDescribeTransactionsRequest`` (KIP-664).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.coordinators.transaction_messages import by_topic
from replica_manager.coordinators.transactions.requests import (
    DescribedTransaction,
    DescribeTransactions,
    DescribeTransactionsResult,
)
from replica_manager.server.authorization import allowed_names, is_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_pieces, in_slices

API_KEY: Final = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS: Final = (0, 0)

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(
    request: request_types.DescribeTransactionsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with each transactional id once, or its error.

    Leaves out the topics that the client may not describe.
    """
    names = dict.fromkeys(request.transactional_ids)
    visible = [name async for name in in_slices(names) if _may_describe(name, context, broker)]
    described: dict[str, DescribedTransaction] = {}
    async for piece in in_pieces(visible):
        asked = DescribeTransactions(broker.records.transactions.new_request_id(), tuple(piece))
        for found in (
            await broker.records.transactions.ask(asked, DescribeTransactionsResult)
        ).transactions:
            described[found.transactional_id] = await _shown(found, context, broker)
    denied = ErrorCode.transactional_id_authorization_failed
    responses = [
        described.get(name, DescribedTransaction(name, denied)) async for name in in_slices(names)
    ]
    count = sum(1 + len(each.partitions) for each in responses)
    return await composed(count, lambda: _response(responses, context))


def refuse(
    request: request_types.DescribeTransactionsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every transactional id."""
    return _response(
        [DescribedTransaction(name, error) for name in request.transactional_ids], context
    )


def _may_describe(name: str, context: RequestContext, broker: BrokerContext) -> bool:
    return is_allowed(broker, context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)


async def _shown(
    found: DescribedTransaction, context: RequestContext, broker: BrokerContext
) -> DescribedTransaction:
    """The transaction without the topics that the client may not describe."""
    if not found.partitions:
        return found
    topics = dict.fromkeys(partition.topic for partition in found.partitions)
    visible = await allowed_names(
        broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics
    )
    return found._replace(
        partitions=tuple(each for each in found.partitions if each.topic in visible)
    )


def _response(transactions: list[DescribedTransaction], context: RequestContext) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(transaction_states=tuple(_state(schema, each) for each in transactions))


def _state(schema: ResponseSchema, each: DescribedTransaction) -> Any:
    return schema.part(
        "TransactionState",
        error_code=each.error,
        transactional_id=each.transactional_id,
        transaction_state=each.state,
        transaction_timeout=timedelta(milliseconds=each.timeout_ms),
        transaction_start_time=_1970 + timedelta(milliseconds=each.start_ms),
        producer_id=each.producer_id,
        producer_epoch=each.producer_epoch,
        topics=tuple(
            schema.part("TopicData", topic=name, partitions=tuple(indexes))
            for name, indexes in by_topic(each.partitions).items()
        ),
    )
