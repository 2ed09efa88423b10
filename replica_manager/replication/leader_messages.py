"""Encodes a follower's requests to its leader and decodes the responses.

Which versions they speak follows from ``inter.broker.protocol.version``; nothing is negotiated.

Source: Kafka ``RemoteLeaderEndPoint``, ``FetchRequest.Builder.forReplica``,
``ListOffsetsRequest.Builder.forReplica``, ``OffsetsForLeaderEpochRequest.Builder.forFollower``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import UUID

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.fetch import FetchPartition
from kafka_common.protocol.inter_broker_versions import (
    InterBrokerVersion,
    fetch_version,
    list_offsets_version,
    offsets_for_leader_epoch_version,
)
from kafka_common.protocol.messages import read_response, write
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_requests import (
    AskEpochEnds,
    AskOffsets,
    AskRecords,
    EpochAnswers,
    FetchAnswers,
    OffsetAnswers,
)
from replica_manager.replication.fetch_response import read_fetch_response
from replica_manager.replication.fetch_values import TopicIdPartition

_READ_UNCOMMITTED: Final = 0
_V = TypeVar("_V")


@dataclass(frozen=True, slots=True)
class FollowerWishes:
    """The configured fields of each Fetch request."""

    max_wait_ms: int = 500
    """``replica.fetch.wait.max.ms``"""
    min_bytes: int = 1
    """``replica.fetch.min.bytes``"""
    max_bytes: int = 10_485_760
    """``replica.fetch.response.max.bytes``"""


@dataclass(frozen=True, slots=True)
class LeaderDialect:
    """The versions of a follower's requests to its leader."""

    fetch: int
    list_offsets: int
    offsets_for_leader_epoch: int

    @staticmethod
    def of(version: InterBrokerVersion) -> LeaderDialect:
        """The versions that belong to an ``inter.broker.protocol.version``."""
        return LeaderDialect(
            fetch_version(version),
            list_offsets_version(version),
            offsets_for_leader_epoch_version(version),
        )


def fetch_request(
    version: int, request: AskRecords, wishes: FollowerWishes, replica_id: int, broker_epoch: int
) -> bytes:
    """The body of a Fetch request; :meth:`AskRecords.api_version` gives ``version``."""
    schema = request_schema(ApiKey.FETCH, version)
    fields: dict[str, object] = {}
    if schema.has("ReplicaState"):
        fields["replica_state"] = schema.part(
            "ReplicaState", replica_id=replica_id, replica_epoch=broker_epoch
        )
    fetch = request.fetch
    forgotten = fetch.forgotten(version) if schema.has("ForgottenTopic") else ()
    return write(
        schema.request(
            replica_id=replica_id,
            max_wait=timedelta(milliseconds=wishes.max_wait_ms),
            min_bytes=wishes.min_bytes,
            max_bytes=wishes.max_bytes,
            isolation_level=_READ_UNCOMMITTED,
            session_id=fetch.metadata.session_id,
            session_epoch=fetch.metadata.epoch,
            topics=tuple(
                schema.part(
                    "FetchTopic",
                    topic=topic,
                    topic_id=topic_id,
                    partitions=tuple(
                        _fetch_partition(schema.part, tp.partition, fetch_info)
                        for tp, fetch_info in fetch_infos
                    ),
                )
                for (topic, topic_id), fetch_infos in _runs(fetch.to_send)
            ),
            forgotten_topics_data=tuple(
                schema.part(
                    "ForgottenTopic",
                    topic=topic,
                    topic_id=topic_id,
                    partitions=tuple(partitions),
                )
                for (topic, topic_id), partitions in _grouped(forgotten).items()
            ),
            **fields,
        )
    )


def _fetch_partition(part: Any, partition: int, fetch_info: FetchPartition) -> Any:
    return part(
        "FetchPartition",
        partition=partition,
        current_leader_epoch=fetch_info.current_leader_epoch,
        fetch_offset=fetch_info.fetch_offset,
        last_fetched_epoch=fetch_info.last_fetched_epoch,
        log_start_offset=fetch_info.log_start_offset,
        partition_max_bytes=fetch_info.partition_max_bytes,
    )


def _runs(
    fetch_infos: Mapping[TopicPartition, FetchPartition],
) -> Iterable[tuple[tuple[str, UUID | None], Iterable[tuple[TopicPartition, FetchPartition]]]]:
    """Groups neighbours of one topic; keeps the order, in which the leader serves."""
    return groupby(fetch_infos.items(), key=lambda item: (item[0].topic, item[1].topic_id))


def _grouped(
    partitions: Iterable[TopicIdPartition],
) -> dict[tuple[str | None, UUID | None], list[int]]:
    grouped: dict[tuple[str | None, UUID | None], list[int]] = {}
    for topic_id, topic, partition in partitions:
        grouped.setdefault((topic, topic_id), []).append(partition)
    return grouped


def read_fetch_answers(
    version: int, body: memoryview, topic_names: Mapping[UUID, str]
) -> FetchAnswers:
    """The response to :func:`fetch_request`; InvalidFrame if invalid."""
    return read_fetch_response(version, body, topic_names)


def epoch_request(version: int, request: AskEpochEnds, replica_id: int) -> bytes:
    """The body of an OffsetsForLeaderEpoch request."""
    schema = request_schema(ApiKey.OFFSET_FOR_LEADER_EPOCH, version)
    return write(
        schema.request(
            replica_id=replica_id,
            topics=tuple(
                schema.part(
                    "OffsetForLeaderTopic",
                    topic=topic,
                    partitions=tuple(
                        schema.part(
                            "OffsetForLeaderPartition",
                            partition=partition,
                            current_leader_epoch=question.current_leader_epoch,
                            leader_epoch=question.leader_epoch,
                        )
                        for partition, question in questions
                    ),
                )
                for topic, questions in _by_topic(request.partitions).items()
            ),
        )
    )


def read_epoch_answers(version: int, body: bytes) -> EpochAnswers:
    """The response to :func:`epoch_request`; InvalidFrame if invalid.

    Version 0 does not tell the epoch.
    """
    response: Any = read_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, body)
    return {
        TopicPartition(topic.topic, answer.partition): (
            answer.error_code,
            EpochEndOffset(getattr(answer, "leader_epoch", NO_EPOCH), answer.end_offset),
        )
        for topic in response.topics
        for answer in topic.partitions
    }


def offsets_request(version: int, request: AskOffsets, replica_id: int) -> bytes:
    """The body of a ListOffsets request."""
    schema = request_schema(ApiKey.LIST_OFFSETS, version)
    return write(
        schema.request(
            replica_id=replica_id,
            isolation_level=_READ_UNCOMMITTED,
            topics=tuple(
                schema.part(
                    "ListOffsetsTopic",
                    name=topic,
                    partitions=tuple(
                        schema.part(
                            "ListOffsetsPartition",
                            partition_index=partition,
                            current_leader_epoch=question.current_leader_epoch,
                            timestamp=question.timestamp,
                            max_num_offsets=1,
                        )
                        for partition, question in questions
                    ),
                )
                for topic, questions in _by_topic(request.partitions).items()
            ),
        )
    )


def read_offset_answers(version: int, body: bytes) -> OffsetAnswers:
    """The response to :func:`offsets_request`; InvalidFrame if invalid."""
    response: Any = read_response(ApiKey.LIST_OFFSETS, version, body)
    return {
        TopicPartition(topic.name, answer.partition_index): (answer.error_code, _offset_of(answer))
        for topic in response.topics
        for answer in topic.partitions
    }


def _offset_of(answer: Any) -> int:
    """The offset: version 0 has a list of at most one; it is empty with an error."""
    if hasattr(answer, "offset"):
        offset: int = answer.offset
        return offset
    return next(iter(answer.old_style_offsets), -1)


def _by_topic(questions: Mapping[TopicPartition, _V]) -> dict[str, list[tuple[int, _V]]]:
    grouped: dict[str, list[tuple[int, _V]]] = {}
    for tp, question in questions.items():
        grouped.setdefault(tp.topic, []).append((tp.partition, question))
    return grouped
