"""Requests about groups in any version, and the answers to them: messages to values and back.

What a version cannot say has the default that Kafka gives it; what an answer of an old version
cannot carry is left out, or put where that version looks for it.

Source: Kafka ``GroupCoordinatorAdapter``, ``JoinGroupRequest``, ``LeaveGroupResponse``,
``OffsetFetchResponse`` and their companions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

from kio.schema.errors import ErrorCode
from kio.static.protocol import ResponsePayload

from replica_manager.groups.records import LONGEST_STRING_BYTES
from replica_manager.groups.requests import (
    INVALID_OFFSET,
    NO_GENERATION,
    UNKNOWN_MEMBER_ID,
    CommitOffsets,
    CommittedOffset,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    DescribedGroup,
    DescribeGroups,
    DescribeResult,
    FetchedOffset,
    FetchOffsets,
    FetchResult,
    GroupOffsets,
    Heartbeat,
    HeartbeatResult,
    JoinGroup,
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    ListGroups,
    ListResult,
    Protocol,
    SyncGroup,
    SyncResult,
    WantedOffsets,
)
from replica_manager.server.authorization import NOT_ASKED
from replica_manager.server.schema import ResponseSchema, response_schema
from zkcontroller.errors import InvalidFrame
from zkcontroller.model import NO_EPOCH, TopicPartition
from zkcontroller.protocol.api_versions import ApiKey

_MILLISECOND: Final = timedelta(milliseconds=1)
_DEFAULT: Final = -1
"""Of times that a client may leave to the broker."""


def java_address(host: str) -> str:
    """A client's address as Java prints it and records keep it: ``/127.0.0.1``, ``/0:0:…:1``."""
    literal, percent, scope = host.partition("%")
    try:
        address = ip_address(literal)
    except ValueError:
        return f"/{host}"
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return f"/{address.ipv4_mapped}"
        literal = ":".join(f"{int(group, 16):x}" for group in address.exploded.split(":"))
    return f"/{literal}{percent}{scope}"


# ---------------------------------------------------------------------- requests


def read_join(
    request: Any, request_id: int, version: int, *, client_id: str, client_host: str
) -> JoinGroup:
    """InvalidFrame if a string is longer than a record can hold; so in all that follows."""
    instance = getattr(request, "group_instance_id", None)
    session_timeout = request.session_timeout
    protocols = tuple(Protocol(_text(each.name), each.metadata) for each in request.protocols)
    return JoinGroup(
        request_id,
        _text(request.group_id),
        _text(request.member_id),
        _text(request.protocol_type),
        protocols,
        _ms(session_timeout),
        # The first version knew one timeout only.
        _ms(getattr(request, "rebalance_timeout", session_timeout)),
        None if instance is None else _text(instance),
        client_id,
        java_address(client_host),
        requires_known_member_id=version >= 4 and instance is None,
        supports_skipping_assignment=version >= 9,
        reason=getattr(request, "reason", None),
    )


def read_sync(request: Any, request_id: int) -> SyncGroup:
    return SyncGroup(
        request_id,
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
        getattr(request, "protocol_type", None),
        getattr(request, "protocol_name", None),
        {each.member_id: each.assignment for each in request.assignments},
    )


def lacks_protocol(request: Any, version: int) -> bool:
    """Whether a SyncGroup does not name its protocol, which it must from version 5 on."""
    return version >= 5 and (request.protocol_type is None or request.protocol_name is None)


def read_heartbeat(request: Any, request_id: int) -> Heartbeat:
    return Heartbeat(
        request_id,
        request.group_id,
        request.generation_id,
        request.member_id,
        getattr(request, "group_instance_id", None),
    )


def read_leave(request: Any, request_id: int) -> LeaveGroup:
    """Before version 3 one member at a time."""
    if hasattr(request, "members"):
        members = tuple(
            LeavingMember(each.member_id, each.group_instance_id, getattr(each, "reason", None))
            for each in request.members
        )
    else:
        members = (LeavingMember(request.member_id),)
    return LeaveGroup(request_id, request.group_id, members)


def read_commit(
    request: Any, request_id: int, known: Collection[TopicPartition] | None = None
) -> CommitOffsets:
    """An OffsetCommit from version 1 on, of the partitions that exist (None: all do)."""
    offsets = {
        partition: CommittedOffset(
            each.committed_offset,
            getattr(each, "committed_leader_epoch", NO_EPOCH),
            _text(each.committed_metadata or ""),
            _unless_default(getattr(each, "commit_timestamp", _DEFAULT)),
        )
        for partition, each in _partitions_of(request.topics)
        if known is None or partition in known
    }
    retention = getattr(request, "retention_time", None)
    return CommitOffsets(
        request_id,
        _text(request.group_id),
        offsets,
        getattr(request, "member_id", UNKNOWN_MEMBER_ID),
        getattr(request, "generation_id_or_member_epoch", NO_GENERATION),
        getattr(request, "group_instance_id", None),
        None if retention is None else _unless_default(_ms(retention)),
    )


def read_fetch(request: Any, request_id: int) -> FetchOffsets:
    """An OffsetFetch from version 1 on; before version 8 of one group."""
    groups = request.groups if hasattr(request, "groups") else (request,)
    wanted = tuple(
        WantedOffsets(
            group.group_id,
            None
            if group.topics is None
            else tuple(
                TopicPartition(topic.name, index)
                for topic in group.topics
                for index in topic.partition_indexes
            ),
        )
        for group in groups
    )
    return FetchOffsets(request_id, wanted, getattr(request, "require_stable", False))


def read_delete_offsets(
    request: Any, request_id: int, known: Collection[TopicPartition] | None = None
) -> DeleteOffsets:
    """An OffsetDelete of the partitions that exist (None: all do)."""
    partitions = (partition for partition, _ in _partitions_of(request.topics))
    return DeleteOffsets(
        request_id,
        request.group_id,
        tuple(each for each in partitions if known is None or each in known),
    )


def read_delete_groups(request: Any, request_id: int) -> DeleteGroups:
    return DeleteGroups(request_id, tuple(request.groups_names))


def read_list(request: Any, request_id: int) -> ListGroups:
    return ListGroups(
        request_id, getattr(request, "states_filter", ()), getattr(request, "types_filter", ())
    )


def read_describe(request: Any, request_id: int) -> DescribeGroups:
    return DescribeGroups(request_id, tuple(request.groups))


def _partitions_of(topics: Iterable[Any]) -> Iterable[tuple[TopicPartition, Any]]:
    for topic in topics:
        name = _text(topic.name)
        for each in topic.partitions:
            yield TopicPartition(name, each.partition_index), each


def _ms(duration: timedelta) -> int:
    return duration // _MILLISECOND


def _unless_default(value: int) -> int | None:
    return None if value == _DEFAULT else value


def _text(text: str) -> str:
    # A character takes up to four bytes, so the short ones need not be encoded to know.
    if len(text) * 4 > LONGEST_STRING_BYTES and len(text.encode()) > LONGEST_STRING_BYTES:
        raise InvalidFrame(f"a string of more than {LONGEST_STRING_BYTES} bytes")
    return text


# ---------------------------------------------------------------------- answers


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
    """Before version 3 the outcome of the one member is that of the request."""
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
    """``errors`` has every partition of the request, those that do not exist too."""
    schema = response_schema(ApiKey.OFFSET_COMMIT, version)
    topics = _by_topic(schema, "OffsetCommitResponse", errors)
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
    """Version 1 has no error of a group."""
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


def write_list(result: ListResult, version: int) -> ResponsePayload:
    schema = response_schema(ApiKey.LIST_GROUPS, version)
    groups = tuple(
        schema.part(
            "ListedGroup",
            group_id=each.group_id,
            protocol_type=each.protocol_type,
            group_state=each.state,
            group_type=each.group_type,
        )
        for each in result.groups
    )
    return schema.response(error_code=result.error, groups=groups)


def write_describe(
    result: DescribeResult, version: int, authorized_operations: int = NOT_ASKED
) -> ResponsePayload:
    """``authorized_operations`` of groups without an error, if the client asked for them."""
    schema = response_schema(ApiKey.DESCRIBE_GROUPS, version)
    groups = tuple(_described(schema, each, authorized_operations) for each in result.groups)
    return schema.response(groups=groups)


def _described(schema: ResponseSchema, group: DescribedGroup, authorized_operations: int) -> Any:
    is_found = group.error is ErrorCode.none
    return schema.part(
        "DescribedGroup",
        error_code=group.error,
        group_id=group.group_id,
        group_state=group.state,
        protocol_type=group.protocol_type,
        protocol_data=group.protocol_name,
        authorized_operations=authorized_operations if is_found else NOT_ASKED,
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
