"""In which order the striped placer goes round brokers and racks.

Source of the behaviours: Kafka ``StripedReplicaPlacer`` (its description of the algorithm).
"""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from kraft.controller.cluster_view import UsableBroker
from kraft.controller.replica_placer import StripedReplicaPlacer

SEEDS = range(12)


def brokers(*ids: int, rack: str | None = None, fenced: bool = False) -> list[UsableBroker]:
    return [UsableBroker(broker_id, rack, fenced) for broker_id in ids]


def place(
    partition_count: int, replication_factor: int, cluster: list[UsableBroker], seed: int
) -> list[tuple[int, ...]]:
    return StripedReplicaPlacer(Random(seed)).place(partition_count, replication_factor, cluster)


@pytest.mark.parametrize("seed", SEEDS)
def test_each_partition_begins_one_broker_further_and_goes_up(seed: int) -> None:
    cluster = brokers(0, 1, 2, 3, 4)

    placed = place(10, 3, cluster, seed)

    for turn in (placed[:5], placed[5:]):
        # After as many partitions as brokers everything is shuffled.
        order = [replicas[0] for replicas in turn]
        assert sorted(order) == [0, 1, 2, 3, 4]
        assert turn == [
            tuple(order[(partition + replica) % 5] for replica in range(3))
            for partition in range(5)
        ]
    assert [replicas[0] for replicas in placed[:5]] == [(placed[0][0] + n) % 5 for n in range(5)]


def test_any_broker_and_any_rack_may_be_the_first() -> None:
    one_rack = {place(1, 1, brokers(1, 2, 3), seed)[0][0] for seed in range(60)}
    racks = [*brokers(1, rack="a"), *brokers(2, rack="b"), *brokers(3, rack="c")]

    assert one_rack == {1, 2, 3}
    assert {place(1, 1, racks, seed)[0][0] for seed in range(60)} == {1, 2, 3}


@pytest.mark.parametrize("seed", SEEDS)
def test_within_a_rack_it_does_not_matter_who_is_named_first(seed: int) -> None:
    assert place(4, 3, brokers(5, 3, 1, 4), seed) == place(4, 3, brokers(1, 3, 4, 5), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_racks_take_turns_by_name(seed: int) -> None:
    racks = {"a": 0, "b": 1, "c": 2}
    cluster = [
        broker for rack, n in racks.items() for broker in brokers(10 * n, 10 * n + 1, rack=rack)
    ]

    placed = place(6, 2, cluster, seed)

    order = [[broker // 10 for broker in replicas] for replicas in placed]
    assert all((second - first) % 3 == 1 for first, second in order)
    assert all((after[0] - before[0]) % 3 == 1 for before, after in pairwise(order))


@pytest.mark.parametrize("seed", SEEDS)
def test_fenced_brokers_take_turns_too(seed: int) -> None:
    cluster = [*brokers(1), *brokers(5, 6, 7, fenced=True)]

    followers = [replicas[1:] for replicas in place(6, 3, cluster, seed)]

    assert {follower for pair in followers for follower in pair} == {5, 6, 7}
    assert all((second - first) % 3 == 1 for first, second in followers)
