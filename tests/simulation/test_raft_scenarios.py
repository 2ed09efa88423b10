"""The scenarios of Kafka's own simulation of the quorum, under its names, with all our invariants.

Source: Kafka ``RaftEventSimulationTest``.  One deviation: in one of its invariants Kafka looks at
the leader of the lowest epoch, by an inverted comparison; here it is always the highest.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from zkcontroller_simulation.raft_world import DENSE_EACH, RaftWorld, times_of

TOLD_BY: Final = "tests/simulation/test_raft_scenarios.py"
ELECTED_WITHIN_MS: Final = 12_000
"""Timeouts of 1 to 2 s, each followed by another one if two candidates met."""
WITHIN_MS: Final = 30_000


def started_world(seed: int, voters: tuple[int, int], observers: tuple[int, int]) -> RaftWorld:
    """A world of started nodes, whose leader appends.

    ``voters`` and ``observers`` give the lowest and the highest number of such nodes.
    """
    sizes = Random(seed)
    world = RaftWorld(
        seed,
        sizes.randint(*voters),
        sizes.randint(*observers),
        config=times_of(seed),
        told_by=TOLD_BY,
    )
    world.start()
    world.append_every((5, 15) if seed % DENSE_EACH == 0 else (30, 90))
    return world


def led_world(seed: int, voters: tuple[int, int], observers: tuple[int, int]) -> RaftWorld:
    """The same, with a leader that all know and more than ten records committed."""
    world = started_world(seed, voters, observers)
    world.run_until(lambda: world.has_consistent_leader, ELECTED_WITHIN_MS, "a leader")
    world.run_until(lambda: world.high_watermark > 10, WITHIN_MS, "ten records")
    return world


def leader_of(world: RaftWorld) -> int:
    assert world.leader is not None
    return world.leader.number


def test_can_elect_initial_leader(seed: int) -> None:
    world = started_world(seed, (1, 5), (0, 5))

    world.run_until(lambda: world.has_consistent_leader, ELECTED_WITHIN_MS, "a leader")
    world.run_until(lambda: world.all_reached(10), WITHIN_MS, "ten records everywhere")

    assert world.invariants.newest_leader.epoch >= 1


@pytest.mark.parametrize("is_graceful", [True, False])
def test_can_elect_new_leader_after_old_leader_failure(seed: int, is_graceful: bool) -> None:
    world = led_world(seed, (3, 5), (0, 5))
    old = leader_of(world)

    if is_graceful:
        world.shut_down(old, 500)
        world.run_until(lambda: not world.nodes[old].is_running, 600, "the old leader leaves")
    else:
        world.kill(old)
    epoch = world.invariants.newest_leader.epoch
    target = world.longest_log + 10
    world.run_until(lambda: world.all_reached(target), WITHIN_MS, "ten more without the old one")
    assert world.invariants.newest_leader.epoch > epoch or is_graceful
    assert leader_of(world) != old

    target = world.high_watermark + 10
    world.start(old)
    world.run_until(lambda: world.all_reached(target), WITHIN_MS, "the old one catches up")


def test_can_recover_after_all_nodes_killed(seed: int) -> None:
    world = led_world(seed, (1, 5), (0, 5))
    high_watermark = world.high_watermark

    for number in world.nodes:
        world.kill(number)
    world.start(*list(world.nodes)[: world.voter_set.majority])

    world.run_until(lambda: world.all_reached(high_watermark + 10), WITHIN_MS, "a majority goes on")


def test_can_elect_new_leader_after_old_leader_partitioned_away(seed: int) -> None:
    world = led_world(seed, (3, 5), (0, 5))
    old = leader_of(world)
    others = tuple(number for number in world.nodes if number != old)

    world.isolate(old)

    target = world.longest_log + 10
    world.run_until(lambda: world.all_reached(target, others), WITHIN_MS, "the others go on")
    assert world.nodes[old].high_watermark < target


def test_can_make_progress_if_majority_is_reachable(seed: int) -> None:
    world = led_world(seed, (5, 5), (0, 3))

    join = world.isolate(1, 2)
    target = 2 * world.longest_log
    world.run_until(lambda: world.high_watermark >= target, WITHIN_MS, "the majority goes on")
    minority = max(world.nodes[number].high_watermark for number in (1, 2))
    majority = max(world.nodes[number].high_watermark for number in (3, 4, 5))
    assert majority > minority

    join()
    target = world.longest_log + 20
    world.run_until(lambda: world.all_reached(target), WITHIN_MS, "everybody catches up")


def test_can_make_progress_after_back_to_back_leader_failures(seed: int) -> None:
    world = led_world(seed, (3, 5), (0, 5))
    first = leader_of(world)

    join = world.isolate(first)
    world.run_until(
        lambda: world.invariants.newest_leader.leader_id not in (None, first),
        WITHIN_MS,
        "a second leader",
    )
    join()
    second = world.invariants.newest_leader.leader_id
    assert second is not None
    world.isolate(second)

    target = world.high_watermark + 10
    world.run_until(lambda: world.high_watermark >= target, WITHIN_MS, "the first ones go on")


def test_can_recover_from_single_node_committed_data_loss(seed: int) -> None:
    world = led_world(seed, (3, 5), (0, 2))
    lost = world.random.choice(list(world.nodes))

    world.lose_disk(lost)
    world.run_until(
        lambda: world.leader is not None and world.has_consistent_leader, WITHIN_MS, "a leader"
    )
    target = world.high_watermark + 10
    world.start(lost)

    world.run_until(lambda: world.all_reached(target), WITHIN_MS, "everybody, with the empty disk")
