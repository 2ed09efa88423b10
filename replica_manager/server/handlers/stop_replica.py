"""StopReplica (5): stops this broker's replicas, and deletes them if the controller wants that.

Source: Kafka ``KafkaApis.handleStopReplicaRequest``, ``StopReplicaRequest``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.replication.control_requests import StopReplicaPartition, StopReplicaRequest
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.handlers.control_requests import broker_epoch_of, is_stale
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import all_in_slices, run_in_slices

API_KEY: Final = ApiKey.STOP_REPLICA
VERSIONS: Final = (0, 4)


async def handle(
    request: request_types.StopReplicaRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one error code per partition.

    A request with a stale broker epoch has no partitions in its response.
    """
    if is_stale("StopReplica", request, broker):
        return _response(context, ErrorCode.stale_broker_epoch, {})
    partitions = {
        tp: state async for tp, state in all_in_slices(_partitions(request, context.api_version))
    }
    decoded = StopReplicaRequest(
        request.controller_id, request.controller_epoch, broker_epoch_of(request), partitions
    )
    replica_manager = broker.records.replica_manager
    async with replica_manager.replica_state_change_lock:
        response = await run_in_slices(
            replica_manager.stop_replicas(decoded, context.correlation_id)
        )
    return await composed(
        len(response.partitions), lambda: _response(context, response.error, response.partitions)
    )


def refuse(
    request: request_types.StopReplicaRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for the request and for every partition."""
    partitions = dict(_partitions(request, context.api_version))
    return _response(context, error, dict.fromkeys(partitions, error))


def _partitions(
    request: request_types.StopReplicaRequest, version: int
) -> Iterator[tuple[TopicPartition, StopReplicaPartition]]:
    delete_all = field_or(request, "delete_partitions", False)
    if version == 0:
        for state in field_or(request, "ungrouped_partitions", ()):
            yield (
                TopicPartition(state.topic_name, state.partition_index),
                StopReplicaPartition(NO_EPOCH, delete_all),
            )
    elif version <= 2:
        for topic in field_or(request, "topics", ()):
            for partition in topic.partition_indexes:
                yield (
                    TopicPartition(topic.name, partition),
                    StopReplicaPartition(NO_EPOCH, delete_all),
                )
    else:
        for topic_state in field_or(request, "topic_states", ()):
            for each in topic_state.partition_states:
                yield (
                    TopicPartition(topic_state.topic_name, each.partition_index),
                    StopReplicaPartition(each.leader_epoch, each.delete_partition),
                )


def _response(
    context: RequestContext, error: ErrorCode, partitions: Mapping[TopicPartition, ErrorCode]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=error,
        partition_errors=tuple(
            schema.part(
                "StopReplicaPartitionError",
                topic_name=tp.topic,
                partition_index=tp.partition,
                error_code=code,
            )
            for tp, code in partitions.items()
        ),
    )
