"""What the quorum must come to, and by when, in virtual time."""

from __future__ import annotations

from typing import Final

from kraft.raft.inputs import Resign
from tests.simulation.raft_stories import (
    CHECK_QUORUM_MS,
    SLACK_MS,
    isolated_leader_resigns,
    leader_of_a_minority_resigns,
    led_world,
    observer_behind_a_snapshot,
    restless_voters,
    snapshot_for_a_follower_with_a_record_of_its_own,
)

SECOND_MS: Final = 1_000
KILLS: Final = 20


def test_a_majority_that_is_in_time_keeps_its_leader(seed: int) -> None:
    """L1: nothing deposes a leader while nothing is wrong, whether or not it has records to give.

    Each half is longer than what a leader or a follower waits before it gives up.
    """
    world = led_world(seed, voters=3, observers=1)
    epoch = world.invariants.newest_leader.epoch

    world.run(CHECK_QUORUM_MS + SECOND_MS)
    world.is_appending = False
    world.run(2 * CHECK_QUORUM_MS)

    assert world.invariants.newest_leader.epoch == epoch
    assert world.has_consistent_leader


def test_a_leader_that_is_cut_off_resigns_and_commits_nothing(seed: int) -> None:
    """L3."""
    isolated_leader_resigns(seed)


def test_a_leader_that_reaches_only_a_minority_resigns(seed: int) -> None:
    """L3."""
    leader_of_a_minority_resigns(seed)


def test_an_observer_that_comes_late_begins_with_a_snapshot(seed: int) -> None:
    """L2."""
    observer_behind_a_snapshot(seed)


def test_a_follower_with_a_record_no_other_node_has_takes_a_snapshot_of_an_older_epoch(
    seed: int,
) -> None:
    """L2."""
    snapshot_for_a_follower_with_a_record_of_its_own(seed)


def test_five_candidates_at_once_come_to_a_leader(seed: int) -> None:
    """L4: all nodes start at the same time, again and again."""
    world = led_world(seed, voters=5)
    for _ in range(3):
        for number in world.nodes:
            world.kill(number)
        world.start()
        world.run_until(lambda: world.has_consistent_leader, 12 * SECOND_MS, "L4: a leader")


def test_any_majority_goes_on_after_all_were_down(seed: int) -> None:
    """L5."""
    world = led_world(seed, voters=5)
    for number in world.nodes:
        world.kill(number)
    majority = world.random.sample(list(world.nodes), world.voter_set.majority)

    target = world.invariants.exposed_end + 10
    world.start(*majority)

    world.run_until(lambda: world.all_reached(target), 20 * SECOND_MS, "L5: a majority goes on")


def test_a_leader_leaves_once_another_one_leads(seed: int) -> None:
    """L6: in time; its successor need not wait for a timeout."""
    world = led_world(seed, voters=3)
    assert world.leader is not None
    old = world.leader

    world.shut_down(old.number, 5 * SECOND_MS)
    took_ms = world.run_until(lambda: not old.is_running, 5 * SECOND_MS, "L6: it leaves")

    assert old.shutdown is not None
    assert old.shutdown.is_graceful
    assert took_ms < SECOND_MS
    assert world.leader is not None
    assert world.leader is not old


def test_a_leader_without_a_successor_leaves_when_its_time_is_over(seed: int) -> None:
    """L6."""
    world = led_world(seed, voters=3)
    assert world.leader is not None
    old = world.leader
    for number in world.voter_set.others(old.number):
        world.kill(number)

    world.shut_down(old.number, SECOND_MS)
    took_ms = world.run_until(lambda: not old.is_running, 2 * SECOND_MS, "L6: it leaves")

    assert old.shutdown is not None
    assert not old.shutdown.is_graceful
    assert SECOND_MS <= took_ms <= SECOND_MS + 50


def test_a_leader_that_resigns_is_followed_by_another_one(seed: int) -> None:
    world = led_world(seed, voters=3)
    assert world.leader is not None
    assert world.leader.core is not None
    old, epoch = world.leader, world.leader.core.epoch

    old.receive(Resign(epoch))
    world.run_until(
        lambda: world.invariants.newest_leader.epoch > epoch, 3 * SECOND_MS, "a successor"
    )

    assert world.invariants.newest_leader.leader_id != old.number


def test_a_leader_whose_followers_stand_still_resigns(seed: int) -> None:
    world = led_world(seed, voters=3)
    assert world.leader is not None
    old = world.leader
    for number in world.voter_set.others(old.number):
        world.nodes[number].pause()

    # A Fetch that waits counts once more when it is answered.
    world.run(CHECK_QUORUM_MS + SLACK_MS)
    assert not old.is_leader

    for process in world.processes:
        process.resume()
    world.run_until(lambda: world.leader is not None, 12 * SECOND_MS, "somebody leads again")


def test_the_followers_of_a_dead_leader_seldom_stand_at_the_same_moment() -> None:
    """Its last answers reach both at once; with one timeout nine in ten elections were split."""
    split = 0
    for seed in range(KILLS):
        world = led_world(seed, voters=3)
        old = world.leader
        assert old is not None
        assert old.core is not None
        epoch = old.core.epoch
        world.kill(old.number)
        world.run_until(lambda: world.invariants.newest_leader.epoch > epoch, 12_000, "a leader")  # noqa: B023 - called at once
        split += world.invariants.newest_leader.epoch > epoch + 1

    assert split <= KILLS // 5


def test_voters_that_die_again_and_again_settle_in_the_end(seed: int) -> None:
    restless_voters(seed)
