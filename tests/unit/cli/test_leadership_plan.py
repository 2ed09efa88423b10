"""Who leads instead of a broker: in sync, alive, and spread evenly."""

from __future__ import annotations

from importlib import import_module
from random import Random
from typing import Any

import pytest

plan: Any = import_module("zkcontroller_cli.moving.leadership_plan")
NamedPartition: Any = import_module("zkcontroller_cli.values.moves").NamedPartition


def orders(partition: int) -> Any:
    return NamedPartition("orders", partition)


def planned(*led: tuple[Any, ...], live: tuple[int, ...] = (1, 2, 3)) -> list[Any]:
    partitions = {orders(n): plan.LedPartition(*each) for n, each in enumerate(led)}
    found: list[Any] = plan.plan_handovers(partitions, 1, set(live))
    return found


def test_the_next_leader_is_in_sync_and_alive_and_the_broker_comes_last() -> None:
    first, second = planned((1, (1, 2, 3), (1, 3)), (1, (1, 2, 3), (1, 2, 3)), live=(1, 3))

    assert (first.replicas, first.elected) == ((3, 2, 1), 3)
    assert (second.replicas, second.elected) == ((3, 2, 1), 3)


def test_a_partition_that_another_leads_is_reordered_only() -> None:
    [found] = planned((2, (1, 2), (1, 2)))

    assert (found.replicas, found.elected, found.reason) == ((2, 1), None, None)


def test_what_cannot_be_handed_over_is_named() -> None:
    alone, lagging = planned((1, (1,), (1,)), (1, (1, 2), (1,)))

    assert alone.reason == lagging.reason == "no other replica is in sync"
    assert alone.replicas == (1,)
    [moving] = plan.plan_handovers(
        {orders(0): plan.LedPartition(1, (1, 2), (1, 2))}, 1, {1, 2}, {orders(0)}
    )
    assert moving.reason == "it is being moved"


def test_partitions_that_the_broker_neither_leads_nor_prefers_are_left_alone() -> None:
    assert planned((2, (2, 1), (1, 2)), (2, (2, 3), (2, 3))) == []


@pytest.mark.parametrize("seed", range(50))
def test_no_broker_gets_all_the_leaderships(seed: int) -> None:
    random = Random(seed)
    others = [2, 3, 4, 5]
    led = [(1, (1, *random.sample(others, 3)), (1, *others)) for _ in range(40)]

    found = planned(*led, live=(1, *others))

    counts = [sum(each.elected == broker for each in found) for broker in others]
    assert sum(counts) == 40
    assert max(counts) - min(counts) <= 2
    assert all(each.replicas[-1] == 1 and set(each.replicas) == set(e[1])
               for each, e in zip(found, led, strict=True))  # fmt: skip
