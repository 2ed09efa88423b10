"""DescribeTransactions (65): transactional ids as their coordinator knows them.

Source: Kafka ``KafkaApis.handleDescribeTransactionsRequest`` (KIP-664).
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.server.authorization import allowed_names, is_allowed
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.schema import ResponseSchema, response_schema
from replica_manager.server.transaction_messages import by_topic
from replica_manager.transactions.requests import (
    DescribedTransaction,
    DescribeResult,
    DescribeTransactions,
)
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation, ResourceType

API_KEY: Final = ApiKey.DESCRIBE_TRANSACTIONS
VERSIONS: Final = (0, 0)

_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """Each id, or why it is not told; only partitions of topics that the client may describe."""
    asked = DescribeTransactions(
        broker.transactions.new_request_id(),
        tuple(name for name in request.transactional_ids if _may_describe(name, context, broker)),
    )
    found = (await broker.transactions.ask(asked, DescribeResult)).transactions
    described = {each.transactional_id: each for each in found}
    denied = ErrorCode.transactional_id_authorization_failed
    return _response(
        [
            described.get(name, DescribedTransaction(name, denied))
            for name in request.transactional_ids
        ],
        context,
        broker,
    )


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The code for every id."""
    return _response(
        [DescribedTransaction(name, error) for name in request.transactional_ids], context, None
    )


def _may_describe(name: str, context: RequestContext, broker: BrokerContext) -> bool:
    return is_allowed(broker, context, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, name)


def _response(
    transactions: list[DescribedTransaction], context: RequestContext, broker: BrokerContext | None
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        transaction_states=tuple(_state(schema, each, context, broker) for each in transactions)
    )


def _state(
    schema: ResponseSchema,
    each: DescribedTransaction,
    context: RequestContext,
    broker: BrokerContext | None,
) -> Any:
    topics = by_topic(each.partitions)
    visible = topics
    if broker is not None and topics:
        names = allowed_names(broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, topics)
        visible = {name: topics[name] for name in names}
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
            for name, indexes in visible.items()
        ),
    )
