"""Worlds of the simulation, each made by a seed."""

from __future__ import annotations

from collections.abc import Callable

from kafka_common.errors import ZkControllerError, ZooKeeperRefused
from tests.simulation.chaos import Chaos
from zkcontroller_simulation.world import World


def stormy_world(seed: int, actions: int = 120) -> World:
    def live(chaos: Chaos) -> None:
        chaos.storm(actions)
        chaos.end()

    return _lived(seed, live)


def drizzly_world(seed: int) -> World:
    return _lived(seed, lambda chaos: chaos.drizzle(60))


def calm_world(seed: int) -> World:
    return _lived(seed, lambda chaos: chaos.live_calmly(60))


def refusing_world(seed: int, actions: int = 60) -> World:
    def live(chaos: Chaos) -> None:
        chaos.refuse(actions)
        chaos.end()

    return _lived(seed, live)


def contested_world(seed: int, deletions: int) -> World:
    """Controllers follow each other so quickly that one is often deposed amid its failover."""

    def live(chaos: Chaos) -> None:
        chaos.delete_controllers(deletions)
        chaos.await_controller()
        chaos.end()
        assert chaos.deletions >= deletions

    return _lived(seed, live)


def _lived(seed: int, live: Callable[[Chaos], None]) -> World:
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    live(chaos)
    return world


def is_refusal(error: ZkControllerError) -> bool:
    """Whether an event may end with it where ZooKeeper refuses what it is asked."""
    return isinstance(error, ZooKeeperRefused)
