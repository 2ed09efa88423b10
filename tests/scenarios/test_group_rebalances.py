"""Groups from one generation to the next: members that come, bounce, lead, fall silent and go."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.config import GroupConfig
from tests.scenarios.group_world import Consumer, GroupWorld


def test_three_consumers_that_start_together_share_the_first_generation() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")

    assert a.join() == "waiting"
    world.pass_ms(2_000)
    assert b.join() == "waiting"
    world.pass_ms(2_000)
    assert c.join() == "waiting"
    assert world.state == "PreparingRebalance"

    world.pass_ms(10_000)
    assert [each.join_outcome for each in (a, b, c)] == ["none"] * 3
    assert [each.joined.generation_id for each in (a, b, c)] == [1, 1, 1]
    assert [len(each.joined.members) for each in (a, b, c)] == [3, 0, 0], "the leader knows all"
    assert world.state == "CompletingRebalance"

    assert b.sync() == "waiting"
    assert a.sync() == "none"
    assert b.sync_outcome == "none"
    assert c.sync() == "none"
    assert [each.synced.assignment.decode() for each in (a, b, c)] == [
        each.member_id for each in (a, b, c)
    ]
    assert world.state == "Stable"
    assert world.logged_group() == (1, a.member_id, [a.member_id, b.member_id, c.member_id])


def test_the_initial_delay_is_extended_by_newcomers_and_bounded_by_the_rebalance_timeout() -> None:
    world = GroupWorld(GroupConfig(initial_rebalance_delay_ms=3_000))
    consumers = world.consumers(*(f"c{i}" for i in range(6)))
    for each in consumers:
        each.rebalance_timeout_ms = 7_000

    for each in consumers[:4]:
        each.join()
        world.pass_ms(2_000)
    assert consumers[0].join_outcome == "none", "7 s are over after 8, whoever comes"

    assert world.group.generation_id == 1
    assert len(world.group.members) == 4


def test_without_an_initial_delay_the_first_member_is_answered_with_the_next_tick() -> None:
    world = GroupWorld(GroupConfig(initial_rebalance_delay_ms=0))
    [a] = world.consumers("a")

    assert a.join() == "waiting"
    world.pass_ms(0)

    assert a.join_outcome == "none"


def test_a_new_member_makes_all_members_join_again() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b)

    assert c.join() == "waiting"
    assert [a.heartbeat(), b.heartbeat()] == ["rebalance_in_progress"] * 2
    assert a.sync() == "rebalance_in_progress"

    assert a.join() == "waiting"
    assert b.join() == "none", "the last one to join ends the waiting"
    assert [each.joined.generation_id for each in (a, b, c)] == [2, 2, 2]
    assert a.is_leader


def test_a_member_that_does_not_join_in_time_is_removed() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b)
    c.join()
    a.join()

    for _ in range(4):
        world.pass_ms(8_000)
        b.heartbeat()

    assert a.joined.generation_id == 2
    assert [each.member_id for each in a.joined.members] == [a.member_id, c.member_id]
    assert b.join() == "unknown_member_id"


def test_the_leader_leaves_and_another_one_leads() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b, c)

    assert a.leave() == "none"
    assert b.heartbeat() == "rebalance_in_progress"
    b.join()
    c.join()

    assert b.is_leader
    assert not c.is_leader
    assert a.heartbeat() == "unknown_member_id"


def test_a_leader_that_does_not_join_in_time_is_replaced_by_one_who_did() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    world.stable(a, b)

    c.join()
    b.join()
    world.pass_ms(30_000)

    assert c.joined.leader_id == b.member_id
    assert [each.member_id for each in b.joined.members] == [b.member_id, c.member_id]


def test_a_session_that_ends_costs_a_rebalance() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a, b)

    world.pass_ms(9_000)
    assert b.heartbeat() == "none"
    world.pass_ms(1_000)
    assert b.heartbeat() == "rebalance_in_progress"

    assert b.join() == "none"
    assert b.joined.generation_id == 2
    assert b.is_leader
    assert a.heartbeat() == "unknown_member_id"


def test_the_last_member_goes_and_the_group_is_empty_in_a_new_generation() -> None:
    world = GroupWorld()
    [a] = world.consumers("a")
    world.stable(a)

    a.leave()

    assert world.state == "Empty"
    assert world.logged_group() == (2, None, [])
    assert world.described.protocol_type == "consumer", "it is remembered for expiry"
    [again] = world.consumers("again")
    world.stable(again)
    assert world.group.generation_id == 3


def test_a_follower_that_rejoins_unchanged_causes_no_rebalance_and_a_leader_does() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a, b)

    assert b.join() == "none"
    assert b.joined.generation_id == 1
    assert world.state == "Stable"

    assert a.join() == "waiting"
    assert b.heartbeat() == "rebalance_in_progress"


def test_a_follower_with_other_metadata_makes_all_members_join_again() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a, b)

    b.protocols = (b.protocols[0]._replace(metadata=b"\0\0\0\0\0\0\xff\xff\xff\xff"),)

    assert b.join() == "waiting"
    assert a.heartbeat() == "rebalance_in_progress"


def test_a_member_that_lost_the_answer_to_its_join_gets_it_again() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    first = a.joined, b.joined

    a.join()
    b.join()

    assert (a.joined, b.joined) == first
    assert world.state == "CompletingRebalance"


def test_a_join_that_is_sent_again_ends_the_one_that_waits() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a, b)
    assert a.join() == "waiting"
    given_up = a.last_join

    assert a.join() == "waiting"

    response = world.results[given_up]
    assert response.error.name == "rebalance_in_progress"  # type: ignore[union-attr]
    b.join()
    assert a.join_outcome == "none"
    assert world.unanswered == []


def test_a_joined_member_that_never_synchronises_is_removed_and_the_others_begin_anew() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    b.join()
    world.pass_until_joined(a, b)
    assert a.sync() == "none"

    for _ in range(4):
        world.pass_ms(8_000)
        b.heartbeat()
        a.heartbeat()

    assert b.heartbeat() == "unknown_member_id"
    assert a.join() == "none"
    assert (a.joined.generation_id, len(a.joined.members)) == (2, 1)


def test_followers_that_wait_for_a_leader_that_is_gone_are_sent_back_to_join() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    b.join()
    world.pass_ms(10_000)
    assert b.sync() == "waiting"

    a.leave()

    assert b.sync_outcome == "rebalance_in_progress"
    assert b.join() == "none"
    assert b.is_leader


def test_an_assignment_that_could_not_be_written_is_sent_to_no_member() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    b.join()
    world.pass_ms(10_000)
    b.sync()

    world.append_error = ErrorCode.not_enough_replicas
    assert a.sync() == "coordinator_not_available"

    assert b.sync_outcome == "coordinator_not_available"
    assert b.synced.assignment == b""
    assert world.state == "PreparingRebalance"


@pytest.mark.parametrize(
    ("of_the_log", "told"),
    [
        ("unknown_topic_or_partition", "coordinator_not_available"),
        ("not_enough_replicas_after_append", "coordinator_not_available"),
        ("not_leader_or_follower", "not_coordinator"),
        ("kafka_storage_error", "not_coordinator"),
        ("request_timed_out", "rebalance_in_progress"),
        ("message_too_large", "unknown_server_error"),
        ("record_list_too_large", "unknown_server_error"),
        ("invalid_fetch_size", "unknown_server_error"),
        ("corrupt_message", "corrupt_message"),
    ],
)
def test_the_errors_of_members_when_their_group_cannot_be_written(
    of_the_log: str, told: str
) -> None:
    world = GroupWorld()
    [a] = world.consumers("a")
    a.join()
    world.pass_ms(10_000)

    world.append_error = ErrorCode[of_the_log]

    assert a.sync() == told


def test_a_newcomer_during_the_write_of_an_assignment_makes_it_void() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    world.pass_ms(10_000)
    world.is_holding_appends = True
    assert a.sync() == "waiting"

    b.join()
    assert a.sync_outcome == "rebalance_in_progress"
    world.finish_all()

    assert world.state == "PreparingRebalance"
    assert a.join() == "none"


def test_an_assignment_that_is_written_when_the_next_generation_has_begun_is_void() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    world.pass_ms(10_000)
    world.is_holding_appends = True
    a.sync()
    b.join()
    a.join()
    assert (a.joined.generation_id, b.sync()) == (2, "waiting")

    world.finish_all()

    assert world.state == "CompletingRebalance"
    assert b.sync_outcome == "waiting"
    world.is_holding_appends = False
    assert a.sync() == "none"
    assert b.synced.assignment == b.member_id.encode()


def test_a_leader_that_repeats_its_assignment_does_not_write_it_twice() -> None:
    world = GroupWorld()
    [a] = world.consumers("a")
    a.join()
    world.pass_ms(10_000)
    world.is_holding_appends = True
    a.sync()
    given_up = a.last_sync

    a.sync({})
    assert len(world.appends) == 1
    world.finish_all()

    assert a.synced.assignment.decode() == a.member_id
    assert given_up in world.results
    assert world.unanswered == []


def test_members_the_leader_forgot_have_an_empty_assignment() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    a.join()
    b.join()
    world.pass_ms(10_000)

    a.sync({a.joined.member_id: b"all"})
    b.sync()

    assert (b.sync_outcome, b.synced.assignment) == ("none", b"")


def test_the_protocol_that_all_support_and_most_prefer_is_chosen() -> None:
    world = GroupWorld()
    a, b, c = world.consumers("a", "b", "c")
    [spare] = a.protocols
    a.protocols = tuple(spare._replace(name=name) for name in ("only-a", "range", "sticky"))
    b.protocols = tuple(spare._replace(name=name) for name in ("sticky", "range"))
    c.protocols = tuple(spare._replace(name=name) for name in ("sticky", "range", "other"))

    world.stable(a, b, c)

    assert world.described.protocol_name == "sticky"


def test_a_member_without_a_common_protocol_is_refused() -> None:
    world = GroupWorld()
    a, b = world.consumers("a", "b")
    world.stable(a)
    b.protocols = (b.protocols[0]._replace(name="other"),)

    assert b.join() == "inconsistent_group_protocol"
    assert b.joined.member_id == b.member_id

    [c] = world.consumers("c")
    c.protocols = ()
    assert c.join() == "inconsistent_group_protocol"
    assert world.state == "Stable"


def test_a_group_takes_no_more_members_than_its_size() -> None:
    world = GroupWorld(GroupConfig(max_size=2))
    a, b, c, d = world.consumers("a", "b", "c", "d")

    assert [each.join() for each in (a, b, c)] == ["waiting", "waiting", "group_max_size_reached"]
    world.pass_ms(10_000)
    a.sync()
    b.sync()

    assert d.join() == "group_max_size_reached"
    assert world.state == "Stable"
    assert a.join() == "waiting", "a member has room"


def test_a_client_that_never_saw_its_id_is_waited_for_five_minutes_and_then_forgotten() -> None:
    world = GroupWorld()
    a = Consumer(world, "a", version=3)
    b = Consumer(world, "b", version=3)
    a.rebalance_timeout_ms = b.rebalance_timeout_ms = 600_000
    world.stable(a)
    b.join()

    for _ in range(40):
        world.pass_ms(7_500)
        a.heartbeat()

    assert b.join_outcome == "unknown_member_id"
    assert [*world.group.members] == [a.member_id]


def test_another_member_leads_if_the_leader_does_not_join_in_time() -> None:
    world = GroupWorld()
    a, b = world.static_consumers("a", "b")
    a.session_timeout_ms = 100_000
    world.stable(a, b)
    assert a.is_leader
    b.protocols = (b.protocols[0]._replace(metadata=b"another"),)
    b.join()

    world.pass_ms(31_000)

    assert b.is_leader
    [line] = [line for line in world.lines if "Group leader" in line]
    assert line.startswith(
        f"INFO Group leader [member.id: {a.member_id}, group.instance.id: Some(instance-a)] failed "
        f"to join before rebalance timeout, while new leader MemberMetadata(memberId={b.member_id},"
    )
    assert line.endswith(" was elected.")


def test_only_static_members_are_left_and_none_joins_so_the_group_waits_again() -> None:
    world = GroupWorld()
    a, b = world.static_consumers("a", "b")
    for each in (a, b):
        each.session_timeout_ms = 100_000
    world.stable(a, b)
    [c] = world.consumers("c")
    c.join()
    c.leave()

    world.pass_ms(31_000)
    assert world.state == "PreparingRebalance"
    assert any("no members rejoined" in line for line in world.lines)
    leader = f"Group leader [member.id: {a.member_id}, group.instance.id: Some(instance-a)]"
    assert (
        f"INFO {leader} failed to join before rebalance timeout, and the group couldn't proceed to "
        "next generationbecause no member joined." in world.lines
    )

    assert a.join() == "waiting"
    world.pass_ms(30_000)
    assert a.join_outcome == "none", "b is kept until its session ends"
    assert len(world.group.members) == 2
