"""Converts group requests of any version to values for the group coordinator.

A field that a version does not have gets Kafka's default.

Source: Kafka ``GroupCoordinatorAdapter``, ``JoinGroupRequest``, ``LeaveGroupRequest``,
``OffsetFetchRequest``.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

from kafka_common.errors import InvalidFrame
from kafka_common.java import java_address
from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol import request_types
from kafka_common.protocol.request_types import field_or
from replica_manager.coordinators.groups.records import LONGEST_STRING_BYTES
from replica_manager.coordinators.groups.requests import (
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    CommitOffsets,
    CommittedOffset,
    DeleteOffsets,
    FetchOffsets,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    LeavingMember,
    ListGroups,
    Protocol,
    SyncGroup,
    TransactionalProducer,
    WantedOffsets,
)
from replica_manager.server.request_topics import NamedTopic, P_co

_WantedTopic: TypeAlias = (
    "request_types.OffsetFetchRequestTopic | request_types.OffsetFetchRequestTopics"
)
_MILLISECOND: Final = timedelta(milliseconds=1)
_DEFAULT: Final = -1
"""The value of a time for which the client wants the broker's default."""


def read_join(
    request: request_types.JoinGroupRequest,
    request_id: int,
    version: int,
    *,
    client_id: str,
    client_host: str,
) -> JoinGroup:
    """The values of a JoinGroup request.

    InvalidFrame if a string is longer than a record of the group can hold.
    """
    instance = field_or(request, "group_instance_id", None)
    session_timeout = request.session_timeout
    protocols = tuple(Protocol(_text(each.name), each.metadata) for each in request.protocols)
    return JoinGroup(
        request_id,
        _text(request.group_id),
        _text(request.member_id),
        _text(request.protocol_type),
        protocols,
        _ms(session_timeout),
        # Version 0 has only one timeout.
        _ms(field_or(request, "rebalance_timeout", session_timeout)),
        None if instance is None else _text(instance),
        client_id,
        java_address(client_host),
        requires_known_member_id=version >= 4 and instance is None,
        supports_skipping_assignment=version >= 9,
        reason=field_or(request, "reason", None),
    )


def read_sync(request: request_types.SyncGroupRequest, request_id: int) -> SyncGroup:
    return SyncGroup(
        request_id,
        request.group_id,
        request.generation_id,
        request.member_id,
        field_or(request, "group_instance_id", None),
        field_or(request, "protocol_type", None),
        field_or(request, "protocol_name", None),
        {each.member_id: each.assignment for each in request.assignments},
    )


def lacks_protocol(request: request_types.SyncGroupRequest, version: int) -> bool:
    """Whether a SyncGroup of version 5 or later lacks its protocol type or name."""
    names = (field_or(request, "protocol_type", None), field_or(request, "protocol_name", None))
    return version >= 5 and None in names


def read_heartbeat(request: request_types.HeartbeatRequest, request_id: int) -> Heartbeat:
    return Heartbeat(
        request_id,
        request.group_id,
        request.generation_id,
        request.member_id,
        field_or(request, "group_instance_id", None),
    )


def read_leave(request: request_types.LeaveGroupRequest, request_id: int) -> LeaveGroup:
    """The members that leave; before version 3, a request has one member only."""
    members = field_or(request, "members", None)
    if members is None:
        leaving = (LeavingMember(field_or(request, "member_id", UNKNOWN_MEMBER_ID)),)
        return LeaveGroup(request_id, request.group_id, leaving)
    return LeaveGroup(
        request_id,
        request.group_id,
        tuple(
            LeavingMember(each.member_id, each.group_instance_id, field_or(each, "reason", None))
            for each in members
        ),
    )


def read_commit(
    request: request_types.OffsetCommitRequest,
    request_id: int,
    known: Collection[TopicPartition] | None = None,
) -> CommitOffsets:
    """The offsets of an OffsetCommit (version 1 or later) for the partitions in ``known``.

    None in ``known`` keeps all partitions.
    """
    offsets = {
        partition: CommittedOffset(
            each.committed_offset,
            field_or(each, "committed_leader_epoch", NO_EPOCH),
            _text(each.committed_metadata or ""),
            _unless_default(field_or(each, "commit_timestamp", _DEFAULT)),
        )
        for partition, each in _partitions_of(request.topics)
        if known is None or partition in known
    }
    retention = field_or(request, "retention_time", None)
    return CommitOffsets(
        request_id,
        _text(request.group_id),
        offsets,
        field_or(request, "member_id", UNKNOWN_MEMBER_ID),
        field_or(request, "generation_id_or_member_epoch", NO_GENERATION),
        field_or(request, "group_instance_id", None),
        None if retention is None else _unless_default(_ms(retention)),
    )


def read_transactional_commit(
    request: request_types.TxnOffsetCommitRequest,
    request_id: int,
    known: Collection[TopicPartition],
    producer: TransactionalProducer,
) -> CommitOffsets:
    """The offsets of a TxnOffsetCommit for the partitions in ``known``."""
    offsets = {
        partition: CommittedOffset(
            each.committed_offset,
            field_or(each, "committed_leader_epoch", NO_EPOCH),
            _text(each.committed_metadata or ""),
        )
        for partition, each in _partitions_of(request.topics)
        if partition in known
    }
    return CommitOffsets(
        request_id,
        _text(request.group_id),
        offsets,
        field_or(request, "member_id", UNKNOWN_MEMBER_ID),
        field_or(request, "generation_id", NO_GENERATION),
        field_or(request, "group_instance_id", None),
        producer=producer,
    )


def read_fetch(request: request_types.OffsetFetchRequest, request_id: int) -> FetchOffsets:
    """The wanted offsets of an OffsetFetch, version 1 or later; one group before version 8."""
    wanted = tuple(
        WantedOffsets(
            group_id,
            None
            if topics is None
            else tuple(
                TopicPartition(topic.name, index)
                for topic in topics
                for index in topic.partition_indexes
            ),
        )
        for group_id, topics in wanted_topics(request)
    )
    return FetchOffsets(request_id, wanted, field_or(request, "require_stable", False))


def wanted_topics(
    request: request_types.OffsetFetchRequest,
) -> Iterator[tuple[str, Sequence[_WantedTopic] | None]]:
    """Each group of an OffsetFetch with the wanted topics; None means all topics."""
    groups = field_or(request, "groups", None)
    if groups is None:
        yield field_or(request, "group_id", ""), field_or(request, "topics", None)
        return
    for group in groups:
        yield group.group_id, group.topics


def read_delete_offsets(
    request: request_types.OffsetDeleteRequest,
    request_id: int,
    known: Collection[TopicPartition] | None = None,
) -> DeleteOffsets:
    """The partitions of an OffsetDelete that are in ``known``; None keeps all."""
    partitions = dict.fromkeys(partition for partition, _ in _partitions_of(request.topics))
    return DeleteOffsets(
        request_id,
        request.group_id,
        tuple(each for each in partitions if known is None or each in known),
    )


def read_list(request: request_types.ListGroupsRequest, request_id: int) -> ListGroups:
    return ListGroups(
        request_id, field_or(request, "states_filter", ()), field_or(request, "types_filter", ())
    )


def _partitions_of(topics: Iterable[NamedTopic[P_co]]) -> Iterable[tuple[TopicPartition, P_co]]:
    for topic in topics:
        name = _text(topic.name)
        for each in topic.partitions:
            yield TopicPartition(name, each.partition_index), each


def _ms(duration: timedelta) -> int:
    return duration // _MILLISECOND


def _unless_default(value: int) -> int | None:
    return None if value == _DEFAULT else value


def _text(text: str) -> str:
    # A character takes at most four bytes, so a short text need not be encoded to check it.
    if len(text) * 4 > LONGEST_STRING_BYTES and len(text.encode()) > LONGEST_STRING_BYTES:
        raise InvalidFrame(f"a string of more than {LONGEST_STRING_BYTES} bytes")
    return text
