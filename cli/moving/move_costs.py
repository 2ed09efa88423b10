"""What moves copy: the sizes of partitions, read from the brokers that hold them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.moving.moves_reading import MovesReading, sizes_in, usable_in
from zkcontroller_cli.values.move_state import MoveEstimate, estimate
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.log_dirs import readable_log_dirs
from zkcontroller_cli.wire.requests import Deadline

COSTS_S: Final = 5.0
"""A broker that does not describe its logs in this time leaves sizes unknown."""


class MoveCosts(NamedTuple):
    """What a plan costs."""

    estimate: MoveEstimate
    sizes: dict[NamedPartition, int]
    """By partition that moves, where it is known."""
    usable: dict[int, int]
    """By broker the bytes that its volumes can still take, where it tells them."""


async def costs_of(
    bootstrap: Bootstrap,
    reading: MovesReading,
    wanted: Mapping[NamedPartition, tuple[int, ...]],
) -> MoveCosts:
    """The costs of giving partitions these replicas."""
    asked: dict[int, list[NamedPartition]] = {}
    for name, target in wanted.items():
        now = reading.current.get(name, ())
        if set(target) - set(now):
            for broker in now:
                asked.setdefault(broker, []).append(name)
            for broker in target:
                asked.setdefault(broker, [])
    found = await readable_log_dirs(
        reading.addresses,
        Deadline(COSTS_S),
        bootstrap.security,
        {broker: names for broker, names in asked.items() if broker in reading.live},
    )
    sizes = sizes_in(found.log_dirs)
    planned = estimate(wanted, reading.current, reading.leaders, sizes)
    return MoveCosts(planned, sizes, usable_in(found.log_dirs))


async def all_sizes(bootstrap: Bootstrap, reading: MovesReading) -> dict[NamedPartition, int]:
    """The bytes of every partition, as far as live brokers describe their logs."""
    found = await readable_log_dirs(
        reading.addresses,
        Deadline(COSTS_S),
        bootstrap.security,
        dict.fromkeys(sorted(reading.live)),
    )
    return sizes_in(found.log_dirs)
