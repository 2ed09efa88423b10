"""AlterPartitionReassignments (45): starts and cancels partition reassignments.

The response is sent when the reassignments have begun; ListPartitionReassignments shows those in
progress.

Source: Kafka ``KafkaApis.handleAlterPartitionReassignmentsRequest`` (KIP-455).
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
from replica_manager.server.controller_requests import (
    ask,
    by_topic,
    sentence,
    timeout_ms_of,
)
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import in_slices
from zkcontroller.core.effects import PartitionResult, PartitionResults
from zkcontroller.core.events import ApiPartitionReassignment

API_KEY: Final = ApiKey.ALTER_PARTITION_REASSIGNMENTS
VERSIONS: Final = (0, 0)


async def handle(
    request: request_types.AlterPartitionReassignmentsRequest,
    context: RequestContext,
    broker: BrokerContext,
) -> ResponsePayload | EncodedBody:
    """The response with one result per partition, or only NOT_CONTROLLER."""
    # If a partition is named twice, the last target is used, as in Kafka.
    targets = {
        TopicPartition(name, partition.partition_index): partition.replicas
        async for name, partition in in_slices(_named_in(request))
    }
    response = await ask(
        broker,
        lambda request_id: ApiPartitionReassignment(tuple(targets.items()), request_id),
        PartitionResults,
        timeout_ms_of(request),
    )
    error = response.error_code
    return await composed(
        len(response.results), lambda: _response(context, error, response.results)
    )


def refuse(
    request: request_types.AlterPartitionReassignmentsRequest,
    context: RequestContext,
    error: ErrorCode,
) -> ResponsePayload:
    """The response with ``error`` for the request and for every partition."""
    return _response(
        context,
        error,
        [
            PartitionResult(TopicPartition(name, partition.partition_index), error)
            for name, partition in _named_in(request)
        ],
    )


def _named_in(
    request: request_types.AlterPartitionReassignmentsRequest,
) -> Iterator[tuple[str, request_types.ReassignablePartition]]:
    return ((topic.name, partition) for topic in request.topics for partition in topic.partitions)


def _response(
    context: RequestContext, error: ErrorCode, results: Sequence[PartitionResult]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=error,
        error_message=sentence(error) or "",  # the schema's default
        responses=tuple(
            schema.part(
                "ReassignableTopicResponse",
                name=topic,
                partitions=tuple(
                    schema.part(
                        "ReassignablePartitionResponse",
                        partition_index=partition,
                        error_code=result.error_code,
                        error_message=sentence(result.error_code, result.message),
                    )
                    for partition, result in partitions
                ),
            )
            for topic, partitions in by_topic([(each.partition, each) for each in results]).items()
        ),
    )
