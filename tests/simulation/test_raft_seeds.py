"""The quorum through random misfortune; a failing seed prints its history and how to replay it."""

from __future__ import annotations

import hashlib
from typing import Final

import pytest

from tests.simulation.hash_seeds import run_under_hash_seeds
from tests.simulation.raft_chaos import (
    quorum_whose_lists_differ,
    quorum_with_strangers,
    stormy_quorum,
    stormy_quorum_on_disk,
)
from tests.simulation.raft_stories import led_world
from zkcontroller_simulation.raft_log_model import NumberBatch
from zkcontroller_simulation.raft_world import FIRST_OBSERVER, BrokenRaftError, RaftWorld

WHAT_STORMS_BRING: Final = (
    "loads snapshot",
    "Fetch diverges",
    "Fetch needs snapshot",
    "Vote refused",
    "EndQuorumEpoch",
    "crashes before",
    "crashes after",
    "has left",
    "reaches its limit",
)
"""About ten runs together must show all of these; otherwise they prove less than they seem to."""


def fingerprint(world: RaftWorld) -> str:
    return hashlib.sha256("\n".join(world.timeline.history).encode()).hexdigest()


def test_nothing_committed_is_lost_and_the_quorum_goes_on(seed: int) -> None:
    world = stormy_quorum(seed)

    # A run without a committed record would prove nothing.
    assert world.invariants.exposed_end > 0


def test_what_strangers_say_does_not_matter(seed: int) -> None:
    quorum_with_strangers(seed)


def test_lists_of_voters_that_differ_by_one_break_no_rule(seed: int) -> None:
    quorum_whose_lists_differ(seed)


def test_the_log_of_production_does_as_the_model_of_it(costly_seed: int) -> None:
    world = stormy_quorum_on_disk(costly_seed)

    assert world.invariants.exposed_end > 0


def test_a_newcomer_is_elected_by_those_who_know_of_it() -> None:
    """Without such an election the runs with different voter lists would prove too little."""
    told = "\n".join("\n".join(quorum_whose_lists_differ(n).timeline.history) for n in range(8))

    assert f"{FIRST_OBSERVER} leads epoch" in told


def test_storms_bring_what_they_are_for() -> None:
    told = "\n".join("\n".join(stormy_quorum(seed).timeline.history) for seed in range(5))

    assert [words for words in WHAT_STORMS_BRING if words not in told] == []


def test_the_same_seed_gives_the_same_history_however_strings_are_hashed() -> None:
    program = (
        "import logging; logging.disable(logging.CRITICAL);"
        "from tests.simulation.test_raft_seeds import fingerprint, stormy_quorum;"
        "print(fingerprint(stormy_quorum(7, 3_000)), fingerprint(stormy_quorum(8, 3_000)))"
    )
    scenarios = run_under_hash_seeds(program)

    (scenario,) = scenarios
    seven, eight = scenario.split()
    assert seven == fingerprint(stormy_quorum(7, 3_000))
    assert seven != eight


def test_a_broken_world_shows_its_history_and_how_to_replay_it() -> None:
    world = led_world(42)
    follower = next(process for process in world.voters if not process.is_leader)
    cut: list[NumberBatch] = follower.log.batches[-1:]

    follower.log.batches = follower.log.batches[:-1]
    with pytest.raises(BrokenRaftError) as broken:
        world.run(3_000)

    assert cut
    assert "leads epoch" in str(broken.value)
    assert "--seed=42" in str(broken.value)
