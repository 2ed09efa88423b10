"""Partitions of offset requests: authorization, existence, results.

Source: Kafka ``KafkaApis`` (``handleOffsetCommitRequest``, ``handleOffsetDeleteRequest``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from kio.schema.errors import ErrorCode
from msgspec.structs import replace

from kafka_common.acls import AclOperation, ResourceType
from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    CommitResult,
    DeleteOffsets,
    DeleteOffsetsResult,
)
from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, RequestContext
from replica_manager.server.request_topics import IndexedPartition, NamedTopic
from replica_manager.server.slices import PIECE, in_pieces, in_slices


def partitions_of(topics: Iterable[NamedTopic[IndexedPartition]]) -> dict[TopicPartition, None]:
    """The partitions that OffsetCommit or OffsetDelete names, each once, in their order."""
    return dict.fromkeys(_named_in(topics))


def named_count(topics: Iterable[NamedTopic[IndexedPartition]]) -> int:
    """The number of partitions in the request; one that is named twice counts twice."""
    return sum(len(topic.partitions) for topic in topics)


async def partitions_in_slices(
    topics: Iterable[NamedTopic[IndexedPartition]],
) -> dict[TopicPartition, None]:
    """The partitions in the request, each once; yields to other tasks in between."""
    return {partition: None async for partition in in_slices(_named_in(topics))}


def _named_in(topics: Iterable[NamedTopic[IndexedPartition]]) -> Iterator[TopicPartition]:
    return (
        TopicPartition(topic.name, each.partition_index)
        for topic in topics
        for each in topic.partitions
    )


async def refused_partitions(
    partitions: Collection[TopicPartition], context: RequestContext, broker: BrokerContext
) -> dict[TopicPartition, ErrorCode]:
    """The partitions whose topic the client may not read, or that do not exist, with errors."""
    names = {partition.topic: None async for partition in in_slices(partitions)}
    readable = await allowed_names(broker, context, AclOperation.READ, ResourceType.TOPIC, names)
    snapshot = broker.metadata_cache.snapshot
    refused: dict[TopicPartition, ErrorCode] = {}
    async for partition in in_slices(partitions):
        if partition.topic not in readable:
            refused[partition] = ErrorCode.topic_authorization_failed
        elif snapshot.partition(*partition) is None:
            refused[partition] = ErrorCode.unknown_topic_or_partition
    return refused


async def committed(
    commit: CommitOffsets, broker: BrokerContext
) -> dict[TopicPartition, ErrorCode]:
    """Commits offsets; returns the error code of each partition, NONE on success.

    Kafka writes all offsets as one batch.  Here a large commit is divided into several batches, one
    after the other, so that the coordinator can handle other requests in between.
    """
    if len(commit.offsets) <= PIECE:
        return dict((await broker.records.groups.ask(commit, CommitResult)).errors)
    errors: dict[TopicPartition, ErrorCode] = {}
    async for piece in in_pieces(list(commit.offsets.items())):
        part = replace(
            commit, request_id=broker.records.groups.new_request_id(), offsets=dict(piece)
        )
        errors |= (await broker.records.groups.ask(part, CommitResult)).errors
    return errors


async def deleted(deletion: DeleteOffsets, broker: BrokerContext) -> DeleteOffsetsResult:
    """Deletes offsets; returns the error code of each partition.

    A large deletion is divided into pieces, as in :func:`committed`.  After a piece has deleted the
    group's last offset, the group may not exist any more: then later pieces have no error.  Any
    other error of a later piece becomes the error of its partitions.
    """
    if len(deletion.partitions) <= PIECE:
        return await broker.records.groups.ask(deletion, DeleteOffsetsResult)
    errors: dict[TopicPartition, ErrorCode] = {}
    async for piece in in_pieces(deletion.partitions):
        part = replace(
            deletion, request_id=broker.records.groups.new_request_id(), partitions=tuple(piece)
        )
        result = await broker.records.groups.ask(part, DeleteOffsetsResult)
        if result.error is ErrorCode.none:
            errors |= result.partitions
        elif not errors:
            return result
        else:
            is_gone = result.error is ErrorCode.group_id_not_found
            errors |= dict.fromkeys(piece, ErrorCode.none if is_gone else result.error)
    return DeleteOffsetsResult(ErrorCode.none, errors)
