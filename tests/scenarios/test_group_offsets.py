"""Offsets of groups: who may commit, what readers see, and when offsets and groups expire."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.coordinators.groups.config import MAX_GROUPS_PER_SWEEP, GroupConfig
from replica_manager.coordinators.groups.events import PartitionsDeleted, Tick
from replica_manager.coordinators.groups.records import GroupKey, OffsetKey
from replica_manager.coordinators.groups.requests import (
    CommitOffsets,
    CommitResult,
    CommittedOffset,
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    FetchOffsets,
    FetchResult,
    WantedOffsets,
)
from tests.scenarios.group_world import GROUP, ORDERS_0, ORDERS_1, GroupWorld, subscription

PAYMENTS_0 = TopicPartition("payments", 0)
DAY_MS = 24 * 60 * 60 * 1000


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def deleted(world: GroupWorld, *partitions: TopicPartition) -> tuple[str, list[str]]:
    request = DeleteOffsets(world.next_id(), GROUP, partitions)
    result = world.ask(request, DeleteOffsetsResult)
    return result.error.name, [error.name for error in result.partitions.values()]


# ---------------------------------------------------------------------- who may commit


def test_a_consumer_without_a_group_commits_and_reads(world: GroupWorld) -> None:
    assert world.commit(42) == "none"

    assert world.committed() == (42, "none")
    assert world.committed(ORDERS_1) == (-1, "none")
    assert (world.state, world.described.protocol_type) == ("Empty", "")


def test_a_member_commits_in_its_generation_only(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)
    assert a.commit(1) == "none"

    a.generation_id = 0
    assert a.commit(2) == "illegal_generation"
    a.generation_id = 1
    assert b.commit(3) == "unknown_member_id"
    assert world.commit(4) == "unknown_member_id", "the group has members"
    assert world.committed() == (1, "none")


def test_a_commit_for_a_generation_of_an_unknown_group_is_old(world: GroupWorld) -> None:
    assert world.commit(1, generation_id=3, member_id="a-1") == "illegal_generation"


def test_a_member_may_commit_while_others_join_and_not_while_the_assignment_is_made(
    world: GroupWorld,
) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.join()

    world.pass_ms(9_000)
    assert a.commit(7) == "none"
    world.pass_ms(9_000)
    assert a.heartbeat() == "rebalance_in_progress", "the commit was a sign of life"

    a.join()
    assert a.joined.generation_id == 2
    assert a.commit(8) == "rebalance_in_progress"
    assert world.committed() == (7, "none")


def test_a_member_that_left_cannot_commit(world: GroupWorld) -> None:
    [a] = world.consumers("a")
    world.stable(a)
    a.leave()

    assert a.commit(5) == "unknown_member_id"
    assert world.commit(5) == "none", "the group is Empty now"


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(world: GroupWorld) -> None:
    longest, too_long = "\U0001f600" * 2048, "x" * 4097
    offsets = {
        ORDERS_0: CommittedOffset(1, metadata=longest),
        ORDERS_1: CommittedOffset(2, metadata=too_long),
    }
    result = world.ask(CommitOffsets(world.next_id(), GROUP, offsets), CommitResult)

    assert [error.name for error in result.errors.values()] == ["none", "offset_metadata_too_large"]
    assert list(result.errors) == [ORDERS_0, ORDERS_1]
    assert (world.committed()[0], world.committed(ORDERS_1)[0]) == (1, -1)

    only_long = {ORDERS_1: CommittedOffset(2, metadata=too_long)}
    result = world.ask(CommitOffsets(world.next_id(), GROUP, only_long), CommitResult)
    assert result.errors[ORDERS_1] is ErrorCode.offset_metadata_too_large


# ---------------------------------------------------------------------- what readers see


def test_an_offset_is_shown_when_it_stands_in_the_log(world: GroupWorld) -> None:
    world.commit(1)
    world.is_holding_appends = True

    assert world.commit(2) == "waiting"
    assert world.committed() == (1, "none")
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")

    world.finish_all()
    assert world.committed(stable=True) == (2, "none")
    assert world.unanswered == []


def test_of_two_commits_the_later_one_in_the_log_wins_whichever_is_acknowledged_first(
    world: GroupWorld,
) -> None:
    world.is_holding_appends = True
    world.commit(1)
    world.commit(2)
    first, second = world.appends

    world.finish(second)
    world.finish(first)

    assert world.committed(stable=True) == (2, "none")


@pytest.mark.parametrize(
    ("of_the_log", "told"),
    [
        ("unknown_topic_or_partition", "coordinator_not_available"),
        ("not_enough_replicas", "coordinator_not_available"),
        ("not_leader_or_follower", "not_coordinator"),
        ("kafka_storage_error", "not_coordinator"),
        ("message_too_large", "invalid_commit_offset_size"),
        ("record_list_too_large", "invalid_commit_offset_size"),
        ("invalid_fetch_size", "invalid_commit_offset_size"),
        ("request_timed_out", "request_timed_out"),
    ],
)
def test_an_offset_that_cannot_be_written_is_as_if_it_had_never_been(
    world: GroupWorld, of_the_log: str, told: str
) -> None:
    world.commit(1)
    world.append_error = ErrorCode[of_the_log]

    assert world.commit(2) == told
    assert world.committed(stable=True) == (1, "none")


def test_a_read_names_partitions_or_wants_them_all(world: GroupWorld) -> None:
    world.commit(1)
    world.commit(2, ORDERS_1)

    wanted = (WantedOffsets(GROUP), WantedOffsets("nobody"), WantedOffsets("nobody", (ORDERS_0,)))
    every, nothing, unknown = world.ask(FetchOffsets(world.next_id(), wanted), FetchResult).groups

    assert {each: found.offset for each, found in every.partitions.items()} == {
        ORDERS_0: 1,
        ORDERS_1: 2,
    }
    assert nothing.partitions == {}
    assert unknown.partitions[ORDERS_0].offset == -1
    assert unknown.error is ErrorCode.none


def test_leader_epoch_metadata_and_times_are_kept(world: GroupWorld) -> None:
    offsets = {ORDERS_0: CommittedOffset(9, 4, "note", 1_234)}
    world.ask(CommitOffsets(world.next_id(), GROUP, offsets), CommitResult)

    fetched = world.ask(
        FetchOffsets(world.next_id(), (WantedOffsets(GROUP),)), FetchResult
    ).groups[0].partitions[ORDERS_0]  # fmt: skip
    assert (fetched.leader_epoch, fetched.metadata) == (4, "note")
    [logged] = world.logged_offsets()
    assert logged is not None
    assert (logged.commit_timestamp_ms, logged.expire_timestamp_ms) == (1_234, None)


# ---------------------------------------------------------------------- expiry


def test_offsets_of_an_empty_group_expire_together_and_the_group_with_them(
    world: GroupWorld,
) -> None:
    [a] = world.consumers("a")
    world.stable(a)
    a.commit(1)
    a.commit(2, ORDERS_1)
    for _ in range(7 * 24 * 60):
        world.pass_ms(60_000 // 7)
        a.heartbeat()
    a.leave()

    world.pass_ms(7 * DAY_MS - 600_000)
    assert world.committed() == (1, "none"), "the time counts from when it became Empty"

    world.pass_ms(1_200_000)
    assert world.state == "Dead"
    assert world.live_keys == []
    assert world.coordinator.groups == {}


def test_offsets_of_a_group_that_never_had_members_expire_one_by_one(world: GroupWorld) -> None:
    world.commit(1)
    world.pass_ms(3 * DAY_MS)
    world.commit(2, ORDERS_1)

    world.pass_ms(4 * DAY_MS + 600_000)
    assert (world.committed(), world.committed(ORDERS_1)) == ((-1, "none"), (2, "none"))
    assert world.live_keys == [OffsetKey(GROUP, ORDERS_1)]

    world.pass_ms(3 * DAY_MS)
    assert world.state == "Dead"
    assert world.live_keys == []
    written = {record.key for record in world.records}
    assert len(written) == 2, "no tombstone for a group that has no record"


def test_a_stable_group_keeps_the_offsets_of_topics_it_consumes() -> None:
    world = GroupWorld(GroupConfig(offsets_retention_ms=DAY_MS))
    [a] = world.consumers("a")
    world.stable(a)
    a.commit(1)
    a.commit(2, PAYMENTS_0)

    for _ in range(200):
        world.pass_ms(9_000)
        a.heartbeat()
    assert world.committed(PAYMENTS_0) == (2, "none")
    a.session_timeout_ms = 1_800_000
    a.join()
    a.sync()
    for _ in range(60):
        world.pass_ms(1_700_000)
        assert a.heartbeat() == "none"

    assert world.committed() == (1, "none")
    assert world.committed(PAYMENTS_0) == (-1, "none")
    assert OffsetKey(GROUP, PAYMENTS_0) not in world.live_keys


def test_unreadable_metadata_keeps_every_offset() -> None:
    world = GroupWorld(GroupConfig(offsets_retention_ms=DAY_MS))
    [a] = world.consumers("a")
    a.protocols = (a.protocols[0]._replace(metadata=b"?"),)
    a.session_timeout_ms = 1_800_000
    world.stable(a)
    a.commit(2, PAYMENTS_0)

    for _ in range(60):
        world.pass_ms(1_700_000)
        a.heartbeat()

    assert world.committed(PAYMENTS_0) == (2, "none")
    assert deleted(world, PAYMENTS_0) == ("none", ["group_subscribed_to_topic"])


def test_a_retention_the_client_asked_for_is_kept(world: GroupWorld) -> None:
    assert world.commit(1, retention_ms=DAY_MS) == "none"
    assert world.commit(2, ORDERS_1, retention_ms=30 * DAY_MS) == "none"

    [logged, _] = world.logged_offsets()
    assert logged is not None
    assert logged.expire_timestamp_ms == world.now_ms + DAY_MS

    world.pass_ms(DAY_MS - 1)
    assert world.committed() == (1, "none")
    world.pass_ms(600_001)
    assert world.committed() == (-1, "none")
    world.pass_ms(20 * DAY_MS)
    assert world.committed(ORDERS_1) == (2, "none")


def test_an_offset_that_is_committed_anew_does_not_expire_meanwhile(world: GroupWorld) -> None:
    world.commit(1, retention_ms=0)
    world.is_holding_appends = True
    world.commit(2)

    world.pass_ms(1_200_000)
    assert world.committed() == (1, "none")

    world.finish_all()
    assert world.committed() == (2, "none")


def test_a_look_at_many_groups_is_spread_over_many_ticks() -> None:
    world = GroupWorld(GroupConfig(offsets_retention_ms=1_000))
    count = 2 * MAX_GROUPS_PER_SWEEP + 1
    for i in range(count):
        request = CommitOffsets(world.next_id(), f"group-{i}", {ORDERS_0: CommittedOffset(i)})
        world.ask(request, CommitResult)
    world.pass_ms(600_000 - 1)

    world.now_ms += 1
    world.step(Tick())
    assert len(world.coordinator.groups) == count - MAX_GROUPS_PER_SWEEP
    world.pass_ms(0)
    assert world.coordinator.groups == {}
    assert any(f"Removed {count} expired offsets" in line for line in world.lines)
    assert world.coordinator.next_deadline_ms == world.now_ms + 600_000


# ---------------------------------------------------------------------- deletion


def test_an_empty_group_is_deleted_with_its_offsets(world: GroupWorld) -> None:
    [a] = world.consumers("a")
    world.stable(a)
    a.commit(1)

    def delete(*groups: str) -> list[str]:
        request = DeleteGroups(world.next_id(), groups)
        result = world.ask(request, DeleteGroupsResult)
        return [result.errors[each].name for each in groups]

    assert delete(GROUP, "nobody") == ["non_empty_group", "group_id_not_found"]
    a.leave()
    assert world.live_keys == [GroupKey(GROUP), OffsetKey(GROUP, ORDERS_0)]

    assert delete(GROUP, GROUP) == ["none", "none"]
    assert world.live_keys == []
    assert delete(GROUP) == ["group_id_not_found"]


def test_a_commit_under_way_does_not_outlive_its_group(world: GroupWorld) -> None:
    world.is_holding_appends = True
    world.commit(1)

    world.ask(DeleteGroups(world.next_id(), (GROUP,)), DeleteGroupsResult)
    world.finish_all()

    assert world.outcome(1) == "none"
    assert world.committed() == (-1, "none")
    assert world.live_keys == []


def test_offsets_are_deleted_unless_a_member_may_consume_them(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    b.protocols = (b.protocols[0]._replace(metadata=subscription("shipments")),)
    world.stable(a, b)
    a.commit(1)
    a.commit(2, PAYMENTS_0)

    shipments = TopicPartition("shipments", 0)
    assert deleted(world, ORDERS_0, PAYMENTS_0, shipments) == (
        "none", ["group_subscribed_to_topic", "group_subscribed_to_topic", "none"],
    )  # fmt: skip
    assert world.committed(PAYMENTS_0) == (-1, "none")
    assert world.committed() == (1, "none")

    a.leave()
    b.leave()
    world.pass_ms(60_000)
    assert deleted(world, ORDERS_0) == ("none", ["none"])
    assert world.state == "Dead", "an Empty group without offsets is removed"
    assert deleted(world, ORDERS_0) == ("group_id_not_found", [])


def test_offsets_of_another_protocol_type_are_not_deleted_while_it_has_members(
    world: GroupWorld,
) -> None:
    [a] = world.consumers("a")
    a.protocol_type = "connect"
    world.stable(a)

    assert deleted(world, ORDERS_0) == ("non_empty_group", [])


@pytest.mark.parametrize("others", [0, 100])
def test_offsets_of_a_deleted_topic_vanish_from_every_group(world: GroupWorld, others: int) -> None:
    [a] = world.consumers("a")
    world.stable(a)
    a.commit(1)
    a.commit(2, PAYMENTS_0)
    world.is_holding_appends = True
    late = a.commit(3)
    assert late == "waiting"

    elsewhere = [TopicPartition("elsewhere", each) for each in range(others)]
    world.step(PartitionsDeleted((ORDERS_0, ORDERS_1, *elsewhere)))
    world.finish_all()

    assert world.committed() == (-1, "none"), "a late acknowledgement does not bring it back"
    assert world.committed(PAYMENTS_0) == (2, "none")
