"""ElectLeaders (43): preferred or unclean leader elections.

The controller elects the leaders.  The response waits until this broker's metadata cache has them,
so that the client's next Metadata response shows them.  The client's timeout covers both.

Source: Kafka ``KafkaApis.handleElectLeaders``, ``DelayedElectLeader`` (KIP-183, KIP-460).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import NO_EPOCH, NO_LEADER, ElectionType, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.request_types import field_or
from kafka_common.protocol.versioned_messages import response_schema
from replica_manager.replication.zk_metadata_cache import MetadataSnapshot
from replica_manager.request_errors import RequestRefused
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
from zkcontroller.core.events import ElectionTrigger, ReplicaLeaderElection

API_KEY: Final = ApiKey.ELECT_LEADERS
VERSIONS: Final = (0, 2)


async def handle(
    request: request_types.ElectLeadersRequest, context: RequestContext, broker: BrokerContext
) -> ResponsePayload | EncodedBody:
    """The response with one result per requested partition.

    A request for all partitions has results only for those that needed an election.
    """
    election_type = _election_type(request)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms_of(request) / 1000
    before = broker.metadata_cache.snapshot
    partitions = await _requested(request, before)
    response = await ask(
        broker,
        lambda request_id: ReplicaLeaderElection(
            partitions, election_type, ElectionTrigger.ADMIN_CLIENT, request_id
        ),
        PartitionResults,
        timeout_ms_of(request),
    )
    elected = [
        each.partition
        async for each in in_slices(response.results)
        if each.error_code == ErrorCode.none
    ]
    left_ms = round((deadline - loop.time()) * 1000)
    late = await _await_leaders(elected, _ExpectedLeaders(election_type, before), left_ms, broker)
    results = [
        PartitionResult(each.partition, ErrorCode.request_timed_out)
        if each.partition in late
        else each
        async for each in in_slices(response.results)
    ]
    if request.topic_partitions is None:
        results = [
            each
            async for each in in_slices(results)
            if each.error_code != ErrorCode.election_not_needed
        ]
    error = response.error_code
    return await composed(len(results), lambda: _response(context, error, results))


def refuse(
    request: request_types.ElectLeadersRequest, context: RequestContext, error: ErrorCode
) -> ResponsePayload:
    """The response with ``error`` for every partition, and for the request from version 1 on."""
    return _response(
        context,
        error,
        [PartitionResult(tp, error) for tp in _named_in(request)],
    )


def _election_type(request: request_types.ElectLeadersRequest) -> ElectionType:
    wanted = field_or(request, "election_type", ElectionType.PREFERRED)
    try:
        return ElectionType(wanted)
    except ValueError:
        raise RequestRefused(
            ErrorCode.unknown_server_error, f"no election type has the value {wanted}"
        ) from None


async def _requested(
    request: request_types.ElectLeadersRequest, snapshot: MetadataSnapshot
) -> tuple[TopicPartition, ...]:
    named = _named_in(request)
    if request.topic_partitions is None:
        named = (
            TopicPartition(topic, partition)
            for topic, partitions in snapshot.partitions.items()
            for partition in partitions
        )
    return tuple({tp: None async for tp in in_slices(named)})


def _named_in(request: request_types.ElectLeadersRequest) -> Iterator[TopicPartition]:
    return (
        TopicPartition(topic.topic, partition)
        for topic in request.topic_partitions or ()
        for partition in topic.partitions
    )


class _ExpectedLeaders:
    """Checks whether the metadata cache shows the result of an election.

    After a preferred election, the leader must be the preferred replica.  After an unclean
    election, the leader epoch must be larger than before the request: an election always raises it.
    """

    def __init__(self, election_type: ElectionType, before: MetadataSnapshot) -> None:
        self._is_preferred = election_type is ElectionType.PREFERRED
        self._before = before

    def is_shown(self, tp: TopicPartition, now: MetadataSnapshot) -> bool:
        state = now.partition(*tp)
        if state is None or state.leader == NO_LEADER:
            return False
        if self._is_preferred:
            return state.leader == state.replicas[0]
        known = self._before.partition(*tp)
        return state.leader_epoch > (NO_EPOCH if known is None else known.leader_epoch)


async def _await_leaders(
    elected: Sequence[TopicPartition],
    awaited: _ExpectedLeaders,
    timeout_ms: int,
    broker: BrokerContext,
) -> Mapping[TopicPartition, None]:
    """Waits for the elected leaders; returns the partitions whose leader is not shown yet."""

    def missing() -> dict[TopicPartition, None]:
        now = broker.metadata_cache.snapshot
        return {tp: None for tp in elected if not awaited.is_shown(tp, now)}

    if timeout_ms > 0 and missing():
        topics = list(dict.fromkeys(tp.topic for tp in elected))
        await broker.administration.topics.waiters.wait(topics, lambda: not missing(), timeout_ms)
    return missing()


def _response(
    context: RequestContext, error: ErrorCode, results: Sequence[PartitionResult]
) -> ResponsePayload:
    schema = response_schema(API_KEY, context.api_version)
    return schema.response(
        error_code=error,
        replica_election_results=tuple(
            schema.part(
                "ReplicaElectionResult",
                topic=topic,
                partition_result=tuple(
                    schema.part(
                        "PartitionResult",
                        partition_id=partition,
                        error_code=result.error_code,
                        error_message=_message(result),
                    )
                    for partition, result in partitions
                ),
            )
            for topic, partitions in by_topic([(each.partition, each) for each in results]).items()
        ),
    )


def _message(result: PartitionResult) -> str | None:
    match result.error_code:
        case ErrorCode.unknown_server_error:
            return None  # the message could reveal internal details to the client
        case ErrorCode.election_not_needed as error:
            return sentence(error, result.message)
        case _:
            # As in Kafka, NOT_CONTROLLER and REQUEST_TIMED_OUT have no default message here.
            return result.message
