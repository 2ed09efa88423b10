"""Members one by one: ids that are given out, sessions, leaving, and what tools are shown."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups import joining
from replica_manager.coordinators.groups.config import GroupConfig
from replica_manager.coordinators.groups.requests import (
    DescribedGroup,
    DescribeGroups,
    DescribeGroupsResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
    ListGroups,
    ListGroupsResult,
)
from tests.scenarios.group_world import GROUP, Consumer, GroupWorld, subscription


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def test_a_dynamic_member_is_given_an_id_and_has_to_come_again(world: GroupWorld) -> None:
    [a] = world.consumers("a")

    assert a.ask_to_join() == "member_id_required"
    a.member_id = a.joined.member_id
    assert a.member_id == "a-00000000-0000-0000-0000-000000000001"
    assert world.state == "Empty"

    assert a.ask_to_join() == "waiting"
    assert world.state == "PreparingRebalance"


def test_an_older_dynamic_member_joins_at_once(world: GroupWorld) -> None:
    a = Consumer(world, "a", version=3)

    assert a.ask_to_join() == "waiting"
    world.pass_until_joined(a)
    assert a.joined.member_id.startswith("a-")


@pytest.mark.parametrize("timeout_ms", [5_999, 1_800_001])
def test_a_session_timeout_outside_of_the_bounds_is_refused(
    world: GroupWorld, timeout_ms: int
) -> None:
    [a] = world.consumers("a")
    a.session_timeout_ms = timeout_ms

    assert a.join() == "invalid_session_timeout"
    assert world.coordinator.groups == {}


def test_an_unknown_member_is_refused(world: GroupWorld) -> None:
    [a] = world.consumers("a")
    a.member_id = "somebody"

    assert a.join() == "unknown_member_id"
    assert world.coordinator.groups == {}
    [b] = world.consumers("b")
    world.stable(b)
    assert a.join() == "unknown_member_id"


def test_a_rebalance_waits_for_a_client_with_a_pending_id(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.ask_to_join()
    assert world.state == "Stable"

    assert a.join() == "waiting", "b may come any moment"

    b.member_id = b.joined.member_id
    b.ask_to_join()
    assert (a.join_outcome, b.join_outcome) == ("none", "none")


def test_a_rebalance_goes_on_when_the_one_with_an_id_leaves(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.ask_to_join()
    a.join()

    b.member_id = b.joined.member_id
    assert b.leave() == "none"

    assert a.join_outcome == "none"


def test_a_rebalance_goes_on_when_the_one_with_an_id_stays_away(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.ask_to_join()
    a.join()

    world.pass_ms(10_000)

    assert a.join_outcome == "none"
    b.member_id = b.joined.member_id
    assert b.ask_to_join() == "unknown_member_id"


def test_ids_that_are_given_out_are_bounded_and_the_oldest_is_forgotten(
    world: GroupWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(joining, "MAX_PENDING_MEMBERS", 2)
    a, b, c = world.consumers("a", "b", "c")
    for each in (a, b, c):
        each.ask_to_join()
        each.member_id = each.joined.member_id

    assert a.ask_to_join() == "unknown_member_id"
    assert (b.ask_to_join(), c.ask_to_join()) == ("waiting", "waiting")
    assert world.coordinator.timer_count() == 4


def test_heartbeats_tell_members_where_they_stand(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    a.member_id = "nobody"
    assert a.heartbeat() == "unknown_member_id", "there is no group"
    a.member_id = ""
    world.stable(a)

    assert a.heartbeat() == "none"
    a.generation_id = 7
    assert a.heartbeat() == "illegal_generation"
    a.generation_id = 1
    b.join()
    assert a.heartbeat() == "rebalance_in_progress"
    a.leave()
    b.leave()
    assert a.heartbeat() == "unknown_member_id"


def test_heartbeats_keep_a_member_alive_before_it_has_synchronised(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    for each in (a, b):
        each.rebalance_timeout_ms = 120_000
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    b.sync()

    for _ in range(9):
        world.pass_ms(9_000)
        assert a.heartbeat() == "none"
    assert a.sync() == "none"
    assert b.sync_outcome == "none", "whoever is parked has no session that could end"
    world.pass_ms(9_000)
    assert b.heartbeat() == "none"


def test_a_generation_or_protocol_that_is_not_the_groups_gets_no_assignment(
    world: GroupWorld,
) -> None:
    [a] = world.consumers("a")
    a.join()
    world.pass_until_joined(a)

    a.generation_id = 9
    assert a.sync() == "illegal_generation"
    a.generation_id = 1
    a.protocol_type = "connect"
    assert a.sync() == "inconsistent_group_protocol"


def test_many_leave_at_once_and_each_has_its_outcome(world: GroupWorld) -> None:
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b)
    c.ask_to_join()
    members = (a.member_id, "nobody", c.joined.member_id)

    request = LeaveGroup(world.next_id(), GROUP, tuple(map(LeavingMember, members)))
    result = world.ask(request, LeaveResult)

    assert result.error.name == "none"
    assert [(each.member_id, each.error.name) for each in result.members] == list(
        zip(members, ["none", "unknown_member_id", "none"], strict=True)
    )
    assert b.join() == "none"


def test_leaving_a_group_that_does_not_exist_is_an_error_of_each_member(world: GroupWorld) -> None:
    request = LeaveGroup(world.next_id(), GROUP, (LeavingMember("a"), LeavingMember("b")))

    result = world.ask(request, LeaveResult)

    assert result.error.name == "none"
    assert [each.error.name for each in result.members] == ["unknown_member_id"] * 2


def test_a_group_that_members_could_not_enter_is_removed_with_the_next_look() -> None:
    world = GroupWorld(GroupConfig(offsets_retention_check_interval_ms=1_000))
    [a] = world.consumers("a")
    a.protocols = ()
    assert a.join() == "inconsistent_group_protocol"
    assert list(world.coordinator.groups) == [GROUP]

    world.pass_ms(1_000)

    assert world.coordinator.groups == {}
    assert list(world.records) == []


def test_a_group_is_kept_for_a_client_with_a_pending_id() -> None:
    world = GroupWorld(GroupConfig(offsets_retention_check_interval_ms=1_000))
    [a, b] = world.consumers("a", "b")
    a.ask_to_join()
    a.member_id = a.joined.member_id
    world.pass_ms(5_000)

    assert a.ask_to_join() == "waiting"

    a.leave()
    b.ask_to_join()
    world.pass_ms(30_000)
    assert world.coordinator.groups == {}, "but not for ever"


# ---------------------------------------------------------------------- tools


def test_a_list_is_filtered_by_state_and_type_in_any_case(world: GroupWorld) -> None:
    [a] = world.consumers("a")
    world.stable(a)
    world.commit(1, group_id="simple")

    def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        return list(world.ask(ListGroups(world.next_id(), states, types), ListGroupsResult).groups)

    billing = (GROUP, "consumer", "Stable", "classic")
    simple = ("simple", "", "Empty", "classic")
    assert listed() == [billing, simple]
    assert listed(("STABLE",)) == [billing]
    assert listed(("empty", "Dead")) == [simple]
    assert listed(types=("Classic",)) == [billing, simple]
    assert listed(types=("consumer",)) == []
    assert listed(("NoSuchState",)) == []


def test_a_description_shows_metadata_only_while_the_group_is_stable(world: GroupWorld) -> None:
    a, b = world.consumers("a", "b")
    world.stable(a)

    shown = world.described
    assert (shown.state, shown.protocol_type, shown.protocol_name) == (
        "Stable",
        "consumer",
        "range",
    )
    [member] = shown.members
    assert (member.client_id, member.client_host) == ("a", "/127.0.0.1")
    assert (member.metadata, member.assignment) == (subscription("orders"), a.member_id.encode())

    b.join()
    shown = world.described
    assert (shown.state, shown.protocol_name) == ("PreparingRebalance", "")
    assert [(each.metadata, each.assignment) for each in shown.members] == [(b"", b"")] * 2


def test_a_group_that_does_not_exist_is_dead_which_is_no_error(world: GroupWorld) -> None:
    request = DescribeGroups(world.next_id(), ("nobody",))

    [shown] = world.ask(request, DescribeGroupsResult).groups

    assert shown == DescribedGroup("nobody", ErrorCode.none, "Dead")
