"""ListPartitionReassignments (46): the reassignments in progress.

Source: Kafka ``KafkaApis.handleListPartitionReassignmentsRequest`` (KIP-455).
"""

from __future__ import annotations

from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import ReplicaAssignment, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.controller_requests import (
    ask,
    by_topic,
    sentence,
    timeout_ms_of,
)
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices
from zkcontroller.core.effects import OngoingReassignments
from zkcontroller.core.events import ListPartitionReassignments

API_KEY: Final = ApiKey.LIST_PARTITION_REASSIGNMENTS
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.ListPartitionReassignmentsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with the reassignments of the requested partitions, or all if null."""
    asked: tuple[TopicPartition, ...] | None = None
    if request.topics is not None:
        named = (
            TopicPartition(topic.name, partition)
            for topic in request.topics
            for partition in topic.partition_indexes
        )
        asked = tuple({tp: None async for tp in in_slices(named)})
    response = await ask(
        broker,
        lambda request_id: ListPartitionReassignments(asked, request_id),
        OngoingReassignments,
        timeout_ms_of(request),
    )
    error = response.error_code
    return await composed(
        len(response.reassignments), lambda: _response(context, error, response.reassignments)
    )


def refuse(
    _request: request_types.ListPartitionReassignmentsRequest,
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with only an error code."""
    return _response(context, error, ())


def _response(
    context: RequestContext,
    error: ErrorCode,
    reassignments: tuple[tuple[TopicPartition, ReplicaAssignment], ...],
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=error,
        error_message=sentence(error) or "",  # the schema's default
        topics=tuple(
            schema.part(
                "OngoingTopicReassignment",
                name=topic,
                partitions=tuple(
                    schema.part(
                        "OngoingPartitionReassignment",
                        partition_index=partition,
                        replicas=assignment.replicas,
                        adding_replicas=assignment.adding_replicas,
                        removing_replicas=assignment.removing_replicas,
                    )
                    for partition, assignment in partitions
                ),
            )
            for topic, partitions in by_topic(reassignments).items()
        ),
    )
