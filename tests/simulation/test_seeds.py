"""The cluster through random misfortune; a failing seed prints its history and how to replay it."""

from __future__ import annotations

import hashlib

from tests.simulation.hash_seeds import run_under_hash_seeds
from tests.simulation.seeded_worlds import (
    calm_world,
    contested_world,
    drizzly_world,
    is_refusal,
    refusing_world,
    stormy_world,
)
from zkcontroller_simulation.history import BrokenWorldError
from zkcontroller_simulation.world import World


def fingerprint(world: World) -> str:
    return hashlib.sha256("\n".join(world.timeline.history).encode()).hexdigest()


def test_a_cluster_survives_misfortune_and_comes_to_rest(seed: int) -> None:
    world = stormy_world(seed)

    assert world.failures == []


def test_lost_replies_alone_leave_nothing_undone(seed: int) -> None:
    world = drizzly_world(seed)

    assert world.failures == []


def test_in_calm_weather_each_partition_that_can_have_a_leader_has_one(seed: int) -> None:
    world = calm_world(seed)

    assert [failed for failed in world.failures if not is_refusal(failed[2])] == []


def test_a_zookeeper_that_refuses_misleads_no_controller(seed: int) -> None:
    world = refusing_world(seed)

    assert [failed for failed in world.failures if not is_refusal(failed[2])] == []


def test_deletions_of_the_controller_znode_always_end_with_a_controller(seed: int) -> None:
    # A long history costs five times as much, and finds little that more seeds do not.
    deletions = 100 if seed % 10 == 0 else 20

    world = contested_world(seed, deletions)

    assert world.controller_epoch > deletions // 2
    assert world.failures == []


def test_the_same_seed_gives_the_same_history() -> None:
    assert fingerprint(stormy_world(7, 40)) == fingerprint(stormy_world(7, 40))
    assert fingerprint(stormy_world(7, 40)) != fingerprint(stormy_world(8, 40))


def test_a_history_does_not_depend_on_how_strings_are_hashed() -> None:
    program = (
        "from tests.simulation.seeded_worlds import stormy_world;"
        "from tests.simulation.test_seeds import fingerprint;"
        "print(fingerprint(stormy_world(7, 40)))"
    )
    scenarios = run_under_hash_seeds(program)

    assert len(scenarios) == 1


def test_a_broken_world_shows_its_history_and_how_to_replay_it() -> None:
    world = World(42)
    world.start_brokers(1)
    try:
        world.run_until(lambda: False, within_ms=10_000)
    except BrokenWorldError as broken:
        shown = str(broken)
    else:
        raise AssertionError("a world that waits for ever must be told so")

    assert "broker 1: Startup()" in shown
    assert "pytest tests/simulation/test_seeds.py --seed=42" in shown
