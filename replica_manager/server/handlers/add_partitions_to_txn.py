"""AddPartitionsToTxn (24): adds partitions to transactions, or verifies them for a broker.

Up to version 3, a producer sends it for one transaction.  From version 4 on, brokers send it for
several transactions.  If one partition of a transaction is refused, none is added.

Source: Kafka ``KafkaApis.handleAddPartitionsToTxnRequest`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import INTERNAL_TOPICS, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.record_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.coordinators.transaction_messages import by_topic
from replica_manager.coordinators.transactions.requests import (
    AddPartitions,
    ErrorResult,
    VerifyPartitions,
    VerifyResult,
)
from replica_manager.request_errors import before_producer_fenced
from replica_manager.server.authorization import allowed_names, check_cluster, is_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS: Final = (0, 5)

_OF_BROKERS_SINCE: Final = 4
_FENCED_SINCE: Final = 2
"""The first version whose clients know PRODUCER_FENCED."""

_Errors = Mapping[TopicPartition, ErrorCode]


class _Transaction(NamedTuple):
    """One transaction of the request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    topics: tuple[request_types.AddPartitionsToTxnTopic, ...]
    is_verify_only: bool


async def handle(
    request: request_types.AddPartitionsToTxnRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each partition of each transaction."""
    if context.api_version >= _OF_BROKERS_SINCE:
        check_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    errors = {
        each.transactional_id: await _handled(each, context, broker)
        async for each in in_slices(_transactions(request, context))
    }
    count = sum(1 + len(of_one) for of_one in errors.values())
    return await composed(count, lambda: _response(errors, context))


def refuse(
    request: request_types.AddPartitionsToTxnRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for the request; up to version 3, for every partition."""
    if context.api_version >= _OF_BROKERS_SINCE:
        return response_schema(API_KEY, context.api_version).response(
            error_code=error, results_by_transaction=()
        )
    [transaction] = _transactions(request, context)
    errors = dict.fromkeys(_partitions(transaction.topics), error)
    return _response({transaction.transactional_id: errors}, context)


def _transactions(
    request: request_types.AddPartitionsToTxnRequest, context: RequestContext
) -> Iterator[_Transaction]:
    if context.api_version >= _OF_BROKERS_SINCE:
        for each in field_or(request, "transactions", ()):
            yield _Transaction(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                each.topics,
                each.verify_only,
            )
        return
    yield _Transaction(
        field_or(request, "v3_and_below_transactional_id", ""),
        field_or(request, "v3_and_below_producer_id", NO_PRODUCER_ID),
        field_or(request, "v3_and_below_producer_epoch", NO_PRODUCER_EPOCH),
        field_or(request, "v3_and_below_topics", ()),
        is_verify_only=False,
    )


def _partitions(
    topics: Iterable[request_types.AddPartitionsToTxnTopic],
) -> Iterator[TopicPartition]:
    return (TopicPartition(topic.name, index) for topic in topics for index in topic.partitions)


async def _handled(
    transaction: _Transaction, context: RequestContext, broker: BrokerContext
) -> _Errors:
    partitions = {each: None async for each in in_slices(_partitions(transaction.topics))}
    is_client = context.api_version < _OF_BROKERS_SINCE
    if is_client and not is_allowed(
        broker,
        context,
        AclOperation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        transaction.transactional_id,
    ):
        denied = ErrorCode.transactional_id_authorization_failed
        return dict.fromkeys(partitions, denied)
    refused = await _refused(partitions, context, broker, is_client=is_client)
    if refused:
        return dict.fromkeys(partitions, ErrorCode.operation_not_attempted) | refused
    request_id = broker.records.transactions.new_request_id()
    if transaction.is_verify_only:
        verifying = VerifyPartitions(request_id, *transaction[:3], tuple(partitions))
        return (await broker.records.transactions.ask(verifying, VerifyResult)).errors
    adding = AddPartitions(request_id, *transaction[:3], tuple(partitions))
    error = (await broker.records.transactions.ask(adding, ErrorResult)).error
    error = before_producer_fenced(error, context.api_version, _FENCED_SINCE)
    return dict.fromkeys(partitions, error)


async def _refused(
    partitions: Collection[TopicPartition],
    context: RequestContext,
    broker: BrokerContext,
    *,
    is_client: bool,
) -> dict[TopicPartition, ErrorCode]:
    """The partitions that the client may not write to, or that do not exist, with errors."""
    topics = {partition.topic: None async for partition in in_slices(partitions)}
    allowed = topics
    if is_client:
        writable = [name for name in topics if name not in INTERNAL_TOPICS]
        allowed = dict.fromkeys(
            await allowed_names(broker, context, AclOperation.WRITE, ResourceType.TOPIC, writable)
        )
    snapshot = broker.metadata_cache.snapshot
    refused: dict[TopicPartition, ErrorCode] = {}
    async for partition in in_slices(partitions):
        if partition.topic not in allowed:
            refused[partition] = ErrorCode.topic_authorization_failed
        elif snapshot.partition(*partition) is None:
            refused[partition] = ErrorCode.unknown_topic_or_partition
    return refused


def _response(errors: Mapping[str, _Errors], context: RequestContext) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    if context.api_version < _OF_BROKERS_SINCE:
        [of_one] = errors.values()
        return schema.response(results_by_topic_v3_and_below=_topics(schema, of_one))
    return schema.response(
        error_code=ErrorCode.none,
        results_by_transaction=tuple(
            schema.part(
                "AddPartitionsToTxnResult",
                transactional_id=transactional_id,
                topic_results=_topics(schema, of_one),
            )
            for transactional_id, of_one in errors.items()
        ),
    )


def _topics(schema: ResponseSchema, errors: _Errors) -> tuple[Any, ...]:
    return tuple(
        schema.part(
            "AddPartitionsToTxnTopicResult",
            name=topic,
            results_by_partition=tuple(
                schema.part(
                    "AddPartitionsToTxnPartitionResult",
                    partition_index=index,
                    partition_error_code=errors[TopicPartition(topic, index)],
                )
                for index in indexes
            ),
        )
        for topic, indexes in by_topic(errors).items()
    )
