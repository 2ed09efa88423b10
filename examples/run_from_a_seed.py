"""A run of the simulator from a seed: what brokers, controllers and ZooKeeper did, line by line.

    python examples/run_from_a_seed.py [SEED]

The controller is the one of production; ZooKeeper, brokers, network and clock are simulated.  A
broker dies while it is the controller and leads a partition.  Another seed is another order of
what happens at the same time.
"""

from __future__ import annotations

import sys

from zkcontroller_simulation.world import World


def main(seed: int = 7) -> None:
    """Three brokers, a topic, a death."""
    world = World(seed)
    world.start_brokers(1, 2, 3)
    world.run_until_quiet()
    controller = world.active_controller
    assert controller is not None
    others = [broker for broker in (1, 2, 3) if broker != controller]
    world.create_topic("orders", [[controller, *others]])
    world.run_until_quiet()

    begun = len(world.timeline.history)
    world.kill(controller)
    world.run_until(lambda: world.active_controller in others)
    world.run_until_quiet()

    print(*world.timeline.history[begun:], sep="\n")
    state = world.state_znode("orders", 0)
    print(f"\nbroker {controller} led orders-0, and now broker {state.leader} does")
    print(f"controller {world.active_controller} in epoch {world.controller_epoch}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
