"""DescribeProducers (61): the idempotent and transactional producers in a replica's log.

Every broker with a replica of the partition handles it, not only the leader.

Source: Kafka ``KafkaApis.handleDescribeProducersRequest``, ``Partition.activeProducerState``
(KIP-664).
"""

from __future__ import annotations

from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from kafka_common.topic_names import invalid_name_reason
from replica_manager.server.authorization import is_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DESCRIBE_PRODUCERS
VERSIONS: Final = (0, 0)

_NO_TRANSACTION: Final = -1


async def handle(
    request: request_types.DescribeProducersRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with the producers of each partition, or an error code."""
    schema = response_schema(API_KEY, context.api_version)
    topics = []
    async for topic in in_slices(request.topics):
        refusal = _refusal(topic.name, context, broker)
        partitions = [
            await _producers(schema, TopicPartition(topic.name, partition), broker)
            if refusal is None
            else _error(schema, partition, *refusal)
            async for partition in in_slices(topic.partition_indexes)
        ]
        topics.append(schema.part("TopicResponse", name=topic.name, partitions=tuple(partitions)))
    return schema.response(topics=tuple(topics))


def refuse(
    request: request_types.DescribeProducersRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition of the request."""
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        topics=tuple(
            schema.part(
                "TopicResponse",
                name=topic.name,
                partitions=tuple(
                    _error(schema, partition, error, None) for partition in topic.partition_indexes
                ),
            )
            for topic in request.topics
        )
    )


def _refusal(
    name: str, context: RequestContext, broker: BrokerContext
) -> tuple[ErrorCode, str | None] | None:
    reason = invalid_name_reason(name)
    if reason is not None:
        return ErrorCode.invalid_topic_exception, reason
    if not is_allowed(broker, context, AclOperation.READ, ResourceType.TOPIC, name):
        return ErrorCode.topic_authorization_failed, "Topic authorization failed."
    if name not in broker.metadata_cache.snapshot.partitions:
        return (
            ErrorCode.unknown_topic_or_partition,
            "This server does not host this topic-partition.",
        )
    return None


def _error(schema: ResponseSchema, partition: int, error: ErrorCode, message: str | None) -> Any:
    return schema.part(
        "PartitionResponse",
        partition_index=partition,
        error_code=error,
        error_message=message,
        active_producers=(),
    )


async def _producers(schema: ResponseSchema, tp: TopicPartition, broker: BrokerContext) -> Any:
    hosted = broker.records.replica_manager.get_partition_or_error(tp)
    if isinstance(hosted, ErrorCode):
        return _error(schema, tp.partition, hosted, None)
    log = broker.logs.log(tp)
    if log is None:
        return _error(schema, tp.partition, ErrorCode.not_leader_or_follower, None)
    return schema.part(
        "PartitionResponse",
        partition_index=tp.partition,
        error_code=ErrorCode.none,
        active_producers=tuple(
            [
                schema.part(
                    "ProducerState",
                    producer_id=entry.producer_id,
                    producer_epoch=entry.producer_epoch,
                    last_sequence=entry.last_sequence,
                    last_timestamp=entry.last_timestamp,
                    coordinator_epoch=entry.coordinator_epoch,
                    current_txn_start_offset=_NO_TRANSACTION
                    if entry.transaction_first_offset is None
                    else entry.transaction_first_offset,
                )
                async for entry in in_slices(tuple(log.producers.entries.values()))
            ]
        ),
    )
