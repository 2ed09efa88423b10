"""Groups on the wire: every version of every request and answer, as bytes of kio's schemas."""

from __future__ import annotations

from datetime import timedelta
from itertools import count
from typing import Any, cast
from uuid import UUID

import pytest
from kio.index import load_payload_module
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType

from kafka_common.errors import InvalidFrame
from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.messages import read_request, read_response, request_type, write
from replica_manager.coordinators.groups.config import GroupConfig
from replica_manager.coordinators.groups.coordinator import GroupCoordinator
from replica_manager.coordinators.groups.events import (
    AppendGroupRecords,
    CoordinatorStartup,
    Elected,
    GroupRecordsAppended,
    GroupResponse,
    LoadFinished,
    Tick,
)
from replica_manager.coordinators.groups.requests import (
    DeleteGroups,
    DescribeGroups,
    Request,
    Result,
)
from replica_manager.server import group_requests as requests
from replica_manager.server import group_responses as answers

MS = timedelta(milliseconds=1)
GROUP = "billing"


class Wire:
    """A coordinator behind its messages: each request and answer goes over as bytes."""

    def __init__(self) -> None:
        uuids = count(1)
        self.coordinator = GroupCoordinator(
            GroupConfig(initial_rebalance_delay_ms=0), lambda: UUID(int=next(uuids))
        )
        self.results: dict[int, Result] = {}
        self.step(CoordinatorStartup(1))
        self.step(Elected(0, 0))
        self.step(LoadFinished(1))
        self.step(Tick())  # The first look for expired offsets.

    def step(self, given: Any) -> None:
        for output in self.coordinator.step(given, 1_000):
            match output:
                case GroupResponse(request_id, result):
                    self.results[request_id] = result
                case AppendGroupRecords(append_id=int(append_id)):
                    self.step(GroupRecordsAppended(append_id, ErrorCode.none, append_id))
                case _:
                    pass

    def ask(self, request: Request) -> Any:
        self.step(request)
        self.step(Tick())
        return self.results[request.request_id]


def request(api_key: int, version: int, /, **fields: object) -> Any:
    """The request as the broker reads it; fields that this version lacks are left out."""
    known = request_type(api_key, version).__dataclass_fields__
    values = {name: value for name, value in fields.items() if name in known}
    return read_request(api_key, version, write(request_type(api_key, version)(**values)))


def part(api_key: int, version: int, name: str, /, **fields: object) -> Any:
    part_type = getattr(load_payload_module(api_key, version, EntityType.request), name)
    known = part_type.__dataclass_fields__
    return part_type(**{name: value for name, value in fields.items() if name in known})


def response(api_key: int, version: int, payload: Any) -> Any:
    """The answer as the client reads it."""
    return read_response(api_key, version, write(payload))


def joined(wire: Wire, version: int, member_id: str = "", instance: str | None = None) -> Any:
    protocol = part(ApiKey.JOIN_GROUP, version, "JoinGroupRequestProtocol",
                    name="range", metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff")  # fmt: skip
    asked = request(
        ApiKey.JOIN_GROUP, version, group_id=GROUP, session_timeout=10_000 * MS,
        rebalance_timeout=30_000 * MS, member_id=member_id, group_instance_id=instance,
        protocol_type="consumer", protocols=(protocol,), reason="because",
    )  # fmt: skip
    value = requests.read_join(asked, 1, version, client_id="c", client_host="127.0.0.1")
    answer = response(ApiKey.JOIN_GROUP, version, answers.write_join(wire.ask(value), version))
    if answer.error_code is ErrorCode.member_id_required:
        assert version >= 4
        return joined(wire, version, answer.member_id, instance)
    return answer


def commit_topics(version: int, *partitions: int) -> tuple[Any, ...]:
    parts = tuple(
        part(
            ApiKey.OFFSET_COMMIT,
            version,
            "OffsetCommitRequestPartition",
            partition_index=partition,
            committed_offset=40 + partition,
            committed_leader_epoch=7,
            commit_timestamp=5_000,
            committed_metadata=None,
        )
        for partition in partitions
    )
    name = "OffsetCommitRequestTopic"
    return (part(ApiKey.OFFSET_COMMIT, version, name, name="orders", partitions=parts),)


@pytest.mark.parametrize("nth", range(10))
def test_a_consumers_life_in_every_version(nth: int) -> None:
    """The nth version of each API; the newest where there are fewer."""
    wire = Wire()
    instance = "i" if nth >= 7 else None
    member = joined(wire, nth, instance=instance)
    assert (member.error_code, member.generation_id) == (ErrorCode.none, 1)
    assert (member.leader, member.protocol_name) == (member.member_id, "range")
    [seen] = member.members
    assert seen.member_id == member.member_id
    assert getattr(seen, "group_instance_id", instance) == instance
    identity: dict[str, Any] = {
        "group_id": GROUP, "generation_id": 1, "generation_id_or_member_epoch": 1,
        "member_id": member.member_id, "group_instance_id": instance,
    }  # fmt: skip

    version = min(nth, 5)
    assigned = part(ApiKey.SYNC_GROUP, version, "SyncGroupRequestAssignment",
                    member_id=member.member_id, assignment=b"all")  # fmt: skip
    asked = request(
        ApiKey.SYNC_GROUP, version, **identity, protocol_type="consumer", protocol_name="range",
        assignments=(assigned,),
    )  # fmt: skip
    assert not requests.lacks_protocol(asked, version)
    result = answers.write_sync(wire.ask(requests.read_sync(asked, 2)), version)
    answer = response(ApiKey.SYNC_GROUP, version, result)
    assert (answer.error_code, answer.assignment) == (ErrorCode.none, b"all")
    assert getattr(answer, "protocol_name", "range") == "range"

    version = min(nth, 4)
    asked = request(ApiKey.HEARTBEAT, version, **identity)
    result = answers.write_heartbeat(wire.ask(requests.read_heartbeat(asked, 3)), version)
    assert response(ApiKey.HEARTBEAT, version, result).error_code is ErrorCode.none

    version = max(nth, 1)
    asked = request(
        ApiKey.OFFSET_COMMIT, version, **identity, topics=commit_topics(version, 0, 1),
        retention_time=-1 * MS,
    )  # fmt: skip
    value = requests.read_commit(asked, 4, {TopicPartition("orders", 0)})
    errors = wire.ask(value).errors | {
        TopicPartition("orders", 1): ErrorCode.unknown_topic_or_partition
    }
    answer = response(ApiKey.OFFSET_COMMIT, version, answers.write_commit(errors, version))
    assert [each.error_code.name for each in answer.topics[0].partitions] == [
        "none", "unknown_topic_or_partition",
    ]  # fmt: skip

    name = "OffsetFetchRequestTopics" if version >= 8 else "OffsetFetchRequestTopic"
    topics = (part(ApiKey.OFFSET_FETCH, version, name, name="orders", partition_indexes=(0, 1)),)
    groups = (
        (
            part(
                ApiKey.OFFSET_FETCH,
                version,
                "OffsetFetchRequestGroup",
                group_id=GROUP,
                topics=topics,
            ),
        )
        if version >= 8
        else ()
    )
    asked = request(
        ApiKey.OFFSET_FETCH, version, group_id=GROUP, topics=topics, groups=groups,
        require_stable=True,
    )  # fmt: skip
    fetch = requests.read_fetch(asked, 5)
    answer = response(
        ApiKey.OFFSET_FETCH, version, answers.write_fetch(wire.ask(fetch), fetch, version)
    )
    [topic] = answer.groups[0].topics if version >= 8 else answer.topics
    assert [each.committed_offset for each in topic.partitions] == [40, -1]
    expected_epoch = 7 if version >= 6 else -1
    assert getattr(topic.partitions[0], "committed_leader_epoch", expected_epoch) == expected_epoch

    version = min(nth, 5)
    asked = request(ApiKey.DESCRIBE_GROUPS, version, groups=(GROUP, "nobody"),
                    include_authorized_operations=True)  # fmt: skip
    result = answers.write_describe(
        wire.ask(DescribeGroups(6, tuple(asked.groups))), version, lambda _: 264
    )
    found, missing = response(ApiKey.DESCRIBE_GROUPS, version, result).groups
    assert (found.group_state, missing.group_state) == ("Stable", "Dead")
    assert found.members[0].client_host == "/127.0.0.1"
    assert getattr(found, "authorized_operations", 264) == 264

    asked = request(ApiKey.LIST_GROUPS, version, states_filter=("stable",), types_filter=())
    encoded = answers.write_list(wire.ask(requests.read_list(asked, 7)), version)
    answer = read_response(ApiKey.LIST_GROUPS, version, b"".join(cast(Any, encoded.chunks)))
    [listed] = cast(Any, answer).groups
    assert (listed.group_id, getattr(listed, "group_type", "classic")) == (GROUP, "classic")

    leaving = (
        (part(ApiKey.LEAVE_GROUP, version, "MemberIdentity", member_id=member.member_id,
              group_instance_id=instance, reason="done"),)
        if version >= 3
        else ()
    )  # fmt: skip
    asked = request(ApiKey.LEAVE_GROUP, version, **identity, members=leaving)
    leave = requests.read_leave(asked, 8)
    answer = response(ApiKey.LEAVE_GROUP, version, answers.write_leave(wire.ask(leave), version))
    assert answer.error_code is ErrorCode.none
    again = response(ApiKey.LEAVE_GROUP, version, answers.write_leave(wire.ask(leave), version))
    told = again.members[0].error_code if version >= 3 else again.error_code
    assert told is ErrorCode.unknown_member_id

    asked = request(
        ApiKey.OFFSET_DELETE, 0, group_id=GROUP, topics=(
            part(ApiKey.OFFSET_DELETE, 0, "OffsetDeleteRequestTopic", name="orders", partitions=(
                part(ApiKey.OFFSET_DELETE, 0, "OffsetDeleteRequestPartition", partition_index=1),
            )),
        ),
    )  # fmt: skip
    result = answers.write_delete_offsets(wire.ask(requests.read_delete_offsets(asked, 9)), 0)
    answer = response(ApiKey.OFFSET_DELETE, 0, result)
    assert answer.topics[0].partitions[0].error_code is ErrorCode.none

    version = min(nth, 2)
    asked = request(ApiKey.DELETE_GROUPS, version, groups_names=(GROUP,))
    result = answers.write_delete_groups(
        wire.ask(DeleteGroups(10, tuple(asked.groups_names))), version
    )
    [deleted] = response(ApiKey.DELETE_GROUPS, version, result).results
    assert (deleted.group_id, deleted.error_code) == (GROUP, ErrorCode.none)


@pytest.mark.parametrize("version", range(10))
def test_a_refused_join_has_the_protocol_name_its_version_expects(version: int) -> None:
    answer = joined(Wire(), version, member_id="nobody")

    assert answer.error_code is ErrorCode.unknown_member_id
    assert (answer.generation_id, answer.leader, answer.member_id) == (-1, "", "nobody")
    assert answer.protocol_name == (None if version >= 7 else "")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_old_commits_can_ask_for_a_retention(version: int) -> None:
    fields = {"group_id": GROUP, "member_id": "", "generation_id_or_member_epoch": -1}
    topics = commit_topics(version, 0)

    def retention(asked: timedelta) -> int | None:
        commit = request(
            ApiKey.OFFSET_COMMIT, version, **fields, topics=topics, retention_time=asked
        )
        return requests.read_commit(commit, 1).retention_ms

    assert retention(-1 * MS) is None
    assert retention(86_400_000 * MS) == 86_400_000


def test_the_first_version_says_when_an_offset_was_committed() -> None:
    fields = {"group_id": GROUP, "member_id": "", "generation_id_or_member_epoch": -1}
    asked = request(ApiKey.OFFSET_COMMIT, 1, **fields, topics=commit_topics(1, 0))

    [offset] = requests.read_commit(asked, 1).offsets.values()

    assert offset.commit_timestamp_ms == 5_000


def test_the_error_of_a_group_goes_where_the_version_looks_for_it() -> None:
    wire = Wire()
    wire.coordinator = GroupCoordinator(GroupConfig(), lambda: UUID(int=0))
    for version in range(1, 8):
        topics = (
            part(ApiKey.OFFSET_FETCH, version, "OffsetFetchRequestTopic", name="orders",
                 partition_indexes=(0, 1)),
        )  # fmt: skip
        asked = request(
            ApiKey.OFFSET_FETCH, version, group_id=GROUP, topics=topics, require_stable=False
        )
        fetch = requests.read_fetch(asked, version)
        payload = answers.write_fetch(wire.ask(fetch), fetch, version)
        answer = response(ApiKey.OFFSET_FETCH, version, payload)

        if version == 1:
            codes = [each.error_code for each in answer.topics[0].partitions]
            assert codes == [ErrorCode.coordinator_not_available] * 2
        else:
            assert (answer.error_code, answer.topics) == (ErrorCode.coordinator_not_available, ())


def test_every_partition_is_asked_for_with_null() -> None:
    for version in range(2, 8):
        asked = request(
            ApiKey.OFFSET_FETCH, version, group_id=GROUP, topics=None, require_stable=False
        )
        assert requests.read_fetch(asked, 1).groups[0].partitions is None


def test_a_sync_of_version_5_must_say_what_it_synchronises() -> None:
    asked = request(
        ApiKey.SYNC_GROUP, 5, group_id=GROUP, generation_id=1, member_id="a", protocol_type=None,
        protocol_name="range", assignments=(),
    )  # fmt: skip

    assert requests.lacks_protocol(asked, 5)


def test_strings_that_no_record_can_hold_are_refused() -> None:
    with pytest.raises(InvalidFrame, match="32767 are allowed"):
        joined(Wire(), 9, member_id="é" * 16_384)

    protocol = part(ApiKey.JOIN_GROUP, 9, "JoinGroupRequestProtocol", name="range", metadata=b"")
    asked = request(
        ApiKey.JOIN_GROUP, 9, group_id=GROUP, session_timeout=10_000 * MS, member_id="",
        rebalance_timeout=1 * MS, protocol_type="consumer", protocols=(protocol,),
    )  # fmt: skip
    join = requests.read_join(asked, 1, 9, client_id="c" * 32_767, client_host="127.0.0.1")
    assert Wire().ask(join).error is ErrorCode.unknown_server_error
