"""AlterReplicaLogDirs (34): moves replicas between log directories of this broker.

The response is sent when the moves have begun; DescribeLogDirs shows their progress.

Source: Kafka ``KafkaApis.handleAlterReplicaLogDirsRequest`` (KIP-113).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import by_topic
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices

API_KEY: Final = ApiKey.ALTER_REPLICA_LOG_DIRS
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.AlterReplicaLogDirsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with one error code per partition."""
    # If a partition is named twice, the last directory is used, as in Kafka.
    wanted = {tp: path async for path, tp in in_slices(_wanted(request))}
    responses = await broker.records.log_dir_moves.alter(wanted)
    return await composed(len(responses), lambda: _response(context, list(responses.items())))


def refuse(
    request: request_types.AlterReplicaLogDirsRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition of the request."""
    return _response(context, [(tp, error) for _, tp in _wanted(request)])


def _wanted(
    request: request_types.AlterReplicaLogDirsRequest,
) -> Iterator[tuple[str, TopicPartition]]:
    return (
        (log_dir.path, TopicPartition(topic.name, partition))
        for log_dir in request.dirs
        for topic in log_dir.topics
        for partition in topic.partitions
    )


def _response(
    context: RequestContext, responses: Sequence[tuple[TopicPartition, ErrorCode]]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        results=tuple(
            schema.part(
                "AlterReplicaLogDirTopicResult",
                topic_name=topic,
                partitions=tuple(
                    schema.part(
                        "AlterReplicaLogDirPartitionResult",
                        partition_index=index,
                        error_code=error,
                    )
                    for index, error in partitions
                ),
            )
            for topic, partitions in by_topic(responses).items()
        )
    )
