"""Three nodes of a raft quorum in virtual time: the leader dies, another one is elected.

    python examples/raft_in_virtual_time.py [SEED]

The nodes are those of production (``kraft.raft``); their disks, network and clock are simulated.
The seed decides everything: the same seed prints the same lines.
"""

from __future__ import annotations

import sys

from zkcontroller_simulation.raft_world import RaftWorld

PATIENCE_MS = 60_000


def elect(world: RaftWorld) -> int:
    """Runs until a node leads and all others that run know it; says which one."""
    world.run_until(
        lambda: world.leader is not None and world.has_consistent_leader, PATIENCE_MS, "a leader"
    )
    leader = world.leader
    assert leader is not None
    assert leader.core is not None
    say(world, f"node {leader.number} leads epoch {leader.core.epoch}")
    return leader.number


def say(world: RaftWorld, what: str) -> None:
    """Prints what happened, and when."""
    print(f"{world.timeline.clock.elapsed_ms:6d} ms  {what}")


def main(seed: int = 1) -> None:
    """An election, records, a death, another election, more records."""
    world = RaftWorld(seed)
    world.start()
    world.append_every((5, 15))
    leader = elect(world)
    world.run_until(lambda: world.all_reached(10), PATIENCE_MS, "ten records")
    say(world, "ten records are committed everywhere")

    world.kill(leader)
    say(world, f"node {leader} is killed")
    elect(world)
    committed = world.high_watermark
    world.run_until(lambda: world.high_watermark > committed + 10, PATIENCE_MS, "ten more")
    say(world, "ten more are committed by the other two")
    world.close()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
