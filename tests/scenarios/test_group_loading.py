"""Partitions of ``__consumer_offsets`` that come to this coordinator and leave it again."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH
from replica_manager.coordinators.groups.config import MAX_GROUPS_PER_INSTALL, GroupConfig
from replica_manager.coordinators.groups.events import (
    Elected,
    Loaded,
    LoadedBatch,
    LoadedRecord,
    LoadFailed,
    LoadFinished,
    Resigned,
    Shutdown,
    Tick,
    TransactionCompleted,
)
from replica_manager.coordinators.groups.records import (
    NO_TIMESTAMP,
    GroupRecord,
    MemberRecord,
    OffsetAndMetadata,
    SimpleRecord,
    encode_group_key,
    encode_group_value,
    encode_offset_key,
    encode_offset_value,
)
from replica_manager.coordinators.groups.requests import (
    DeleteGroups,
    DeleteGroupsResult,
    DeleteOffsets,
    DeleteOffsetsResult,
    DescribeGroups,
    DescribeGroupsResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    ListGroups,
    ListGroupsResult,
)
from tests.scenarios.group_world import GROUP, ORDERS_0, ORDERS_1, GroupWorld, subscription

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def partition_of(world: GroupWorld) -> int:
    return world.coordinator.partition_for(GROUP)


def offset_record(offset: int | None, partition: object = ORDERS_0) -> SimpleRecord:
    assert partition in (ORDERS_0, ORDERS_1)
    key = encode_offset_key(GROUP, ORDERS_0 if partition == ORDERS_0 else ORDERS_1)
    if offset is None:
        return SimpleRecord(key, None)
    return SimpleRecord(key, encode_offset_value(OffsetAndMetadata(offset, NO_EPOCH, "", 0), 3))


def group_record(*members: MemberRecord, generation_id: int = 4) -> SimpleRecord:
    group = GroupRecord(
        "consumer",
        generation_id,
        "range" if members else None,
        members[0].member_id if members else None,
        NO_TIMESTAMP,
        members,
    )
    return SimpleRecord(encode_group_key(GROUP), encode_group_value(group, 3))


def member(name: str, instance: str | None = None) -> MemberRecord:
    return MemberRecord(
        name, instance, name, "/127.0.0.1", 30_000, 10_000, subscription("orders"), name.encode()
    )


def world_with(*batches: tuple[SimpleRecord, ...]) -> GroupWorld:
    """A coordinator that has loaded these batches of the group's partition."""
    world = GroupWorld(partitions=())
    for batch in batches:
        world.write(partition_of(world), batch)
    world.step(Elected(partition_of(world), 3))
    return world


# ---------------------------------------------------------------------- moving


def test_a_group_moves_to_another_coordinator_and_its_members_go_on() -> None:
    old = GroupWorld()
    a, b = old.consumers("a", "b")
    old.stable(a, b)
    a.commit(17)

    new = GroupWorld(partitions=())
    new.now_ms = old.now_ms + 1_000
    new.log = old.log
    new.step(Elected(partition_of(new), 1))
    old.resign(GROUP)

    for each in (a, b):
        assert each.heartbeat() == "not_coordinator"
        each.world = new
    assert [a.heartbeat(), b.heartbeat()] == ["none", "none"]
    assert new.committed() == (17, "none")
    assert new.state == "Stable"
    assert [each.assignment for each in new.described.members] == [
        each.member_id.encode() for each in (a, b)
    ]
    assert a.commit(18) == "none"


def test_sessions_of_a_loaded_group_run_from_the_moment_it_is_loaded() -> None:
    world = world_with((group_record(member("a"), member("b")),))

    world.pass_ms(9_999)
    assert world.state == "Stable"
    world.pass_ms(1)
    assert world.state == "Empty"
    assert world.group.generation_id == 5


def test_each_member_of_a_loaded_group_is_named_in_the_log() -> None:
    world = world_with((group_record(member("a"), member("b", "one")),))

    [first, second] = [each for each in world.lines if "Loaded member" in each]
    rest = "sessionTimeoutMs=10000, rebalanceTimeoutMs=30000, supportedProtocols=List(range))"
    assert first == (
        "INFO Loaded member MemberMetadata(memberId=a, groupInstanceId=None, clientId=a,"
        f" clientHost=/127.0.0.1, {rest} in group {GROUP} with generation 4."
    )
    assert "groupInstanceId=Some(one)" in second
    assert world.lines.index(second) < world.lines.index(
        f"INFO [GroupCoordinator 1]: Loading group metadata for {GROUP} with generation 4"
    )


def test_a_waiting_member_is_sent_to_the_new_coordinator_when_the_group_moves() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a)
    b.join()
    a.join()
    a_is_leader = a.is_leader
    assert a_is_leader
    assert b.sync() == "waiting"
    world.resign(GROUP)

    assert b.sync_outcome == "not_coordinator"
    world.step(Elected(partition_of(world), 2))
    c.join()
    world.resign(GROUP, 3)
    assert c.join_outcome == "not_coordinator"
    assert world.unanswered == []


def test_an_append_that_ends_after_the_group_has_moved_is_still_answered() -> None:
    world = GroupWorld()
    world.is_holding_appends = True
    world.commit(5)
    world.resign(GROUP)

    world.finish_all(ErrorCode.not_leader_or_follower)

    assert world.outcome(1) == "not_coordinator"


def test_a_group_that_moves_leaves_no_timer_behind() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b)
    c.ask_to_join()
    assert world.coordinator.timer_count() == 4, "three sessions and the look for expired offsets"

    world.resign(GROUP)

    assert world.coordinator.timer_count() == 1


# ---------------------------------------------------------------------- while it is loaded


def test_what_is_answered_while_a_partition_is_being_loaded() -> None:
    world = GroupWorld(partitions=())
    world.is_holding_loads = True
    [a] = world.consumers("a")
    a.member_id, a.generation_id = "a-1", 4
    assert a.heartbeat() == "not_coordinator"

    world.step(Elected(partition_of(world), 3))

    loading = "coordinator_load_in_progress"
    assert a.join() == loading
    assert a.heartbeat() == "none"
    world.results[a.last_join] = type(a.joined)(ErrorCode.none, "a-1", 4, leader_id="a-1")
    assert a.sync() == "rebalance_in_progress"
    assert a.commit(1) == loading
    assert a.leave() == loading
    assert world.committed() == (-1, loading)
    assert world.described.error.name == loading
    assert world.ask(ListGroups(world.next_id()), ListGroupsResult).error.name == loading
    delete = DeleteGroups(world.next_id(), (GROUP,))
    assert world.ask(delete, DeleteGroupsResult).errors[GROUP].name == loading
    delete_offsets = DeleteOffsets(world.next_id(), GROUP, (ORDERS_0,))
    assert world.ask(delete_offsets, DeleteOffsetsResult).error.name == loading


def test_a_broker_that_is_not_the_coordinator_refuses_requests() -> None:
    world = GroupWorld()
    [a] = world.consumers("a")
    world.stable(a)
    world.resign(GROUP)

    elsewhere = "not_coordinator"
    delete = DeleteGroups(world.next_id(), (GROUP,))
    delete_offsets = DeleteOffsets(world.next_id(), GROUP, (ORDERS_0,))
    assert a.sync() == elsewhere
    assert a.heartbeat() == elsewhere
    assert a.commit(1) == elsewhere
    assert a.leave() == elsewhere
    assert world.committed() == (-1, elsewhere)
    assert world.described.error.name == elsewhere
    assert world.ask(delete, DeleteGroupsResult).errors[GROUP].name == elsewhere
    assert world.ask(delete_offsets, DeleteOffsetsResult).error.name == elsewhere
    assert world.ask(ListGroups(world.next_id()), ListGroupsResult).groups == ()
    assert a.join() == elsewhere
    assert world.unanswered == []


def test_groups_are_there_when_the_end_of_the_log_is_reached_and_not_before() -> None:
    world = GroupWorld(partitions=())
    world.is_holding_loads = True
    world.step(Elected(partition_of(world), 3))
    [load] = world.loads
    batch = LoadedBatch((LoadedRecord(0, *offset_record(7)),))

    world.step(Loaded(load.load_id, (batch,)))
    assert world.coordinator.groups == {}
    world.step(LoadFinished(load.load_id))

    assert world.committed() == (7, "none")


def test_many_groups_are_made_over_many_ticks_and_served_when_the_last_is_there() -> None:
    world = GroupWorld(partition_count=1, partitions=())
    count = 2 * MAX_GROUPS_PER_INSTALL + 1
    value = encode_offset_value(OffsetAndMetadata(7, NO_EPOCH, "", world.now_ms), 3)
    for i in range(count - 1):
        world.write(0, (SimpleRecord(encode_offset_key(f"group-{i}", ORDERS_0), value),))
    world.write(0, (SimpleRecord(encode_offset_key(GROUP, ORDERS_0), value),))
    world.pass_ms(1)
    world.step(Elected(0, 3))

    assert len(world.coordinator.groups) == MAX_GROUPS_PER_INSTALL
    assert world.committed() == (-1, "coordinator_load_in_progress")
    world.step(Tick())
    assert len(world.coordinator.groups) == 2 * MAX_GROUPS_PER_INSTALL
    world.step(Tick())
    assert len(world.coordinator.groups) == count
    assert world.committed() == (7, "none")

    world.step(Resigned(0, 4))
    world.step(Elected(0, 5))
    world.step(Resigned(0, 6))
    assert world.coordinator.groups == {}
    world.pass_ms(0)
    assert world.coordinator.timer_count() == 1


def test_a_load_that_is_not_wanted_any_more_has_no_effect() -> None:
    world = GroupWorld(partitions=())
    world.is_holding_loads = True
    partition = partition_of(world)
    world.step(Elected(partition, 3))
    world.step(Resigned(partition, 4))
    world.step(Elected(partition, 5))
    stale, current = world.loads
    batch = LoadedBatch((LoadedRecord(0, *offset_record(7)),))

    world.step(Loaded(stale.load_id, (batch,)))
    world.step(LoadFinished(stale.load_id))
    world.step(LoadFailed(stale.load_id, "the disk is gone"))
    assert world.committed() == (-1, "coordinator_load_in_progress")
    world.step(LoadFinished(current.load_id))

    assert world.committed() == (-1, "none")


def test_elections_and_resignations_of_an_older_epoch_are_ignored() -> None:
    world = GroupWorld(partitions=())
    partition = partition_of(world)
    world.step(Elected(partition, 5))

    world.step(Resigned(partition, 4))
    assert world.committed() == (-1, "none")
    world.step(Resigned(partition, 6))
    world.step(Elected(partition, 5))
    assert world.committed() == (-1, "not_coordinator")
    world.step(Elected(partition, 7))
    assert world.committed() == (-1, "none")
    world.step(Resigned(partition, None))
    assert world.committed() == (-1, "not_coordinator"), "the replica is deleted"


def test_a_leader_that_is_elected_again_keeps_what_it_has() -> None:
    world = GroupWorld()
    world.commit(3)
    world.log.clear()

    world.step(Elected(partition_of(world), 9))

    assert world.committed() == (3, "none")


def test_a_log_that_cannot_be_read_is_not_served_as_if_it_were_empty() -> None:
    world = GroupWorld(partitions=())
    world.is_holding_loads = True
    world.step(Elected(partition_of(world), 3))

    world.step(LoadFailed(world.loads[0].load_id, "the disk is gone"))

    assert world.committed() == (-1, "not_coordinator")
    assert any("the disk is gone" in line for line in world.lines)


# ---------------------------------------------------------------------- what is in the log


def test_the_last_record_of_a_key_counts_and_a_tombstone_ends_it() -> None:
    world = world_with(
        (offset_record(1), offset_record(2, ORDERS_1)),
        (offset_record(3),),
        (offset_record(None, ORDERS_1),),
    )

    assert (world.committed(), world.committed(ORDERS_1)) == ((3, "none"), (-1, "none"))
    assert world.state == "Empty"


def test_a_group_that_was_removed_and_came_back_as_a_simple_one_is_simple() -> None:
    world = world_with(
        (group_record(member("a")),),
        (SimpleRecord(encode_group_key(GROUP), None),),
        (offset_record(3),),
    )

    assert world.state == "Empty"
    assert world.described.protocol_type == ""
    assert world.committed() == (3, "none")


def test_offsets_of_a_transaction_count_from_its_commit_on() -> None:
    world = GroupWorld(partitions=())
    partition = partition_of(world)
    transactional = {"is_transactional": True}
    world.write(partition, (offset_record(1),))
    world.write(partition, (offset_record(2),), producer_id=70, **transactional)
    world.write(partition, (offset_record(3),), producer_id=71, **transactional)
    world.write(partition, (offset_record(4, ORDERS_1),), producer_id=72, **transactional)
    world.write(
        partition, (SimpleRecord(COMMIT, b""),), producer_id=70, is_control=True, **transactional
    )
    world.write(
        partition, (SimpleRecord(ABORT, b""),), producer_id=71, is_control=True, **transactional
    )
    world.write(
        partition, (SimpleRecord(COMMIT, b""),), producer_id=99, is_control=True, **transactional
    )
    world.step(Elected(partition, 0))

    assert world.committed(stable=True) == (2, "none")
    assert world.committed(ORDERS_1) == (-1, "none"), "its transaction is open"
    assert world.committed(ORDERS_1, stable=True) == (-1, "unstable_offset_commit")

    world.step(TransactionCompleted(72, frozenset({partition}), is_commit=True))
    assert world.committed(ORDERS_1, stable=True) == (4, "none")


def test_a_commit_behind_the_offset_of_a_transaction_wins_over_it() -> None:
    world = GroupWorld(partitions=())
    partition = partition_of(world)
    world.write(partition, (offset_record(1),), producer_id=70, is_transactional=True)
    world.write(partition, (offset_record(2),))
    world.write(partition, (SimpleRecord(COMMIT, b""),), producer_id=70, is_control=True)
    world.step(Elected(partition, 0))

    assert world.committed() == (2, "none")


def test_an_aborted_transaction_leaves_the_group_without_anything() -> None:
    world = GroupWorld(partitions=())
    partition = partition_of(world)
    world.write(partition, (offset_record(1),), producer_id=70, is_transactional=True)
    world.step(Elected(partition, 0))
    assert world.committed(stable=True) == (-1, "unstable_offset_commit")

    world.step(TransactionCompleted(70, frozenset({partition}), is_commit=False))

    assert world.committed(stable=True) == (-1, "none")
    world.pass_ms(1_200_000)
    assert world.coordinator.groups == {}


@pytest.mark.parametrize(
    "bad",
    [
        SimpleRecord(b"\0\1\0\x09short", b""),
        SimpleRecord(b"", b""),
        SimpleRecord(encode_offset_key(GROUP, ORDERS_1), b"\0\x63"),
        SimpleRecord(b"\0\x08\0\1x", b"of a later coordinator"),
        SimpleRecord(encode_group_key(GROUP), b"\0\x63"),
        group_record(member("a"), member("a")),
        group_record(member("a", "i"), member("b", "i")),
    ],
    ids=["cut key", "no key", "unknown offset version", "unknown key version",
         "unknown group version", "two members of one id", "two members of one instance"],
)  # fmt: skip
def test_a_record_that_cannot_be_read_costs_nothing_but_itself(bad: SimpleRecord) -> None:
    world = world_with((offset_record(5),), (bad,), (offset_record(6, ORDERS_1),))

    assert (world.committed(), world.committed(ORDERS_1)) == ((5, "none"), (6, "none"))
    assert world.state == "Empty"
    passed_over = [line for line in world.lines if line.startswith(("ERROR", "WARN"))]
    assert len(passed_over) == 1


def test_a_record_without_a_key_is_passed_over() -> None:
    world = GroupWorld(partitions=())
    world.log[partition_of(world)] = [
        LoadedBatch((LoadedRecord(0, None, b""), LoadedRecord(1, *offset_record(5)))),
        LoadedBatch((), producer_id=7, is_control=True),
        LoadedBatch((LoadedRecord(3, b"\0", b""),), producer_id=7, is_control=True),
    ]
    world.step(Elected(partition_of(world), 0))

    assert world.committed() == (5, "none")


def test_a_leader_that_is_no_member_is_replaced() -> None:
    group = GroupRecord("consumer", 4, "range", "gone", NO_TIMESTAMP, (member("a"),))
    record = SimpleRecord(encode_group_key(GROUP), encode_group_value(group, 3))
    world = world_with((record,))

    assert world.group.leader_id == "a"


def test_a_loaded_group_with_too_many_members_is_rebalanced_to_its_size() -> None:
    world = GroupWorld(GroupConfig(max_size=1), partitions=())
    world.write(partition_of(world), (group_record(member("a"), member("b")),))
    world.step(Elected(partition_of(world), 0))
    assert world.state == "PreparingRebalance"

    a, b = world.consumers("a", "b")
    a.member_id, b.member_id = "a", "b"
    assert a.join() == "waiting"
    assert b.join() == "group_max_size_reached"

    assert a.join_outcome == "none"
    assert [*world.group.members] == ["a"]


# ---------------------------------------------------------------------- the broker's life


def test_nothing_is_answered_before_the_coordinator_is_there_and_after_it_has_gone() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.join()

    world.step(Shutdown())

    assert b.join_outcome == "coordinator_not_available"
    assert a.heartbeat() == "coordinator_not_available"
    assert world.committed() == (-1, "coordinator_not_available")
    listed = world.ask(ListGroups(world.next_id()), ListGroupsResult)
    assert (listed.error.name, listed.groups) == ("coordinator_not_available", ())
    assert world.coordinator.timer_count() == 0
    assert world.unanswered == []


def test_an_empty_group_id_is_for_offsets_and_tools_only() -> None:
    world = GroupWorld()
    leave = LeaveGroup(world.next_id(), "", (LeavingMember("a"),))
    assert world.ask(leave, LeaveResult).error.name == "invalid_group_id"
    describe = DescribeGroups(world.next_id(), ("",))
    assert world.ask(describe, DescribeGroupsResult).groups[0].state == "Dead"
    delete = DeleteGroups(world.next_id(), ("",))
    assert world.ask(delete, DeleteGroupsResult).errors[""].name == "group_id_not_found"
    delete_offsets = DeleteOffsets(world.next_id(), "", (ORDERS_0,))
    assert world.ask(delete_offsets, DeleteOffsetsResult).error.name == "invalid_group_id"
    assert world.commit(4, group_id="") == "none"
