"""Worlds of the simulation, each made by a seed."""

from __future__ import annotations

from tests.simulation.chaos import Chaos
from zkcontroller.errors import ZkControllerError, ZooKeeperRefused
from zkcontroller_simulation.world import World


def stormy_world(seed: int, deeds: int = 120) -> World:
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    chaos.storm(deeds)
    chaos.end()
    return world


def drizzly_world(seed: int) -> World:
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    chaos.drizzle(60)
    return world


def calm_world(seed: int) -> World:
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    chaos.live_calmly(60)
    return world


def refusing_world(seed: int, deeds: int = 60) -> World:
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    chaos.refuse(deeds)
    chaos.end()
    return world


def contested_world(seed: int, deletions: int) -> World:
    """Controllers follow each other so quickly that one is often deposed amid its failover."""
    world = World(seed)
    chaos = Chaos(world)
    chaos.begin()
    chaos.delete_controllers(deletions)
    chaos.await_controller()
    chaos.end()
    assert chaos.deletions >= deletions
    return world


def is_refusal(error: ZkControllerError) -> bool:
    """Whether an event may end with it where ZooKeeper refuses what it is asked."""
    return isinstance(error, ZooKeeperRefused)
