"""Requests that wait: each comes out once, in order, by an event or by its time.

Source of the behaviours: Kafka ``DelayedOperationTest``, ``ReplicaManagerTest``.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.delayed_fetch import (
    DelayedFetch,
    FetchPartitionStatus,
    must_respond_at_once,
)
from replica_manager.replication.delayed_produce import DelayedProduce, must_wait
from replica_manager.replication.fetch_values import FetchPartitionData, TopicIdPartition
from replica_manager.replication.purgatory import Purgatory

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


class Waiting:
    """Waits until someone says that it is done."""

    def __init__(self) -> None:
        self.is_done = False

    def is_complete(self) -> bool:
        return self.is_done


# ---------------------------------------------------------------------- the purgatory


def test_what_is_complete_already_does_not_wait() -> None:
    purgatory: Purgatory[str, Waiting] = Purgatory()
    operation = Waiting()
    operation.is_done = True

    assert not purgatory.park(operation, ["a"], 10)
    assert len(purgatory) == purgatory.watched == 0


def test_an_event_takes_out_who_is_complete_and_leaves_the_rest() -> None:
    purgatory: Purgatory[str, Waiting] = Purgatory()
    first, second, third = Waiting(), Waiting(), Waiting()
    for operation, keys in ((first, "ab"), (second, "a"), (third, "b")):
        assert purgatory.park(operation, keys, 10)
    first.is_done = third.is_done = True

    assert purgatory.check("a") == [first]
    assert purgatory.check("a") == []
    assert (len(purgatory), purgatory.watched) == (2, 2)
    assert purgatory.check("b") == [third]
    assert purgatory.check("unknown") == []


def test_time_takes_out_the_earliest_first_and_each_once() -> None:
    purgatory: Purgatory[str, Waiting] = Purgatory()
    late, early, done = Waiting(), Waiting(), Waiting()
    for operation, deadline_ms in ((late, 30), (early, 20), (done, 10)):
        purgatory.park(operation, ["a"], deadline_ms)
    done.is_done = True
    purgatory.check("a")

    assert purgatory.next_deadline_ms == 20
    assert purgatory.expire(19) == []
    assert purgatory.expire(30) == [early, late]
    assert purgatory.next_deadline_ms is None
    assert purgatory.watched == 0


def test_more_than_the_most_do_not_wait() -> None:
    purgatory: Purgatory[str, Waiting] = Purgatory(most_waiting=1)
    assert purgatory.park(Waiting(), ["a"], 10)

    assert not purgatory.park(Waiting(), ["a"], 10)

    assert len(purgatory) == 1


def test_an_operation_whose_client_is_gone_is_forgotten() -> None:
    purgatory: Purgatory[str, Waiting] = Purgatory()
    operation = Waiting()
    purgatory.park(operation, ["a", "b"], 10)

    purgatory.remove(operation)

    assert purgatory.watched == 0
    assert purgatory.expire(10) == []


@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("park"), st.integers(0, 3), st.integers(0, 50)),
            st.tuples(st.just("finish"), st.integers(0, 30), st.just(0)),
            st.tuples(st.just("check"), st.integers(0, 3), st.just(0)),
            st.tuples(st.just("expire"), st.just(0), st.integers(0, 50)),
        ),
        max_size=60,
    )
)
def test_whatever_happens_each_operation_comes_out_once(
    scenario: list[tuple[str, int, int]],
) -> None:
    purgatory: Purgatory[int, Waiting] = Purgatory()
    parked: list[Waiting] = []
    out: list[Waiting] = []
    for deed, number, time_ms in scenario:
        if deed == "park":
            parked.append(Waiting())
            purgatory.park(parked[-1], {number, 3 - number}, time_ms)
        elif deed == "finish" and number < len(parked):
            parked[number].is_done = True
        elif deed == "check":
            out += purgatory.check(number)
        elif deed == "expire":
            out += purgatory.expire(time_ms)
        assert len(purgatory) + len(out) == len(parked)
        assert len(purgatory._deadlines) <= 2 * len(purgatory) + 1
    out += purgatory.expire(50)

    assert sorted(map(id, out)) == sorted(map(id, parked))
    assert purgatory.watched == 0


# ---------------------------------------------------------------------- produce


class Committed:
    """High watermarks, and partitions that are led elsewhere."""

    def __init__(self) -> None:
        self.high_watermarks = {ZERO: 0, ONE: 0}

    def check(self, partition: TopicPartition, offset: int) -> tuple[bool, ErrorCode]:
        high_watermark = self.high_watermarks.get(partition)
        if high_watermark is None:
            return False, ErrorCode.not_leader_or_follower
        return high_watermark >= offset, ErrorCode.none


def test_a_produce_waits_for_every_partition_that_took_records() -> None:
    committed = Committed()
    produce = DelayedProduce({ZERO: 3, ONE: 5}, {}, committed.check)
    committed.high_watermarks = {ZERO: 3, ONE: 4}

    assert not produce.is_complete()
    assert produce.errors == {ZERO: ErrorCode.none, ONE: ErrorCode.request_timed_out}

    committed.high_watermarks[ONE] = 5
    assert produce.is_complete()
    assert produce.errors == {ZERO: ErrorCode.none, ONE: ErrorCode.none}


def test_a_leader_that_is_deposed_answers_at_once_and_an_earlier_success_stays() -> None:
    committed = Committed()
    produce = DelayedProduce({ZERO: 3, ONE: 5}, {}, committed.check)
    committed.high_watermarks[ZERO] = 3
    produce.is_complete()

    del committed.high_watermarks[ZERO], committed.high_watermarks[ONE]

    assert produce.is_complete()
    assert produce.errors == {ZERO: ErrorCode.none, ONE: ErrorCode.not_leader_or_follower}


def test_what_was_refused_keeps_its_error_and_is_not_waited_for() -> None:
    committed = Committed()
    refused = {ONE: ErrorCode.message_too_large}
    produce = DelayedProduce({ZERO: 1}, refused, committed.check)
    committed.high_watermarks[ZERO] = 1

    assert produce.is_complete()
    assert produce.errors == {ZERO: ErrorCode.none, ONE: ErrorCode.message_too_large}


def test_only_acks_all_with_records_waits() -> None:
    assert must_wait(-1, {ZERO: 1})
    assert not must_wait(1, {ZERO: 1})
    assert not must_wait(-1, {})


# ---------------------------------------------------------------------- fetch


class Place(NamedTuple):
    """A place in a log of segments of 10 offsets, 100 bytes a record."""

    message_offset: int

    @property
    def segment(self) -> int:
        return self.message_offset // 10

    def is_on_older_segment(self, other: Place, /) -> bool:
        return self.segment < other.segment

    def bytes_until(self, later: Place, /) -> int | None:
        if self.segment != later.segment:
            return None
        return 100 * (later.message_offset - self.message_offset)


class Leader:
    """Two partitions from offset 13 on, and their results."""

    def __init__(self, min_bytes: int, *, last_fetched_epoch: int = -1) -> None:
        self.ends: dict[int, Place | ErrorCode] = {0: Place(13), 1: Place(13)}
        self.has_diverged = False
        wanted = FetchPartition(None, 13, 250, last_fetched_epoch=last_fetched_epoch)
        self.fetch = DelayedFetch(
            [
                FetchPartitionStatus(TopicIdPartition(None, "orders", partition), Place(13), wanted)
                for partition in self.ends
            ],
            min_bytes,
            lambda parked: self.ends[parked.partition.partition],
            lambda _: self.has_diverged,
        )


def test_a_fetch_waits_for_its_bytes_over_all_partitions() -> None:
    leader = Leader(min_bytes=300)
    assert not leader.fetch.is_complete()

    leader.ends[0] = Place(15)
    assert not leader.fetch.is_complete()

    leader.ends[1] = Place(14)
    assert leader.fetch.is_complete()


def test_a_partition_counts_no_more_than_it_may_send() -> None:
    leader = Leader(min_bytes=300)

    leader.ends[0] = Place(19)

    assert not leader.fetch.is_complete()


@pytest.mark.parametrize(
    "end", [Place(20), Place(12), ErrorCode.fenced_leader_epoch, ErrorCode.not_leader_or_follower]
)
def test_a_new_segment_a_truncation_and_a_lost_leadership_end_the_waiting(
    end: Place | ErrorCode,
) -> None:
    leader = Leader(min_bytes=1_000_000)

    leader.ends[1] = end

    assert leader.fetch.is_complete()


def test_a_divergence_ends_the_waiting_of_who_named_its_last_epoch() -> None:
    for last_fetched_epoch in (-1, 4):
        leader = Leader(min_bytes=1_000_000, last_fetched_epoch=last_fetched_epoch)
        leader.has_diverged = True

        assert leader.fetch.is_complete() == (last_fetched_epoch == 4)


def test_what_is_answered_at_once() -> None:
    def at_once(*results: FetchPartitionData, max_wait_ms: int = 500, min_bytes: int = 5) -> bool:
        return must_respond_at_once(results, max_wait_ms=max_wait_ms, min_bytes=min_bytes)

    nothing = FetchPartitionData(ErrorCode.none)

    assert not at_once(nothing)
    assert not at_once(nothing._replace(records=b"1234"))
    assert at_once()
    assert at_once(nothing, max_wait_ms=0)
    assert at_once(nothing, nothing._replace(records=b"12345"))
    assert at_once(nothing, min_bytes=0)
    assert at_once(FetchPartitionData(ErrorCode.fenced_leader_epoch), nothing)
    assert at_once(nothing._replace(diverging_epoch=EpochEndOffset(1, 1)))
    assert at_once(nothing._replace(preferred_read_replica=2))
