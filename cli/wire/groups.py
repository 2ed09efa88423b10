"""Groups: listed by every broker, described and changed by their coordinators.

A group is read as :class:`GroupView`; a refused change is part of the result, not an exception.
Source: Kafka ``ConsumerGroupCommand``, ``KafkaAdminClient``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kio.schema.consumer_protocol_assignment.v0.data import ConsumerProtocolAssignment
from kio.schema.delete_groups.v2.request import DeleteGroupsRequest
from kio.schema.delete_groups.v2.response import DeleteGroupsResponse
from kio.schema.describe_groups.v5.request import DescribeGroupsRequest
from kio.schema.describe_groups.v5.response import DescribedGroup, DescribeGroupsResponse
from kio.schema.errors import ErrorCode
from kio.schema.list_groups.v4.request import ListGroupsRequest
from kio.schema.list_groups.v4.response import ListGroupsResponse
from kio.schema.offset_commit.v8 import request as offset_commit
from kio.schema.offset_commit.v8.response import OffsetCommitResponse
from kio.schema.offset_delete.v0 import request as offset_delete
from kio.schema.offset_delete.v0.response import OffsetDeleteResponse
from kio.schema.offset_fetch.v5.request import OffsetFetchRequest
from kio.schema.offset_fetch.v5.response import OffsetFetchResponse
from kio.schema.types import GroupId, TopicName
from kio.static.primitive import i32, i64

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.messages import read
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.coordinators import (
    MOVING,
    CoordinatorBroker,
    CoordinatorType,
    KeyResult,
    ask_coordinators,
    list_by_every_broker,
)
from zkcontroller_cli.wire.requests import (
    BrokerRefusal,
    Deadline,
    raise_for_code,
    refusal_of,
)
from zkcontroller_cli.wire.versions import BrokerConnection

DEAD: Final = "Dead"
WITHOUT_MEMBERS: Final = ("Empty", DEAD)
"""States of a group without members, whose offsets may be changed; Dead: there is no such group."""
_CONSUMER: Final = "consumer"
_GROUPS_PER_REQUEST: Final = 100


class ListedGroup(NamedTuple):
    """A group as its coordinator lists it; the state is None before Kafka 2.6."""

    group: str
    state: str | None
    protocol_type: str
    coordinator_id: int


class MemberDescription(NamedTuple):
    """A member of a group; the assignment is None if the group is not one of consumers."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[NamedPartition, ...] | None


class GroupView(NamedTuple):
    """A group, its members, and its committed offsets."""

    group: str
    state: str
    protocol_type: str
    protocol: str
    coordinator: CoordinatorBroker
    members: tuple[MemberDescription, ...]
    committed: Mapping[NamedPartition, int]

    @property
    def members_text(self) -> str:
        """Client id and host of the first five members, for a message."""
        names = [f"{each.client_id} at {each.host.lstrip('/')}" for each in self.members]
        shown = ", ".join(names[:5])
        return f"{shown} and {len(names) - 5} more" if len(names) > 5 else shown


async def list_groups(
    bootstrap: Bootstrap, deadline: Deadline, states: Sequence[str] = ()
) -> list[ListedGroup]:
    """Every group in one of those states (none named: in any state), by name; asks every broker.

    CannotConnect if a broker is not reached, as its groups would be missing.
    """

    async def ask(connection: BrokerConnection) -> ListGroupsResponse:
        response = await connection.request(ListGroupsRequest(states_filter=tuple(states)))
        assert isinstance(response, ListGroupsResponse), "request() answers in kind"
        return response

    # While a coordinator moves, two brokers may list the same group.
    by_name = {
        str(each.group_id): ListedGroup(
            str(each.group_id), each.group_state or None, each.protocol_type, broker_id
        )
        for broker_id, response in await list_by_every_broker(bootstrap, deadline, "groups", ask)
        for each in response.groups
    }
    return [by_name[name] for name in sorted(by_name)]


async def describe_groups(
    bootstrap: Bootstrap, deadline: Deadline, groups: Sequence[str], *, is_with_offsets: bool = True
) -> list[GroupView]:
    """Describe the groups, in the given order; one that does not exist has the state Dead.

    Refused if a coordinator refuses one of them.
    """

    async def ask(connection: BrokerConnection, keys: Sequence[str]) -> Mapping[str, KeyResult]:
        described = await _described(connection, keys)
        if is_with_offsets:
            return {
                key: await _with_offsets(connection, response)
                for key, response in described.items()
            }
        return described

    responses = await ask_coordinators(bootstrap, deadline, CoordinatorType.GROUP, groups, ask)
    views = []
    for group, (coordinator, (code, value)) in responses.items():
        raise_for_code(f"group {group}", code)
        described, committed = value
        views.append(_view(described, coordinator, committed))
    return views


async def _described(connection: BrokerConnection, keys: Sequence[str]) -> dict[str, KeyResult]:
    responses: dict[str, KeyResult] = {}
    for start in range(0, len(keys), _GROUPS_PER_REQUEST):
        those = keys[start : start + _GROUPS_PER_REQUEST]
        response = await connection.request(
            DescribeGroupsRequest(
                groups=tuple(map(GroupId, those)), include_authorized_operations=False
            )
        )
        assert isinstance(response, DescribeGroupsResponse), "request() answers in kind"
        responses |= {
            str(each.group_id): KeyResult(each.error_code, (each, {})) for each in response.groups
        }
    return responses


async def _with_offsets(connection: BrokerConnection, described: KeyResult) -> KeyResult:
    if described.error_code is not ErrorCode.none:
        return described
    group: DescribedGroup = described.value[0]
    code, committed = await committed_offsets(connection, str(group.group_id))
    return KeyResult(code, (group, committed))


async def committed_offsets(
    connection: BrokerConnection, group: str
) -> tuple[ErrorCode, dict[NamedPartition, int]]:
    """The first error of the coordinator's response, and the group's committed offsets."""
    response = await connection.request(OffsetFetchRequest(group_id=GroupId(group), topics=None))
    assert isinstance(response, OffsetFetchResponse), "request() answers in kind"
    partitions = [(topic, each) for topic in response.topics for each in topic.partitions]
    codes = [response.error_code, *(each.error_code for _, each in partitions)]
    committed = {
        NamedPartition(str(topic.name), int(each.partition_index)): int(each.committed_offset)
        for topic, each in partitions
        if each.committed_offset >= 0
    }
    code = next((code for code in codes if code is not ErrorCode.none), ErrorCode.none)
    return code, committed


def _view(
    described: DescribedGroup,
    coordinator: CoordinatorBroker,
    committed: Mapping[NamedPartition, int],
) -> GroupView:
    members = tuple(
        MemberDescription(
            each.member_id,
            each.group_instance_id,
            each.client_id,
            each.client_host,
            assignment_in(each.member_assignment) if described.protocol_type == _CONSUMER else None,
        )
        for each in described.members
    )
    return GroupView(
        str(described.group_id),
        described.group_state,
        described.protocol_type,
        described.protocol_data,
        coordinator,
        tuple(sorted(members, key=lambda member: member.member_id)),
        dict(sorted(committed.items())),
    )


def assignment_in(data: bytes) -> tuple[NamedPartition, ...] | None:
    """The partitions that a consumer is assigned, sorted; None if the bytes are malformed.

    Later versions only append fields to version 0.  No bytes: the member has no assignment yet.
    Source: Kafka ``ConsumerProtocol.deserializeAssignment``.
    """
    if not data:
        return ()
    try:
        assigned = read(ConsumerProtocolAssignment, data, 2)
    except InvalidFrame:
        return None
    return tuple(
        sorted(
            NamedPartition(str(each.topic), int(partition))
            for each in assigned.assigned_partitions
            for partition in each.partitions
        )
    )


async def commit_offsets(
    bootstrap: Bootstrap, deadline: Deadline, group: str, offsets: Mapping[NamedPartition, int]
) -> dict[NamedPartition, BrokerRefusal | None]:
    """Commit offsets for a group without members; by partition the refusal, or None.

    Source: Kafka ``AlterConsumerGroupOffsetsHandler``: no member, no generation, empty metadata.
    """
    topics: defaultdict[str, list[offset_commit.OffsetCommitRequestPartition]] = defaultdict(list)
    for (topic, partition), offset in offsets.items():
        topics[topic].append(
            offset_commit.OffsetCommitRequestPartition(
                partition_index=i32(partition), committed_offset=i64(offset), committed_metadata=""
            )
        )
    request = offset_commit.OffsetCommitRequest(
        group_id=GroupId(group),
        member_id="",
        topics=tuple(
            offset_commit.OffsetCommitRequestTopic(name=TopicName(name), partitions=tuple(those))
            for name, those in topics.items()
        ),
    )

    async def ask(connection: BrokerConnection, keys: Sequence[str]) -> Mapping[str, KeyResult]:
        response = await connection.request(request)
        assert isinstance(response, OffsetCommitResponse), "request() answers in kind"
        return {key: _by_partition(response.topics) for key in keys}

    responses = await ask_coordinators(bootstrap, deadline, CoordinatorType.GROUP, [group], ask)
    return _refusals(responses[group][1].value, offsets)


async def delete_groups(
    bootstrap: Bootstrap, deadline: Deadline, groups: Sequence[str]
) -> dict[str, BrokerRefusal | None]:
    """Delete groups; by name the refusal, or None if the group was deleted."""

    async def ask(connection: BrokerConnection, keys: Sequence[str]) -> Mapping[str, KeyResult]:
        response = await connection.request(
            DeleteGroupsRequest(groups_names=tuple(map(GroupId, keys)))
        )
        assert isinstance(response, DeleteGroupsResponse), "request() answers in kind"
        return {str(each.group_id): KeyResult(each.error_code, None) for each in response.results}

    responses = await ask_coordinators(bootstrap, deadline, CoordinatorType.GROUP, groups, ask)
    return {group: refusal_of(code) for group, (_, (code, _)) in responses.items()}


async def delete_offsets(
    bootstrap: Bootstrap, deadline: Deadline, group: str, partitions: Collection[NamedPartition]
) -> dict[NamedPartition, BrokerRefusal | None]:
    """Delete committed offsets; by partition the refusal, or None if the offset was deleted.

    Raises Refused if the coordinator refuses the whole request.
    """
    topics: defaultdict[str, list[offset_delete.OffsetDeleteRequestPartition]] = defaultdict(list)
    for topic, partition in partitions:
        topics[topic].append(
            offset_delete.OffsetDeleteRequestPartition(partition_index=i32(partition))
        )
    request = offset_delete.OffsetDeleteRequest(
        group_id=GroupId(group),
        topics=tuple(
            offset_delete.OffsetDeleteRequestTopic(name=TopicName(name), partitions=tuple(those))
            for name, those in topics.items()
        ),
    )

    async def ask(connection: BrokerConnection, keys: Sequence[str]) -> Mapping[str, KeyResult]:
        response = await connection.request(request)
        assert isinstance(response, OffsetDeleteResponse), "request() answers in kind"
        found = _by_partition(response.topics)
        code = response.error_code
        return {key: found if code is ErrorCode.none else KeyResult(code, None) for key in keys}

    responses = await ask_coordinators(bootstrap, deadline, CoordinatorType.GROUP, [group], ask)
    code, value = responses[group][1]
    if value is None:
        raise_for_code(f"group {group}", code)
    return _refusals(value, partitions)


def _by_partition(topics: Sequence[Any]) -> KeyResult:
    """The error codes by partition; one code of :data:`MOVING` becomes the error of the result."""
    codes = {
        NamedPartition(str(topic.name), int(each.partition_index)): ErrorCode(each.error_code)
        for topic in topics
        for each in topic.partitions
    }
    moving = next((code for code in codes.values() if code in MOVING), ErrorCode.none)
    return KeyResult(moving, codes)


def _refusals(
    codes: Mapping[NamedPartition, ErrorCode], asked: Collection[NamedPartition]
) -> dict[NamedPartition, BrokerRefusal | None]:
    return {each: refusal_of(codes.get(each, ErrorCode.unknown_server_error)) for each in asked}
