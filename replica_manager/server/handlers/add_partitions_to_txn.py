"""AddPartitionsToTxn (24): partitions join a transaction, or a broker asks whether they have.

Up to version 3 a producer asks, about one transaction; from 4 on brokers do, about several.  If one
partition of a transaction cannot join, none does.

Source: Kafka ``KafkaApis.handleAddPartitionsToTxnRequest`` (KIP-98, KIP-890).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.server.authorization import allowed_names, check_cluster, is_allowed
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.errors import before_producer_fenced
from replica_manager.server.schema import ResponseSchema, response_schema
from replica_manager.server.transaction_messages import by_topic
from replica_manager.transactions.requests import (
    AddPartitions,
    ErrorResult,
    VerifyPartitions,
    VerifyResult,
)
from zkcontroller.model import INTERNAL_TOPICS, TopicPartition
from zkcontroller.protocol.api_versions import ApiKey
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation, ResourceType

API_KEY: Final = ApiKey.ADD_PARTITIONS_TO_TXN
VERSIONS: Final = (0, 5)

_OF_BROKERS_SINCE: Final = 4
_FENCED_SINCE: Final = 2
"""Before, clients did not know PRODUCER_FENCED."""

_Errors = Mapping[TopicPartition, ErrorCode]


class _Transaction(NamedTuple):
    """What is asked about one transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]
    is_verify_only: bool


async def handle(request: Any, context: RequestContext, broker: BrokerContext) -> ResponsePayload:
    """A code for each partition of each transaction."""
    if context.api_version >= _OF_BROKERS_SINCE:
        check_cluster(broker, context, AclOperation.CLUSTER_ACTION)
    errors = {
        each.transactional_id: await _handled(each, context, broker)
        for each in _transactions(request, context)
    }
    return _response(errors, context)


def refuse(request: Any, context: RequestContext, error: ErrorCode) -> ResponsePayload:
    """The code as a whole; for every partition up to version 3."""
    if context.api_version >= _OF_BROKERS_SINCE:
        return response_schema(API_KEY, context.api_version).response(
            error_code=error, results_by_transaction=()
        )
    [transaction] = _transactions(request, context)
    errors = dict.fromkeys(transaction.partitions, error)
    return _response({transaction.transactional_id: errors}, context)


def _transactions(request: Any, context: RequestContext) -> list[_Transaction]:
    if context.api_version >= _OF_BROKERS_SINCE:
        return [
            _Transaction(
                each.transactional_id,
                each.producer_id,
                each.producer_epoch,
                _partitions(each.topics),
                each.verify_only,
            )
            for each in request.transactions
        ]
    return [
        _Transaction(
            request.v3_and_below_transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
            _partitions(request.v3_and_below_topics),
            is_verify_only=False,
        )
    ]


def _partitions(topics: Any) -> tuple[TopicPartition, ...]:
    return tuple(
        dict.fromkeys(
            TopicPartition(topic.name, index) for topic in topics for index in topic.partitions
        )
    )


async def _handled(
    transaction: _Transaction, context: RequestContext, broker: BrokerContext
) -> _Errors:
    is_client = context.api_version < _OF_BROKERS_SINCE
    if is_client and not is_allowed(
        broker,
        context,
        AclOperation.WRITE,
        ResourceType.TRANSACTIONAL_ID,
        transaction.transactional_id,
    ):
        denied = ErrorCode.transactional_id_authorization_failed
        return dict.fromkeys(transaction.partitions, denied)
    refused = _refused(transaction, context, broker, is_client=is_client)
    if refused:
        return dict.fromkeys(transaction.partitions, ErrorCode.operation_not_attempted) | refused
    request_id = broker.transactions.new_request_id()
    if transaction.is_verify_only:
        verifying = VerifyPartitions(request_id, *transaction[:4])
        return (await broker.transactions.ask(verifying, VerifyResult)).errors
    adding = AddPartitions(request_id, *transaction[:4])
    error = (await broker.transactions.ask(adding, ErrorResult)).error
    error = before_producer_fenced(error, context.api_version, _FENCED_SINCE)
    return dict.fromkeys(transaction.partitions, error)


def _refused(
    transaction: _Transaction, context: RequestContext, broker: BrokerContext, *, is_client: bool
) -> dict[TopicPartition, ErrorCode]:
    """Partitions that the client may not write to, and those that do not exist."""
    topics = dict.fromkeys(partition.topic for partition in transaction.partitions)
    allowed = topics
    if is_client:
        writable = [name for name in topics if name not in INTERNAL_TOPICS]
        allowed = dict.fromkeys(
            allowed_names(broker, context, AclOperation.WRITE, ResourceType.TOPIC, writable)
        )
    snapshot = broker.metadata_cache.snapshot
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in transaction.partitions:
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
