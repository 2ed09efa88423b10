"""Assignment of replicas: equal to Kafka's own, and even."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from replica_manager.request_errors import RequestRefused
from replica_manager.server.topics.assignment import assign_replicas, rack_alternated

FIVE = dict.fromkeys(range(5))
SIX = dict(enumerate(["rack1", "rack3", "rack3", "rack2", "rack2", "rack1"]))
ODD = dict(enumerate(["rack1", "rack1", "rack1", "rack2", "rack3", "rack3"]))

# Printed by AdminUtils.assignReplicasToBrokers of Kafka 3.9.1: brokers, replication factor, start
# (which is the shift as well), first partition, and the replicas of one partition after the other.
KAFKA_3_9_1 = [
    (FIVE, 3, 0, 0, "012 123 234 340 401 023 134 240 301 412"),
    (FIVE, 3, 2, 0, "201 312 423 034 140 213 324 430 041 102 234 340"),
    (FIVE, 2, 3, 6, "43 04 10 21"),
    (FIVE, 1, 4, 0, "4 0 1"),
    (FIVE, 5, 1, 0, "13402 24013 30124"),
    (SIX, 3, 0, 0, "031 315 154 542 420 203 042"),
    (SIX, 2, 3, 0, "51 45 24 02 30 13 53 41 25 04 32 10"),
    (SIX, 5, 2, 0, "14035 52314 40152 23540 01423 35201 13542"),
    (ODD, 4, 1, 0, "3241 4031 1345 5134 2534 0534 3152 4231"),
    (ODD, 2, 0, 5, "23 05 32 40 13 51"),
    (ODD, 6, 5, 0, "234150 034152 341520 413520 153420 523410"),
]


@pytest.mark.parametrize(("racks", "factor", "start", "first", "expected"), KAFKA_3_9_1)
def test_replicas_are_where_kafka_puts_them(
    racks: dict[int, str | None], factor: int, start: int, first: int, expected: str
) -> None:
    partitions = expected.split()

    assignment = assign_replicas(
        racks, len(partitions), factor, start=start, shift=start, first_partition=first
    )

    assert assignment == {
        first + index: tuple(map(int, replicas)) for index, replicas in enumerate(partitions)
    }


def test_racks_take_turns() -> None:
    assert rack_alternated({b: f"rack{b // 3}" for b in range(9)}) == [0, 3, 6, 1, 4, 7, 2, 5, 8]


@given(
    brokers=st.integers(1, 12),
    partitions=st.integers(1, 40),
    factor=st.integers(1, 12),
    start=st.integers(0, 11),
    shift=st.integers(0, 11),
)
def test_leaders_are_even_and_no_broker_holds_a_partition_twice(
    brokers: int, partitions: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, brokers)

    assignment = assign_replicas(
        dict.fromkeys(range(brokers)), partitions, factor, start=start, shift=shift
    )

    leaders = Counter(replicas[0] for replicas in assignment.values())
    assert max(leaders.values()) - min(leaders[b] for b in range(brokers)) <= 1
    assert all(len(set(replicas)) == factor for replicas in assignment.values())


@given(
    racks=st.lists(st.sampled_from("abcd"), min_size=1, max_size=12),
    partitions=st.integers(1, 20),
    factor=st.integers(1, 12),
    start=st.integers(0, 11),
    shift=st.integers(0, 11),
)
def test_replicas_are_spread_over_as_many_racks_as_there_are(
    racks: list[str], partitions: int, factor: int, start: int, shift: int
) -> None:
    factor = min(factor, len(racks))

    assignment = assign_replicas(
        dict(enumerate(racks)), partitions, factor, start=start, shift=shift
    )

    for replicas in assignment.values():
        assert len(set(replicas)) == factor
        assert len({racks[broker] for broker in replicas}) == min(factor, len(set(racks)))


@pytest.mark.parametrize(
    ("racks", "partitions", "factor", "error"),
    [
        (FIVE, 0, 1, ErrorCode.invalid_partitions),
        (FIVE, -5, 1, ErrorCode.invalid_partitions),
        (FIVE, 1, 0, ErrorCode.invalid_replication_factor),
        (FIVE, 1, 6, ErrorCode.invalid_replication_factor),
        ({}, 1, 1, ErrorCode.invalid_replication_factor),
        ({1: "a", 2: None}, 1, 1, ErrorCode.unknown_server_error),
    ],
)
def test_impossible_counts_are_refused(
    racks: dict[int, str | None], partitions: int, factor: int, error: ErrorCode
) -> None:
    with pytest.raises(RequestRefused) as refused:
        assign_replicas(racks, partitions, factor, start=0, shift=0)

    assert refused.value.error is error
