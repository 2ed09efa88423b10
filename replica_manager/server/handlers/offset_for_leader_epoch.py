"""OffsetForLeaderEpoch (23): the end offset of a leader epoch in the log of a partition's leader.

Followers use it to truncate their logs, consumers to detect that records they read were truncated.
A client with ClusterAction may name every topic, other clients those that they may describe.

Source: Kafka ``KafkaApis.handleOffsetForLeaderEpochRequest``,
``ReplicaManager.lastOffsetForLeaderEpoch``; KIP-101, KIP-279, KIP-320.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.log.leader_epoch_file_cache import UNDEFINED, EpochEndOffset
from replica_manager.replication.partition_reads import end_offset_for_leader_epoch
from replica_manager.server.authorization import allowed_names, is_cluster_allowed
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.OFFSET_FOR_LEADER_EPOCH
VERSIONS: Final = (0, 4)

_TopicEnds = tuple[str, list[tuple[int, ErrorCode, EpochEndOffset]]]


async def handle(
    request: request_types.OffsetForLeaderEpochRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with one result per partition; unauthorized topics are at the end."""
    names = [topic.topic for topic in request.topics]
    if is_cluster_allowed(broker, context, AclOperation.CLUSTER_ACTION, log_if_denied=False):
        allowed = dict.fromkeys(names)
    else:
        allowed = await allowed_names(
            broker, context, AclOperation.DESCRIBE, ResourceType.TOPIC, names
        )
    responses = [
        (
            topic.topic,
            [_answer(broker, topic.topic, asked) async for asked in in_slices(topic.partitions)],
        )
        async for topic in in_slices(request.topics)
        if topic.topic in allowed
    ]
    denied = [topic for topic in request.topics if topic.topic not in allowed]
    responses += _refused(denied, ErrorCode.topic_authorization_failed)
    count = sum(len(partitions) for _, partitions in responses)
    return await composed(count, lambda: _response(context, responses))


def refuse(
    request: request_types.OffsetForLeaderEpochRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition of the request."""
    return _response(context, _refused(request.topics, error))


def _answer(
    broker: BrokerContext, topic: str, asked: request_types.OffsetForLeaderPartition
) -> tuple[int, ErrorCode, EpochEndOffset]:
    hosted = broker.records.replica_manager.get_partition_or_error(
        TopicPartition(topic, asked.partition)
    )
    if isinstance(hosted, ErrorCode):
        return asked.partition, hosted, UNDEFINED
    current_leader_epoch = field_or(asked, "current_leader_epoch", NO_EPOCH)
    error, end = end_offset_for_leader_epoch(hosted, current_leader_epoch, asked.leader_epoch)
    return asked.partition, error, end


def _refused(
    topics: Sequence[request_types.OffsetForLeaderTopic], error: ErrorCode
) -> list[_TopicEnds]:
    return [
        (topic.topic, [(asked.partition, error, UNDEFINED) for asked in topic.partitions])
        for topic in topics
    ]


def _response(context: RequestContext, responses: Sequence[_TopicEnds]) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        topics=tuple(
            schema.part(
                "OffsetForLeaderTopicResult",
                topic=topic,
                partitions=tuple(
                    schema.part(
                        "EpochEndOffset",
                        error_code=error,
                        partition=partition,
                        leader_epoch=end.epoch,
                        end_offset=end.end_offset,
                    )
                    for partition, error, end in ends
                ),
            )
            for topic, ends in responses
        )
    )
