"""Converts results of the group coordinator to responses of any version.

A value that an old version has no field for is left out, or put into another field.

Source: Kafka ``GroupCoordinatorAdapter``, ``JoinGroupResponse``, ``LeaveGroupResponse``,
``OffsetFetchResponse``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.bulk_groups import encoded_groups, encoded_throttle_time
from kafka_common.protocol.versioned_messages import ResponseSchema, response_schema
from replica_manager.coordinators.groups.requests import (
    INVALID_OFFSET,
    DeleteGroupsResult,
    DeleteOffsetsResult,
    DescribedGroup,
    DescribeGroupsResult,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    GroupOffsets,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListGroupsResult,
    SyncResult,
    WantedOffsets,
)
from replica_manager.server.authorization import NOT_ASKED
from replica_manager.server.context import EncodedBody


def write_join(result: JoinResult, version: int) -> ResponsePayload:
    schema = response_schema(ApiKey.JOIN_GROUP, version)
    name = result.protocol_name or None
    return schema.response(
        error_code=result.error,
        generation_id=result.generation_id,
        protocol_type=result.protocol_type,
        protocol_name=name if version >= 7 else name or "",
        leader=result.leader_id,
        skip_assignment=result.skip_assignment,
        member_id=result.member_id,
        members=tuple(
            schema.part("JoinGroupResponseMember", **each._asdict()) for each in result.members
        ),
    )


def write_sync(result: SyncResult, version: int) -> ResponsePayload:
    return response_schema(ApiKey.SYNC_GROUP, version).response(
        error_code=result.error,
        protocol_type=result.protocol_type,
        protocol_name=result.protocol_name,
        assignment=result.assignment,
    )


def write_heartbeat(result: HeartbeatResult, version: int) -> ResponsePayload:
    return response_schema(ApiKey.HEARTBEAT, version).response(error_code=result.error)


def write_leave(result: LeaveResult, version: int) -> ResponsePayload:
    """The LeaveGroup response; before version 3, it has the error of its one member."""
    schema = response_schema(ApiKey.LEAVE_GROUP, version)
    error = result.error
    if version < 3:
        errors = [error, *(each.error for each in result.members)]
        error = next((each for each in errors if each is not ErrorCode.none), ErrorCode.none)
        return schema.response(error_code=error)
    members = tuple(
        schema.part(
            "MemberResponse",
            member_id=each.member_id,
            group_instance_id=each.group_instance_id,
            error_code=each.error,
        )
        for each in result.members
    )
    return schema.response(error_code=error, members=members)


def write_commit(errors: Mapping[TopicPartition, ErrorCode], version: int) -> ResponsePayload:
    """The OffsetCommit response; ``errors`` has every partition of the request."""
    schema = response_schema(ApiKey.OFFSET_COMMIT, version)
    topics = _by_topic(schema, "OffsetCommitResponse", errors)
    return schema.response(topics=topics)


def write_transactional_commit(
    errors: Mapping[TopicPartition, ErrorCode], version: int
) -> ResponsePayload:
    """The TxnOffsetCommit response."""
    schema = response_schema(ApiKey.TXN_OFFSET_COMMIT, version)
    topics = _by_topic(schema, "TxnOffsetCommitResponse", errors)
    return schema.response(topics=topics)


def write_fetch(result: FetchResult, request: FetchOffsets, version: int) -> ResponsePayload:
    schema = response_schema(ApiKey.OFFSET_FETCH, version)
    if version >= 8:
        groups = tuple(
            schema.part(
                "OffsetFetchResponseGroup",
                group_id=group.group_id,
                error_code=group.error,
                topics=_fetched(schema, group.partitions, "s"),
            )
            for group in result.groups
        )
        return schema.response(groups=groups)
    [group], [wanted] = result.groups, request.groups
    if version < 2:
        group = _with_errors_of_partitions(group, wanted)
    return schema.response(error_code=group.error, topics=_fetched(schema, group.partitions, ""))


def _with_errors_of_partitions(group: GroupOffsets, wanted: WantedOffsets) -> GroupOffsets:
    """Puts the group's error into each partition, because version 1 has no group error."""
    if group.error is ErrorCode.none:
        return group
    nothing = FetchedOffset(INVALID_OFFSET, NO_EPOCH, "", group.error)
    return group._replace(partitions=dict.fromkeys(wanted.partitions or (), nothing))


def _fetched(
    schema: ResponseSchema, partitions: Mapping[TopicPartition, FetchedOffset], plural: str
) -> tuple[Any, ...]:
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), fetched in partitions.items():
        by_topic.setdefault(topic, []).append(
            schema.part(
                f"OffsetFetchResponsePartition{plural}",
                partition_index=partition,
                committed_offset=fetched.offset,
                committed_leader_epoch=fetched.leader_epoch,
                metadata=fetched.metadata,
                error_code=fetched.error,
            )
        )
    return tuple(
        schema.part(f"OffsetFetchResponseTopic{plural}", name=name, partitions=tuple(parts))
        for name, parts in by_topic.items()
    )


def write_delete_offsets(result: DeleteOffsetsResult, version: int) -> ResponsePayload:
    schema = response_schema(ApiKey.OFFSET_DELETE, version)
    topics = _by_topic(schema, "OffsetDeleteResponse", result.partitions)
    return schema.response(error_code=result.error, topics=topics)


def _by_topic(
    schema: ResponseSchema, prefix: str, errors: Mapping[TopicPartition, ErrorCode]
) -> tuple[Any, ...]:
    by_topic: dict[str, list[Any]] = {}
    for (topic, partition), error in errors.items():
        part = schema.part(f"{prefix}Partition", partition_index=partition, error_code=error)
        by_topic.setdefault(topic, []).append(part)
    return tuple(
        schema.part(f"{prefix}Topic", name=name, partitions=tuple(parts))
        for name, parts in by_topic.items()
    )


def write_delete_groups(result: DeleteGroupsResult, version: int) -> ResponsePayload:
    schema = response_schema(ApiKey.DELETE_GROUPS, version)
    results = tuple(
        schema.part("DeletableGroupResult", group_id=group_id, error_code=error)
        for group_id, error in result.errors.items()
    )
    return schema.response(results=results)


def write_list(result: ListGroupsResult, version: int) -> EncodedBody:
    listed = encoded_groups(version, result.error.value, result.groups)

    def body(throttle_ms: int) -> tuple[bytes, bytes]:
        return encoded_throttle_time(version, throttle_ms), listed

    return EncodedBody(body(0), errors=lambda: {result.error: 1}, throttled=body)


def write_describe(
    result: DescribeGroupsResult,
    version: int,
    authorized_operations: Callable[[str], int] = lambda _: NOT_ASKED,
) -> ResponsePayload:
    """The DescribeGroups response; ``authorized_operations`` is called with each found group."""
    schema = response_schema(ApiKey.DESCRIBE_GROUPS, version)
    groups = tuple(_described(schema, each, authorized_operations) for each in result.groups)
    return schema.response(groups=groups)


def _described(
    schema: ResponseSchema, group: DescribedGroup, authorized_operations: Callable[[str], int]
) -> Any:
    is_found = group.error is ErrorCode.none
    return schema.part(
        "DescribedGroup",
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        authorized_operations=authorized_operations(group.group_id) if is_found else NOT_ASKED,
        members=tuple(
            schema.part(
                "DescribedGroupMember",
                member_id=each.member_id,
                group_instance_id=each.group_instance_id,
                client_id=each.client_id,
                client_host=each.client_host,
                member_metadata=each.metadata,
                member_assignment=each.assignment,
            )
            for each in group.members
        ),
    )
