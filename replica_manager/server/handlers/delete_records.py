"""DeleteRecords (21): deletes the records before an offset on every live replica.

Source: Kafka ``KafkaApis.handleDeleteRecordsRequest`` (KIP-107, KIP-204).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.replication.delayed_delete_records import DeletedRecords
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import by_topic, timeout_ms_of
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.DELETE_RECORDS
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.DeleteRecordsRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per partition.

    Waits until all live replicas have raised their log start offset, or until the timeout.
    """
    allowed = await allowed_names(
        broker,
        context,
        AclOperation.DELETE,
        ResourceType.TOPIC,
        [topic.name for topic in request.topics],
    )
    cache = broker.metadata_cache.snapshot
    refused: dict[TopicPartition, DeletedRecords] = {}
    wanted: dict[TopicPartition, int] = {}
    offsets = {tp: offset async for tp, offset in in_slices(_offsets(request))}
    async for tp, offset in in_slices(offsets.items()):
        if tp.topic not in allowed:
            refused[tp] = DeletedRecords(ErrorCode.topic_authorization_failed)
        elif cache.partition(*tp) is None:
            refused[tp] = DeletedRecords(ErrorCode.unknown_topic_or_partition)
        else:
            wanted[tp] = offset
    deleted = await broker.records.deletions.delete(wanted, timeout_ms_of(request))
    responses = {**deleted, **refused}
    return await composed(len(responses), lambda: _response(context, responses))


def refuse(
    request: request_types.DeleteRecordsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition of the request."""
    return _response(context, dict.fromkeys(dict(_offsets(request)), DeletedRecords(error)))


def _offsets(request: request_types.DeleteRecordsRequest) -> Iterator[tuple[TopicPartition, int]]:
    """The requested offsets; for a partition named twice the last one is used, as in Kafka."""
    return (
        (TopicPartition(topic.name, each.partition_index), each.offset)
        for topic in request.topics
        for each in topic.partitions
    )


def _response(
    context: RequestContext, responses: Mapping[TopicPartition, DeletedRecords]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        topics=tuple(
            schema.part(
                "DeleteRecordsTopicResult",
                name=name,
                partitions=tuple(
                    schema.part(
                        "DeleteRecordsPartitionResult",
                        partition_index=index,
                        low_watermark=response.low_watermark,
                        error_code=response.error,
                    )
                    for index, response in partitions
                ),
            )
            for name, partitions in by_topic(list(responses.items())).items()
        )
    )
