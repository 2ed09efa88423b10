"""Control requests as plain values, independent of their version, and the responses to them.

This module reads requests with kio's schemas and not with our own reader, so that a second
implementation checks what our writers produce.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from kio.index import load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from kafka_common.model import NO_EPOCH, UNKNOWN_BROKER_EPOCH, TopicPartition

LEADER_AND_ISR: Final = 4
STOP_REPLICA: Final = 5
UPDATE_METADATA: Final = 6


class SentLeaderAndIsr(NamedTuple):
    """One partition of a LeaderAndIsr request."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    controller_epoch: int
    replicas: tuple[int, ...]
    is_new: bool
    leader_recovery_state: int
    adding_replicas: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()


class SentMetadata(NamedTuple):
    """One partition of an UpdateMetadata request."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    zk_version: int
    controller_epoch: int
    replicas: tuple[int, ...]
    offline_replicas: tuple[int, ...]


class SentStop(NamedTuple):
    """One partition of a StopReplica request."""

    leader_epoch: int
    delete: bool


@dataclass(frozen=True, slots=True)
class ReceivedLeaderAndIsr:
    """A LeaderAndIsr request."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, SentLeaderAndIsr]
    topic_ids: Mapping[str, UUID | None]
    live_leaders: Mapping[int, tuple[str, int]]


@dataclass(frozen=True, slots=True)
class ReceivedUpdateMetadata:
    """An UpdateMetadata request; ``live_brokers`` maps ids to (host, port, listener) triples."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, SentMetadata]
    topic_ids: Mapping[str, UUID | None]
    live_brokers: Mapping[int, tuple[tuple[str, int, str], ...]]


@dataclass(frozen=True, slots=True)
class ReceivedStopReplica:
    """A StopReplica request."""

    version: int
    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, SentStop]


ControlRequest: TypeAlias = ReceivedLeaderAndIsr | ReceivedUpdateMetadata | ReceivedStopReplica


def decode(api_key: int, version: int, body: bytes) -> ControlRequest:
    """The request in ``body`` (no header); asserts that nothing is left over."""
    entity, size = entity_reader(load_request_schema(api_key, version))(body, 0)
    assert size == len(body), f"{len(body) - size} bytes too many"
    return from_entity(entity)


def from_entity(entity: Any) -> ControlRequest:
    """The plain value of a kio request."""
    version = int(entity.__version__)
    head = (
        version,
        entity.controller_id,
        entity.controller_epoch,
        getattr(entity, "broker_epoch", UNKNOWN_BROKER_EPOCH),
    )
    match int(entity.__api_key__):
        case 4:
            leaders = {leader.broker_id: leader for leader in entity.live_leaders}
            return ReceivedLeaderAndIsr(
                *head,
                {tp: _leader_and_isr(state) for tp, state in _states(entity)},
                _topic_ids(entity),
                {broker: (leader.host_name, leader.port) for broker, leader in leaders.items()},
            )
        case 6:
            return ReceivedUpdateMetadata(
                *head,
                {tp: _metadata(state) for tp, state in _states(entity)},
                _topic_ids(entity),
                {broker.id_: _endpoints(broker) for broker in entity.live_brokers},
            )
        case 5:
            return ReceivedStopReplica(*head, dict(_stops(entity)))
        case api_key:
            raise AssertionError(f"api {api_key} is no control request")


def _states(entity: Any) -> Iterator[tuple[TopicPartition, Any]]:
    for state in getattr(entity, "ungrouped_partition_states", ()):
        yield TopicPartition(state.topic_name, state.partition_index), state
    for topic in getattr(entity, "topic_states", ()):
        for state in topic.partition_states:
            yield TopicPartition(topic.topic_name, state.partition_index), state


def _topic_ids(entity: Any) -> dict[str, UUID | None]:
    topics = getattr(entity, "topic_states", ())
    return {topic.topic_name: getattr(topic, "topic_id", None) for topic in topics}


def _leader_and_isr(state: Any) -> SentLeaderAndIsr:
    return SentLeaderAndIsr(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.partition_epoch,
        state.controller_epoch,
        tuple(state.replicas),
        getattr(state, "is_new", False),
        getattr(state, "leader_recovery_state", 0),
        tuple(getattr(state, "adding_replicas", ())),
        tuple(getattr(state, "removing_replicas", ())),
    )


def _metadata(state: Any) -> SentMetadata:
    return SentMetadata(
        state.leader,
        state.leader_epoch,
        tuple(state.isr),
        state.zk_version,
        state.controller_epoch,
        tuple(state.replicas),
        tuple(getattr(state, "offline_replicas", ())),
    )


def _endpoints(broker: Any) -> tuple[tuple[str, int, str], ...]:
    if hasattr(broker, "endpoints"):
        return tuple((e.host, e.port, getattr(e, "listener", "")) for e in broker.endpoints)
    return ((broker.v0_host, broker.v0_port, ""),)


def _stops(entity: Any) -> Iterator[tuple[TopicPartition, SentStop]]:
    delete = getattr(entity, "delete_partitions", False)
    for partition in getattr(entity, "ungrouped_partitions", ()):
        tp = TopicPartition(partition.topic_name, partition.partition_index)
        yield tp, SentStop(NO_EPOCH, delete)
    for topic in getattr(entity, "topics", ()):
        for index in topic.partition_indexes:
            yield TopicPartition(topic.name, index), SentStop(NO_EPOCH, delete)
    for topic in getattr(entity, "topic_states", ()):
        for state in topic.partition_states:
            tp = TopicPartition(topic.topic_name, state.partition_index)
            yield tp, SentStop(state.leader_epoch, state.delete_partition)


def leader_and_isr_response(
    request: ReceivedLeaderAndIsr, error: int, partition_errors: Mapping[TopicPartition, int]
) -> bytes:
    """The LeaderAndIsr response in the request's version; with topic ids from version 5 on."""
    schema: Any = load_response_schema(LEADER_AND_ISR, request.version)
    module = _module(schema)
    if request.version < 5:
        errors = [
            module.LeaderAndIsrPartitionError(
                topic_name=tp.topic, partition_index=tp.partition, error_code=ErrorCode(code)
            )
            for tp, code in partition_errors.items()
        ]
        return _encoded(schema(error_code=ErrorCode(error), partition_errors=tuple(errors)))
    topics: dict[str, list[Any]] = {}
    for tp, code in partition_errors.items():
        topics.setdefault(tp.topic, []).append(
            module.LeaderAndIsrPartitionError(
                partition_index=tp.partition, error_code=ErrorCode(code)
            )
        )
    answered = tuple(
        module.LeaderAndIsrTopicError(
            topic_id=request.topic_ids[topic], partition_errors=tuple(errors)
        )
        for topic, errors in topics.items()
    )
    return _encoded(schema(error_code=ErrorCode(error), topics=answered))


def update_metadata_response(request: ReceivedUpdateMetadata, error: int) -> bytes:
    """The UpdateMetadata response in the request's version."""
    schema: Any = load_response_schema(UPDATE_METADATA, request.version)
    return _encoded(schema(error_code=ErrorCode(error)))


def stop_replica_response(
    request: ReceivedStopReplica, error: int, partition_errors: Mapping[TopicPartition, int]
) -> bytes:
    """The StopReplica response in the request's version."""
    schema: Any = load_response_schema(STOP_REPLICA, request.version)
    errors = [
        _module(schema).StopReplicaPartitionError(
            topic_name=tp.topic, partition_index=tp.partition, error_code=ErrorCode(code)
        )
        for tp, code in partition_errors.items()
    ]
    return _encoded(schema(error_code=ErrorCode(error), partition_errors=tuple(errors)))


def _module(schema: Any) -> Any:
    return sys.modules[schema.__module__]


def _encoded(entity: Any) -> bytes:
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()
