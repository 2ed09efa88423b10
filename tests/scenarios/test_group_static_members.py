"""Static members: restarts that no one else notices, and doubles that are fenced."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.protocol.inter_broker_versions import version_of
from replica_manager.coordinators.groups.config import GroupConfig
from replica_manager.coordinators.groups.requests import (
    JoinResult,
    LeaveGroup,
    LeaveResult,
    LeavingMember,
)
from tests.scenarios.group_world import GROUP, Consumer, GroupWorld


@pytest.fixture
def world() -> GroupWorld:
    return GroupWorld()


def restarted(consumer: Consumer) -> Consumer:
    """The same instance in a new process, which does not know its member id."""
    return Consumer(
        consumer.world, consumer.name, instance=consumer.instance, version=consumer.version
    )


def test_a_static_follower_bounces_without_a_rebalance(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    old = b.synced.assignment

    again = restarted(b)
    assert again.join() == "none"

    assert again.joined.generation_id == 1
    assert again.member_id not in ("", b.member_id)
    assert again.joined.members == ()
    assert again.sync() == "none"
    assert again.synced.assignment == old
    assert a.heartbeat() == "none"
    assert world.logged_group() == (1, a.member_id, [a.member_id, again.member_id])


def test_a_static_leader_bounces_and_gets_the_flag_to_skip_the_assignment(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)

    again = restarted(a)
    again.join()

    assert again.is_leader
    assert again.joined.skip_assignment
    assert len(again.joined.members) == 2
    assert b.heartbeat() == "none"


def test_an_older_static_leader_gets_its_old_id_so_that_it_does_not_assign(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    a.version = 8
    world.stable(a, b)

    again = restarted(a)
    again.join()

    assert again.joined.leader_id == a.member_id
    assert not again.is_leader
    assert (again.joined.members, again.joined.skip_assignment) == ((), False)
    assert world.group.leader_id == again.member_id


def test_a_client_with_the_old_id_of_an_instance_is_fenced(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    restarted(b).join()

    assert b.heartbeat() == "fenced_instance_id"
    assert b.sync() == "fenced_instance_id"
    assert b.commit(5) == "fenced_instance_id"
    assert b.join() == "fenced_instance_id"
    assert b.leave() == "fenced_instance_id"
    assert world.state == "Stable"


def test_an_unknown_instance_is_no_member(world: GroupWorld) -> None:
    [a] = world.static_consumers("a")
    world.stable(a)

    a.instance = "instance-of-nobody"

    assert a.heartbeat() == "unknown_member_id"
    assert a.sync() == "unknown_member_id"
    assert a.commit(5) == "unknown_member_id"
    assert a.leave() == "unknown_member_id"


def test_a_restart_during_the_joining_fences_the_one_who_waits(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    [c] = world.consumers("c")
    c.join()
    assert b.join() == "waiting"

    again = restarted(b)
    assert again.join() == "waiting"

    assert b.join_outcome == "fenced_instance_id"
    assert a.join() == "none"
    assert again.joined.generation_id == 2


def test_a_restart_while_the_assignment_is_awaited_begins_another_rebalance(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    assert b.sync() == "waiting"

    again = restarted(b)
    assert again.join() == "waiting"

    assert b.sync_outcome == "fenced_instance_id"
    assert a.sync() == "rebalance_in_progress"
    assert a.join() == "none"
    assert again.joined.generation_id == 2


def test_a_restart_with_other_protocols_rebalances_when_that_changes_the_choice(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    [spare] = a.protocols
    a.protocols = b.protocols = (spare, spare._replace(name="sticky"))
    world.stable(a, b)

    again = restarted(b)
    again.protocols = (spare._replace(name="sticky"),)
    assert again.join() == "waiting"

    assert a.heartbeat() == "rebalance_in_progress"
    assert a.join() == "none"
    assert a.joined.protocol_name == "sticky"


def test_a_restart_that_cannot_be_written_leaves_the_member_what_it_was(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    world.append_error = ErrorCode.not_enough_replicas

    again = restarted(a)
    again.protocols = (again.protocols[0], again.protocols[0]._replace(name="sticky"))
    assert again.join() == "coordinator_not_available"

    assert again.joined.leader_id == a.member_id
    assert again.joined.member_id == ""
    assert world.group.leader_id == a.member_id
    assert a.heartbeat() == "none"
    assert world.group.members[a.member_id].protocols == a.protocols
    assert world.unanswered == []


def test_a_rebalance_during_the_write_of_a_restart_answers_it(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    world.is_holding_appends = True
    again = restarted(b)
    assert again.join() == "waiting"

    a.join()
    assert (a.join_outcome, again.join_outcome) == ("none", "none")
    world.finish_all(ErrorCode.not_enough_replicas)

    assert again.joined.generation_id == 2
    assert again.heartbeat() == "none"
    assert world.unanswered == []


def test_a_second_restart_during_the_write_of_the_first_fences_it(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    world.is_holding_appends = True

    first, second = restarted(b), restarted(b)
    first.join()
    second.join()
    assert first.join_outcome == "fenced_instance_id"
    world.finish_all()

    assert second.join_outcome == "none"
    assert second.heartbeat() == "none"
    assert world.unanswered == []


def test_a_restart_that_cannot_be_written_does_not_undo_the_one_after_it(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    world.is_holding_appends = True
    first, second = restarted(b), restarted(b)
    first.join()
    second.join()

    world.finish(world.appends[0], ErrorCode.request_timed_out)
    assert second.join_outcome == "waiting"
    world.finish_all()

    assert second.join_outcome == "none"
    assert second.heartbeat() == "none"
    assert world.group.static_members["instance-b"] == second.member_id


def test_a_static_member_that_is_away_is_kept_until_its_session_ends(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    a.session_timeout_ms = b.session_timeout_ms = 60_000
    world.stable(a, b)
    [c] = world.consumers("c")

    c.join()
    a.join()
    world.pass_ms(30_000)
    assert len(a.joined.members) == 3, "the rebalance timeout removes dynamic members only"
    a.sync()
    c.sync()

    world.pass_ms(5_000)
    assert a.heartbeat() == "none"
    world.pass_ms(55_000)
    assert b.heartbeat() in ("unknown_member_id", "illegal_generation")


def test_a_restart_that_has_not_synchronised_is_waited_for_under_its_new_id(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    a.sync()

    again = restarted(b)
    again.join()
    assert again.sync() == "none"
    for _ in range(5):
        world.pass_ms(9_000)
        assert (a.heartbeat(), again.heartbeat()) == ("none", "none")

    assert world.state == "Stable"


def test_an_administrator_removes_a_static_member_by_its_instance(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)

    members = tuple(LeavingMember("", name) for name in ("instance-b", "instance-x", None))
    result = world.ask(LeaveGroup(world.next_id(), GROUP, members), LeaveResult)

    assert [each.error.name for each in result.members] == [
        "none", "unknown_member_id", "unknown_member_id",
    ]  # fmt: skip
    assert a.heartbeat() == "rebalance_in_progress"
    assert b.heartbeat() == "unknown_member_id"


def test_a_removed_member_that_waits_for_its_assignment_gets_an_error(world: GroupWorld) -> None:
    a, b = world.static_consumers("a", "b")
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    b.sync()

    leaving = (LeavingMember("", "instance-b"),)
    world.ask(LeaveGroup(world.next_id(), GROUP, leaving), LeaveResult)

    assert b.sync_outcome == "unknown_member_id"
    assert world.unanswered == []


def test_an_id_that_was_given_out_belongs_to_no_instance(world: GroupWorld) -> None:
    [a, b] = world.consumers("a", "b")
    world.stable(a)
    b.ask_to_join()
    b.member_id = b.joined.member_id
    b.instance = "instance-b"

    assert b.ask_to_join() == "unknown_server_error"


def test_static_membership_waits_until_every_broker_of_the_cluster_knows_it() -> None:
    world = GroupWorld(GroupConfig(inter_broker_version=version_of("2.2-IV1")))
    [a] = world.static_consumers("a")

    assert a.join() == "unsupported_version"
    assert a.sync() == "unsupported_version"
    assert a.heartbeat() == "unsupported_version"
    assert a.commit(3) == "unsupported_version"


def test_a_restart_whose_group_moves_away_meanwhile_is_sent_to_the_new_coordinator(
    world: GroupWorld,
) -> None:
    a, b = world.static_consumers("a", "b")
    world.stable(a, b)
    world.is_holding_appends = True
    again = restarted(b)
    again.join()

    world.resign(GROUP)
    assert again.join_outcome == "not_coordinator"
    world.finish_all(ErrorCode.not_leader_or_follower)

    responses = [each for each in world.results.values() if isinstance(each, JoinResult)]
    assert len(responses) == 3
    assert world.unanswered == []
