"""LeaderAndIsr (4): makes this broker's replicas leaders and followers, as the controller orders.

Source: Kafka ``KafkaApis.handleLeaderAndIsrRequest``, ``LeaderAndIsrRequest``.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Generator, Iterator, Mapping
from typing import Any, Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload
from msgspec.structs import replace

from kafka_common.model import RECOVERED, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from kafka_common.topic_names import invalid_name_reason
from replica_manager.replication.control_requests import LeaderAndIsrRequest, PartitionErrors
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState
from replica_manager.server.context import BrokerContext, EncodedBody, RequestContext
from replica_manager.server.handlers.control_requests import (
    broker_epoch_of,
    is_from_kraft,
    is_stale,
)
from replica_manager.server.large_responses import composed
from replica_manager.server.slices import all_in_slices, run_in_slices

API_KEY: Final = ApiKey.LEADER_AND_ISR
VERSIONS: Final = (0, 7)
_BY_TOPIC_SINCE: Final = 2
_TOPIC_IDS_SINCE: Final = 5

OPEN_RETRIES: Final = 20
OPEN_RETRY_S: Final = 0.5
"""Attempts to open a log that a limit of the system prevents, and the seconds between them.

The total of ten seconds is a third of the controller's request timeout.  If all attempts fail, the
controller takes the replica for offline, until a later request makes it leader or follower.
"""


async def handle(
    request: request_types.LeaderAndIsrRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with an error code for each handled partition.

    If the broker epoch is stale, every partition has that error.
    """
    if is_stale("LeaderAndIsr", request, broker):
        return refuse(request, context, ErrorCode.stale_broker_epoch)
    version = context.api_version
    states = {tp: state async for tp, state in all_in_slices(_partitions(request, version))}
    decoded = _decode(request, version, states)
    logs = broker.logs
    new = {tp.topic: None async for tp in all_in_slices(decoded.partitions) if logs.log(tp) is None}
    if new:
        # An invalid topic name, refused below, must not be used as the path of a znode.
        await broker.learn_topics(
            [topic async for topic in all_in_slices(new) if invalid_name_reason(topic) is None]
        )
    replica_manager = broker.records.replica_manager
    async with replica_manager.replica_state_change_lock:
        response = await run_in_slices(
            become_leader_or_follower(replica_manager, decoded, context.correlation_id)
        )
        for _ in range(OPEN_RETRIES):
            if not response.put_off:
                break
            await asyncio.sleep(OPEN_RETRY_S)
            left = {tp: states[tp] async for tp in all_in_slices(response.put_off)}
            later = await run_in_slices(
                become_leader_or_follower(
                    replica_manager, replace(decoded, partitions=left), context.correlation_id
                )
            )
            errors = {**response.partitions, **later.partitions}
            response = PartitionErrors(response.error, errors, later.put_off)
        await run_in_slices(_remove_leader_metrics(decoded, broker))
    return await composed(
        len(response.partitions),
        lambda: _response(context, decoded, response.error, response.partitions),
    )


def refuse(
    request: request_types.LeaderAndIsrRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for the request and for every partition."""
    version = context.api_version
    decoded = _decode(request, version, dict(_partitions(request, version)))
    return _response(context, decoded, error, dict.fromkeys(decoded.partitions, error))


def _remove_leader_metrics(
    request: LeaderAndIsrRequest, broker: BrokerContext
) -> Generator[None, None, None]:
    """Removes the leader metrics of topics of which this broker leads no partition, in steps.

    Source: Kafka ``ReplicaManager.updateLeaderAndFollowerMetrics``.
    """
    partitions, stats = broker.records.replica_manager.partitions, broker.records.topic_stats
    followed: set[str] = set()
    for tp in request.partitions:
        yield
        found = partitions.get(tp)
        if found is not None and not found.is_leader and stats.has(tp.topic):
            followed.add(tp.topic)
    if not followed:  # saves a loop over tens of thousands of partitions
        return
    for tp, partition in list(partitions.items()):
        yield
        if partition.is_leader:
            followed.discard(tp.topic)
    for topic in followed:
        yield
        stats.remove_led(topic)


def _decode(
    request: request_types.LeaderAndIsrRequest,
    version: int,
    states: Mapping[TopicPartition, LeaderAndIsrPartitionState],
) -> LeaderAndIsrRequest:
    topic_ids: dict[str, UUID] = {}
    if version >= _TOPIC_IDS_SINCE:
        topic_ids = {
            topic.topic_name: topic_id
            for topic in field_or(request, "topic_states", ())
            if (topic_id := field_or(topic, "topic_id", None)) is not None
        }
    return LeaderAndIsrRequest(
        request.controller_id,
        request.controller_epoch,
        broker_epoch_of(request),
        states,
        topic_ids,
        is_from_kraft(request),
    )


def _partitions(
    request: request_types.LeaderAndIsrRequest, version: int
) -> Iterator[tuple[TopicPartition, LeaderAndIsrPartitionState]]:
    for topic, state in _states(request, version):
        yield (
            TopicPartition(topic, state.partition_index),
            LeaderAndIsrPartitionState(
                state.controller_epoch,
                state.leader,
                state.leader_epoch,
                state.isr,
                state.partition_epoch,
                state.replicas,
                field_or(state, "adding_replicas", ()),
                field_or(state, "removing_replicas", ()),
                field_or(state, "is_new", False),
                field_or(state, "leader_recovery_state", RECOVERED),
            ),
        )


def _states(
    request: request_types.LeaderAndIsrRequest, version: int
) -> Iterator[tuple[str, request_types.LeaderAndIsrPartitionState]]:
    if version < _BY_TOPIC_SINCE:
        for state in field_or(request, "ungrouped_partition_states", ()):
            yield field_or(state, "topic_name", ""), state
        return
    for topic in field_or(request, "topic_states", ()):
        for state in topic.partition_states:
            yield topic.topic_name, state


def _response(
    context: RequestContext,
    request: LeaderAndIsrRequest,
    error: ErrorCode,
    partitions: Mapping[TopicPartition, ErrorCode],
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    if context.api_version < _TOPIC_IDS_SINCE:
        return schema.response(
            error_code=error,
            partition_errors=tuple(
                schema.part(
                    "LeaderAndIsrPartitionError",
                    topic_name=tp.topic,
                    partition_index=tp.partition,
                    error_code=code,
                )
                for tp, code in partitions.items()
            ),
        )
    # From version 5 on, the response has only topic ids; topics without an id share the zero id.
    by_id: defaultdict[UUID | None, list[Any]] = defaultdict(list)
    for tp, code in partitions.items():
        by_id[request.topic_ids.get(tp.topic)].append(
            schema.part("LeaderAndIsrPartitionError", partition_index=tp.partition, error_code=code)
        )
    return schema.response(
        error_code=error,
        topics=tuple(
            schema.part("LeaderAndIsrTopicError", topic_id=topic_id, partition_errors=tuple(errors))
            for topic_id, errors in by_id.items()
        ),
    )
