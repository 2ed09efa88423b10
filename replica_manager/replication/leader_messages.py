"""Encodes a follower's requests to its leader and decodes the responses.

``inter.broker.protocol.version`` determines the versions of the requests; none is negotiated.

Source: Kafka ``RemoteLeaderEndPoint``, ``FetchRequest.Builder.forReplica``,
``ListOffsetsRequest.Builder.forReplica``, ``OffsetsForLeaderEpochRequest.Builder.forFollower``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, Final, TypeVar
from uuid import UUID

from msgspec import Struct

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.fetch import (
    TOPIC_IDS_SINCE,
    FetchPartition,
    FetchRequestData,
    write_fetch_request,
)
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
    EpochResponse,
    LeaderFetchResponse,
    OffsetsResponse,
)
from replica_manager.replication.fetch_response import read_fetch_response
from replica_manager.replication.fetch_values import TopicIdPartition

_READ_UNCOMMITTED: Final = 0
_V = TypeVar("_V")


class FetchLimits(Struct, frozen=True):
    """The fields of each Fetch request that come from the configuration."""

    max_wait_ms: int = 500
    """``replica.fetch.wait.max.ms``"""
    min_bytes: int = 1
    """``replica.fetch.min.bytes``"""
    max_bytes: int = 10_485_760
    """``replica.fetch.response.max.bytes``"""


class LeaderRequestVersions(Struct, frozen=True):
    """The versions of a follower's requests to its leader."""

    fetch: int
    list_offsets: int
    offsets_for_leader_epoch: int

    @staticmethod
    def of(version: InterBrokerVersion) -> LeaderRequestVersions:
        """The versions that belong to an ``inter.broker.protocol.version``."""
        return LeaderRequestVersions(
            fetch_version(version),
            list_offsets_version(version),
            offsets_for_leader_epoch_version(version),
        )


def fetch_request(
    version: int, request: AskRecords, limits: FetchLimits, replica_id: int, broker_epoch: int
) -> bytes:
    """The body of a Fetch request; :meth:`AskRecords.api_version` gives ``version``."""
    fetch = request.fetch
    by_id = version >= TOPIC_IDS_SINCE
    return write_fetch_request(
        version,
        FetchRequestData(
            replica_id=replica_id,
            replica_epoch=broker_epoch,
            max_wait_ms=limits.max_wait_ms,
            min_bytes=limits.min_bytes,
            max_bytes=limits.max_bytes,
            is_read_committed=False,
            session_id=fetch.metadata.session_id,
            session_epoch=fetch.metadata.epoch,
            topics=[
                (topic_id if by_id else topic, [(tp.partition, each) for tp, each in run])
                # Only adjacent partitions of a topic are grouped: the leader reads in this order.
                for (topic, topic_id), run in groupby(fetch.to_send.items(), key=_topic_of)
            ],
            forgotten=[
                (topic_id if by_id else topic, partitions)
                for (topic, topic_id), partitions in _grouped(fetch.forgotten(version)).items()
            ],
            rack_id="",
        ),
    )


def _topic_of(asked: tuple[TopicPartition, FetchPartition]) -> tuple[str, UUID | None]:
    tp, partition = asked
    return tp.topic, partition.topic_id


def _grouped(
    partitions: Iterable[TopicIdPartition],
) -> dict[tuple[str | None, UUID | None], list[int]]:
    grouped: dict[tuple[str | None, UUID | None], list[int]] = {}
    for topic_id, topic, partition in partitions:
        grouped.setdefault((topic, topic_id), []).append(partition)
    return grouped


def decode_fetch_response(
    version: int, body: memoryview, topic_names: Mapping[UUID, str]
) -> LeaderFetchResponse:
    """The decoded response to :func:`fetch_request`; InvalidFrame if it is malformed."""
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


def decode_epoch_response(version: int, body: bytes) -> EpochResponse:
    """The decoded response to :func:`epoch_request`; InvalidFrame if it is malformed.

    In version 0, which has no leader epoch, the epoch is -1.
    """
    response: Any = read_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, body)
    return {
        TopicPartition(topic.topic, row.partition): (
            row.error_code,
            EpochEndOffset(getattr(row, "leader_epoch", NO_EPOCH), row.end_offset),
        )
        for topic in response.topics
        for row in topic.partitions
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


def decode_offsets_response(version: int, body: bytes) -> OffsetsResponse:
    """The decoded response to :func:`offsets_request`; InvalidFrame if it is malformed."""
    response: Any = read_response(ApiKey.LIST_OFFSETS, version, body)
    return {
        TopicPartition(topic.name, row.partition_index): (row.error_code, _offset_of(row))
        for topic in response.topics
        for row in topic.partitions
    }


def _offset_of(row: Any) -> int:
    """The offset of a partition; version 0 has a list of one offset, and none with an error."""
    if hasattr(row, "offset"):
        offset: int = row.offset
        return offset
    return next(iter(row.old_style_offsets), -1)


def _by_topic(questions: Mapping[TopicPartition, _V]) -> dict[str, list[tuple[int, _V]]]:
    grouped: dict[str, list[tuple[int, _V]]] = {}
    for tp, question in questions.items():
        grouped.setdefault(tp.topic, []).append((tp.partition, question))
    return grouped
