"""Short runs of a quorum that several tests share."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kraft.raft.config import QuorumConfig
from kraft.raft.values import OffsetAndEpoch
from zkcontroller_simulation.raft_weather import CALM, GREY
from zkcontroller_simulation.raft_world import (
    DENSE_EACH,
    FIRST_OBSERVER,
    UPSTREAM,
    RaftWorld,
    times_of,
)

RESTLESS: Final = QuorumConfig(
    election_timeout_ms=150,
    fetch_timeout_ms=700,
    election_backoff_max_ms=100,
    append_linger_ms=0,
    request_timeout_ms=600,
)
CHECK_QUORUM_MS: Final = UPSTREAM.check_quorum_timeout_ms
SLACK_MS: Final = 100
"""For messages that are on their way."""


def led_world(seed: int, voters: int = 3, observers: int = 0) -> RaftWorld:
    """A calm world with a leader that all know, and records."""
    world = RaftWorld(
        seed,
        voters,
        observers,
        config=times_of(seed),
        retention_bytes=0,
        told_by="tests/simulation/test_raft_liveness.py",
    )
    world.start()
    world.append_every((10, 30) if seed % DENSE_EACH == 0 else (30, 90))
    world.run_until(lambda: world.has_consistent_leader, 12_000, "L1: a leader")
    world.run_until(lambda: world.all_reached(5), 3_000, "L1: it commits")
    return world


def isolated_leader_resigns(seed: int) -> None:
    """L3: within one and a half fetch timeouts, and nothing is committed by it any more."""
    world = led_world(seed, 3)
    assert world.leader is not None
    old = world.leader

    world.isolate(old.number)
    world.run(SLACK_MS)
    committed = old.high_watermark
    world.run_until(
        lambda: not old.is_leader or old.high_watermark != committed,
        CHECK_QUORUM_MS,
        "L3: the leader that is cut off resigns",
    )

    assert old.log.end_offset > committed, "L3: it takes records as long as it leads"
    assert old.log.high_watermark == committed, "L3: it commits alone"


def leader_of_a_minority_resigns(seed: int) -> None:
    """L3: one follower and an observer are in time, and that is not enough of five voters."""
    world = led_world(seed, 5, 1)
    assert world.leader is not None
    old = world.leader
    faithful = world.random.choice(world.voter_set.others(old.number))

    world.isolate(old.number, faithful, FIRST_OBSERVER)
    world.run_until(
        lambda: not old.is_leader,
        CHECK_QUORUM_MS + SLACK_MS,
        "L3: the leader of a minority resigns",
    )


def observer_behind_a_snapshot(seed: int) -> None:
    """L2: the records that an observer lacks are gone; it loads a snapshot and goes on there."""
    world = led_world(seed, 3, 1)
    late = world.nodes[FIRST_OBSERVER]
    world.kill(late.number)
    known = late.log.end_offset

    def has_cleaned() -> bool:
        for voter in world.voters:
            world.clean(voter.number)
        return all(voter.log.start_offset > known for voter in world.voters)

    world.run_until(has_cleaned, 20_000, "old records go")
    target = world.high_watermark + 10
    world.start(late.number)
    world.run_until(lambda: world.all_reached(target), 10_000, "L2: the observer catches up")

    assert late.log.start_offset > known, "L2: by a snapshot"


def snapshot_for_a_follower_with_a_record_of_its_own(seed: int) -> None:
    """L2: its record is of a later epoch than the snapshot that its successor offers.

    It was elected on a shorter log, and wrote that it leads.  The first leader has records that
    reach no other voter before it dies.  It comes back, commits them, and begins its log with a
    snapshot at their end.
    """
    world = led_world(seed, 3)
    world.run_until(
        lambda: all(voter.log.snapshots for voter in world.voters), 10_000, "everybody snapshots"
    )
    assert world.leader is not None
    first = world.leader
    world.is_appending = False
    world.run_until(lambda: world.all_reached(first.log.end_offset), 3_000, "it commits")
    common = first.log.end_offset

    world.isolate(first.number)
    first.append(world.snapshot_every)
    world.run_until(lambda: first.log.flushed_offset > common, 2_000, "it alone has more")
    unseen_end, unseen_epoch = first.log.end_offset, first.log.last_epoch
    world.kill(first.number)
    world.run_until(lambda: world.leader is not None, 20_000, "another one is elected")
    second = world.leader
    assert second is not None
    world.network.heal()
    world.isolate(second.number)
    world.run_until(lambda: second.log.flushed_offset > common, 2_000, "it writes who leads")
    world.start(first.number)
    world.run_until(lambda: first.is_leader, 30_000, "the first one is elected again")
    others = [voter for voter in world.voters if voter is not second]
    snapshot_id = OffsetAndEpoch(unseen_end, unseen_epoch)
    world.run_until(
        lambda: all(snapshot_id in voter.log.snapshots for voter in others), 5_000, "snapshots"
    )
    for voter in others:
        world.clean(voter.number)
    world.network.heal()
    world.run_until(
        lambda: second.high_watermark > unseen_end, 10_000, "L2: it catches up by the snapshot"
    )

    assert second.log.start_offset == unseen_end, "L2: by a snapshot"


def restless_voters(seed: int) -> None:
    """Voters die and are back at once, again and again, while votes are on their way."""
    world = RaftWorld(
        seed, 3 + seed % 3, config=RESTLESS, told_by="tests/simulation/test_raft_liveness.py"
    )
    world.network.weather = replace(
        GREY, delay_ms=(0, 120), late=0.2, repetition=0.2, crash_at_disk=0.02
    )

    def start(number: int, wait_ms: int) -> None:
        world.timeline.after(wait_ms, lambda: world.start(number))

    world.on_crash = lambda process: start(process.number, world.random.randint(1, 30))
    world.start()
    world.append_every((50, 100))
    for _ in range(60):
        number = world.random.choice(list(world.nodes))
        if world.random.random() < 0.2 and world.leader is not None:
            number = world.leader.number
        world.kill(number, is_process_alone=world.random.random() < 0.5)
        start(number, world.random.randint(1, 150))
        world.run(world.random.randint(20, 250))
    world.network.weather = CALM
    world.on_crash = lambda _: None
    world.run(200)
    world.start()
    world.run_until(lambda: world.has_consistent_leader, 12_000, "L1: a leader")
    target = world.longest_log + 5
    world.run_until(lambda: world.all_reached(target), 12_000, "L1, L2: all commit again")
