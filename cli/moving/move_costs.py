"""The bytes that moves copy, from the sizes of partitions that brokers report."""

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
"""Seconds that a broker may take to describe its logs; then their sizes are not known."""


class MoveCosts(NamedTuple):
    """The bytes that a plan copies, and the free space for them."""

    estimate: MoveEstimate
    sizes: dict[NamedPartition, int]
    """The size in bytes of each partition that moves, if it is known."""
    usable: dict[int, int]
    """By broker, the free bytes of its volumes, if it reports them."""


async def costs_of(
    bootstrap: Bootstrap,
    reading: MovesReading,
    wanted: Mapping[NamedPartition, tuple[int, ...]],
) -> MoveCosts:
    """The costs of reassigning partitions to the replicas ``wanted``."""
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
    """The size in bytes of every partition, as far as live brokers report their logs."""
    found = await readable_log_dirs(
        reading.addresses,
        Deadline(COSTS_S),
        bootstrap.security,
        dict.fromkeys(sorted(reading.live)),
    )
    return sizes_in(found.log_dirs)
