"""Where the striped placer puts replicas, and in which order it goes round brokers and racks.

Source of the behaviours: Kafka ``StripedReplicaPlacer`` (its description of the algorithm).
"""

from collections import Counter
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.cluster_view import UsableBroker
from kraft.controller.replica_placer import StripedReplicaPlacer


def brokers(*ids: int, rack: str | None = None, fenced: bool = False) -> list[UsableBroker]:
    return [UsableBroker(broker_id, rack, fenced) for broker_id in ids]


def place(
    partition_count: int, replication_factor: int, cluster: list[UsableBroker], seed: int = 7
) -> list[tuple[int, ...]]:
    return StripedReplicaPlacer(Random(seed)).place(partition_count, replication_factor, cluster)


def test_racks_take_turns_and_so_do_the_brokers_of_a_rack() -> None:
    cluster = [
        *brokers(0, 1, 2, rack="a"), *brokers(10, 11, 12, rack="b"), *brokers(20, 21, 22, rack="c")
    ]  # fmt: skip

    first, second, third = place(3, 3, cluster)

    for replicas in (first, second, third):
        assert sorted(broker // 10 for broker in replicas) == [0, 1, 2]
    leaders = [replicas[0] // 10 for replicas in (first, second, third)]
    assert leaders in ([0, 1, 2], [1, 2, 0], [2, 0, 1])
    assert len({*first, *second, *third}) == 9


def test_a_fenced_broker_comes_only_when_its_rack_has_no_unfenced_one_left() -> None:
    cluster = [*brokers(1, 2, 3), *brokers(4, fenced=True)]

    assert all(4 not in replicas for replicas in place(30, 3, cluster))
    assert all(replicas[-1] == 4 for replicas in place(30, 4, cluster))


def test_a_fenced_broker_never_leads() -> None:
    cluster = [*brokers(1, rack="a", fenced=True), *brokers(2, rack="b", fenced=True), *brokers(3)]

    assert {replicas[0] for replicas in place(20, 3, cluster)} == {3}


def test_replicas_are_spread_evenly_over_equal_racks() -> None:
    cluster = [*brokers(1, 2, rack="a"), *brokers(3, 4, rack="b"), *brokers(5, 6, rack="c")]

    placed = place(600, 3, cluster)

    load = Counter(broker for replicas in placed for broker in replicas)
    assert sum(load.values()) == 1800
    assert {sum(load[b] for b in rack) for rack in ((1, 2), (3, 4), (5, 6))} == {600}
    assert all(len({(broker - 1) // 2 for broker in replicas}) == 3 for replicas in placed)


@pytest.mark.parametrize(
    ("replication_factor", "cluster", "message"),
    [
        (0, brokers(1), "Invalid replication factor 0: the replication factor must be positive."),
        (-1, brokers(1), "Invalid replication factor -1: the replication factor must be positive."),
        (1, brokers(1, 2, fenced=True), "All brokers are currently fenced."),
        (
            3,
            brokers(1, 2),
            "The target replication factor of 3 cannot be reached because only 2 broker(s) are "
            "registered.",
        ),
    ],
)
def test_what_cannot_be_placed_is_refused(
    replication_factor: int, cluster: list[UsableBroker], message: str
) -> None:
    with pytest.raises(ApiException) as refused:
        place(1, replication_factor, cluster)

    assert refused.value.to_error() == (ErrorCode.invalid_replication_factor, message)


@settings(deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_whatever_the_cluster_replicas_differ_and_the_leader_is_unfenced(
    data: st.DataObject, seed: int
) -> None:
    racks = st.sampled_from([None, "a", "b", "c"])
    described = data.draw(st.lists(st.tuples(racks, st.booleans()), min_size=1, max_size=9))
    cluster = [UsableBroker(i, rack, fenced) for i, (rack, fenced) in enumerate(described)]
    unfenced = [broker.broker_id for broker in cluster if not broker.fenced]
    replication_factor = data.draw(st.integers(1, len(cluster)))
    if not unfenced:
        return

    for replicas in place(25, replication_factor, cluster, seed):
        assert len(replicas) == len(set(replicas)) == replication_factor
        assert replicas[0] in unfenced


# ---------------------------------------------------------------------- in which order

SEEDS = range(12)


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
