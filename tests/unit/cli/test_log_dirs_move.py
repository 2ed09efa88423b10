"""``zkctl log-dirs move``: when the moves that it follows are over."""

from __future__ import annotations

import asyncio

import pytest

from zkcontroller_cli.moving.log_dirs_move import settled_placements
from zkcontroller_cli.values.move_state import Placement
from zkcontroller_cli.values.moves import NamedPartition

ORDERS, BILLS = NamedPartition("orders", 0), NamedPartition("bills", 0)
OLD, MOVING, THERE = Placement("/old"), Placement("/old", "/new"), Placement("/new")


def settled(
    *looks: dict[NamedPartition, Placement], target: str | None = "/new", is_waiting: bool = True
) -> tuple[dict[NamedPartition, Placement], int]:
    """What counts, and the number of looks that it took."""
    remaining = list(looks)

    async def look() -> dict[NamedPartition, Placement]:
        return remaining.pop(0)

    found = asyncio.run(
        settled_placements(look, target, is_waiting=is_waiting, on_left=lambda _: None, poll_s=0.0)
    )
    return found, len(looks) - len(remaining)


def test_moves_are_followed_until_none_is_on_its_way() -> None:
    looks = [{ORDERS: MOVING, BILLS: THERE}, {ORDERS: MOVING, BILLS: THERE}]

    assert settled(*looks, {ORDERS: THERE, BILLS: THERE}) == ({ORDERS: THERE, BILLS: THERE}, 3)
    assert settled(*looks, is_waiting=False) == (looks[0], 1)


@pytest.mark.parametrize("is_waiting", [True, False])
def test_a_replica_that_is_exchanged_while_a_broker_lists_its_logs_is_looked_at_again(
    is_waiting: bool,
) -> None:
    found, looks = settled({ORDERS: OLD}, {ORDERS: THERE}, {ORDERS: OLD}, is_waiting=is_waiting)

    assert (found, looks) == ({ORDERS: THERE}, 2)


def test_a_replica_that_is_not_moved_is_said_to_be_where_it_is_after_two_looks() -> None:
    assert settled({ORDERS: MOVING}, {ORDERS: OLD}, {ORDERS: OLD}) == ({ORDERS: OLD}, 3)


def test_after_a_cancellation_a_replica_stays_where_it_is() -> None:
    assert settled({ORDERS: OLD}, target=None) == ({ORDERS: OLD}, 1)
