"""A plain election, replication and a failover, as a newcomer can read them.

Every message takes a millisecond, and so does every write to a disk.  Read a line ``1 -> 2`` as "1
asks 2" and ``1 => 2`` as "1 answers 2"; ``3@1`` is the log's end: the next offset, and the epoch of
the record before it.  A Fetch stands where it is answered, and a repetition is left out.

Where the quorum's behaviour changes on purpose, what the test prints is to be read and put here.
"""

from __future__ import annotations

from dataclasses import replace
from textwrap import dedent
from typing import Final

from zkcontroller_simulation.raft_weather import CALM
from zkcontroller_simulation.raft_world import RaftWorld

EVERYTHING_TAKES_A_MILLISECOND: Final = replace(
    CALM, delay_ms=(1, 1), persist_ms=(1, 1), flush_ms=(1, 1), listener_ms=(1, 1)
)


def chapter(world: RaftWorld, told: list[str]) -> str:
    """The lines of the history since the last chapter, without their times."""
    lines = [line[9:] for line in world.timeline.history[len(told) :]]
    told[:] = world.timeline.history
    return "\n".join(lines)


def test_an_election_two_records_and_a_failover() -> None:
    world = RaftWorld(3, voters=3)
    world.timeline.is_shuffling = False
    world.network.weather = EVERYTHING_TAKES_A_MILLISECOND
    told: list[str] = []

    # Three voters start.  No voter knows a leader, so each one sends a Fetch to another voter.
    # Then the first election timeout ends.  This voter persists its vote for itself, and only
    # after that asks for votes.
    world.start()
    world.run_until(lambda: world.leader is not None, 5_000, "an election")
    assert chapter(world, told) == dedent("""\
        1 starts
        2 starts
        3 starts
        1 persists epoch 0
        2 persists epoch 0
        3 persists epoch 0
        1 flushes its log up to 0
        2 flushes its log up to 0
        3 flushes its log up to 0
        2 => 1  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        3 => 2  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        1 => 3  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        3 => 1  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        1 => 2  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        2 => 3  Fetch not_leader_or_follower (epoch 0), asked in 0 from 0@0
        1 persists epoch 1 vote for 1
        1 -> 2  Vote for 1 in 1, log 0@0
        1 -> 3  Vote for 1 in 1, log 0@0
        2 persists epoch 1 vote for 1
        2 => 1  Vote granted (epoch 1)
        3 persists epoch 1 vote for 1
        3 => 1  Vote granted (epoch 1)
        1 leads epoch 1""")

    # The leader appends the first record of its epoch, which names it as leader.  The followers
    # learn of the leader, fetch that record and flush it.  The offset of their next Fetch shows
    # that they have the record.  Now it is committed.
    world.run_until(lambda: world.all_reached(1), 5_000, "the first record")
    assert chapter(world, told) == dedent("""\
        1 persists epoch 1 led by 1
        1 flushes its log up to 1
        1 -> 2  BeginQuorumEpoch: 1 leads 1
        1 -> 3  BeginQuorumEpoch: 1 leads 1
        1 => 2  Fetch gets 0..0, high watermark -1 (epoch 1 led by 1), asked in 1 from 0@0
        1 => 3  Fetch gets 0..0, high watermark -1 (epoch 1 led by 1), asked in 1 from 0@0
        2 persists epoch 1 led by 1
        2 => 1  BeginQuorumEpoch (epoch 1 led by 1)
        3 persists epoch 1 led by 1
        3 => 1  BeginQuorumEpoch (epoch 1 led by 1)
        2 flushes its log up to 1
        3 flushes its log up to 1
        1 => 2  Fetch gets nothing, high watermark 1 (epoch 1 led by 1), asked in 1 from 1@1
        1 => 3  Fetch gets nothing, high watermark 1 (epoch 1 led by 1), asked in 1 from 1@1""")

    # Two records.  Fetches that waited at the leader are answered; the next ones tell it that both
    # records are on a majority, and the answers to those tell the followers.
    assert world.leader is not None
    world.leader.append(2)
    world.run_until(lambda: world.all_reached(3), 5_000, "two records")
    assert chapter(world, told) == dedent("""\
        1 flushes its log up to 3
        1 => 2  Fetch gets 1..2, high watermark 1 (epoch 1 led by 1), asked in 1 from 1@1
        1 => 3  Fetch gets 1..2, high watermark 1 (epoch 1 led by 1), asked in 1 from 1@1
        2 flushes its log up to 3
        3 flushes its log up to 3
        1 => 2  Fetch gets nothing, high watermark 3 (epoch 1 led by 1), asked in 1 from 3@1
        1 => 3  Fetch gets nothing, high watermark 3 (epoch 1 led by 1), asked in 1 from 3@1""")

    # The leader writes a third record, and its process dies before any follower has it.  The
    # others ask each other who leads.  Each waits its fetch timeout and a random part more, so one
    # stands first and has the other's vote.
    world.leader.append(1)
    world.kill(1, is_process_alone=True)
    world.run_until(lambda: world.leader is not None, 10_000, "another leader")
    assert chapter(world, told) == dedent("""\
        1 dies, its machine goes on
        3 => 2  Fetch not_leader_or_follower (epoch 1 led by 1), asked in 1 from 3@1
        2 => 3  Fetch not_leader_or_follower (epoch 1 led by 1), asked in 1 from 3@1
        2 persists epoch 2 vote for 2
        2 -> 1  Vote for 2 in 2, log 3@1
        2 -> 3  Vote for 2 in 2, log 3@1
        3 persists epoch 2 vote for 2
        3 => 2  Vote granted (epoch 2)
        2 leads epoch 2""")

    # The new leader's own record is what makes the older ones safe; then it calls them committed.
    world.run_until(lambda: world.all_reached(4), 5_000, "the new epoch's record")
    assert chapter(world, told) == dedent("""\
        2 persists epoch 2 led by 2
        2 flushes its log up to 4
        2 -> 1  BeginQuorumEpoch: 2 leads 2
        2 -> 3  BeginQuorumEpoch: 2 leads 2
        2 => 3  Fetch gets 3..3, high watermark -1 (epoch 2 led by 2), asked in 2 from 3@1
        3 persists epoch 2 led by 2
        3 => 2  BeginQuorumEpoch (epoch 2 led by 2)
        3 flushes its log up to 4
        2 => 3  Fetch gets nothing, high watermark 4 (epoch 2 led by 2), asked in 2 from 4@2""")

    # The old leader is back.  Its disk says that it led epoch 1, so it resigns from that, learns of
    # epoch 2, and cuts off the record that no other voter has.
    world.start(1)
    world.run_until(lambda: world.all_reached(4), 5_000, "the old leader follows")
    assert chapter(world, told) == dedent("""\
        1 starts
        1 persists epoch 1 led by 1
        1 flushes its log up to 4
        1 -> 2  EndQuorumEpoch: 1 led 1, heirs []
        1 -> 3  EndQuorumEpoch: 1 led 1, heirs []
        2 => 1  EndQuorumEpoch fenced_leader_epoch (epoch 2 led by 2)
        3 => 1  EndQuorumEpoch fenced_leader_epoch (epoch 2 led by 2)
        1 persists epoch 2 led by 2
        2 => 1  Fetch diverges at 3@1 (epoch 2 led by 2), asked in 2 from 4@1
        2 => 1  Fetch gets 3..3, high watermark 4 (epoch 2 led by 2), asked in 2 from 3@1""")
