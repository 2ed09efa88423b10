"""Records on their way into the leader's log."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kafka_common.errors import BufferAllocation, NotLeader, RecordListTooLarge
from kraft.raft.accumulator import BatchAccumulator, CompletedBatch
from kraft.raft.config import MAX_BATCH_BYTES, MAX_COMPLETED_BATCHES, NEVER_MS
from tests.support.raft_harness import START_MS, batches_in

EPOCH = 17
BASE = 157
LINGER_MS = 25
HALF = b"h" * (MAX_BATCH_BYTES // 2)
"""Two of these do not fit into one batch."""
CONTROL = (b"\0\0\0\2", b"value")


@pytest.fixture
def accumulator() -> BatchAccumulator:
    return BatchAccumulator(EPOCH, BASE, LINGER_MS)


def append(accumulator: BatchAccumulator, *values: bytes, now_ms: int = START_MS) -> int:
    """Prepared, and allowed to leave at once."""
    last = accumulator.prepare(EPOCH, values, now_ms)
    accumulator.allow_drain()
    return last


def values_in(batches: Sequence[CompletedBatch]) -> list[list[bytes | None]]:
    return [
        [record.value for record in content]
        for batch in batches
        for _, content in batches_in(batch.data)
    ]


def test_an_empty_accumulator_has_nothing_to_drain(accumulator: BatchAccumulator) -> None:
    assert accumulator.deadline_ms() == NEVER_MS
    assert accumulator.drain(START_MS + LINGER_MS) == []


def test_the_first_append_starts_the_linger(accumulator: BatchAccumulator) -> None:
    append(accumulator, b"a")
    append(accumulator, b"b", now_ms=START_MS + 10)

    assert accumulator.deadline_ms() == START_MS + LINGER_MS
    assert accumulator.drain(START_MS + LINGER_MS - 1) == []
    assert values_in(accumulator.drain(START_MS + LINGER_MS)) == [[b"a", b"b"]]


def test_after_a_drain_the_next_append_starts_the_linger_anew(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, b"a")
    accumulator.drain(START_MS + LINGER_MS)
    assert accumulator.deadline_ms() == NEVER_MS

    append(accumulator, b"b", now_ms=START_MS + 100)

    assert accumulator.deadline_ms() == START_MS + 100 + LINGER_MS


def test_without_a_linger_an_append_can_leave_at_once() -> None:
    accumulator = BatchAccumulator(EPOCH, BASE, 0)

    append(accumulator, b"a")

    assert values_in(accumulator.drain(START_MS)) == [[b"a"]]


def test_an_append_gives_the_offset_of_its_last_record(accumulator: BatchAccumulator) -> None:
    assert append(accumulator, b"a") == BASE
    assert append(accumulator, b"b", b"c", b"d") == BASE + 3
    assert accumulator.next_offset == BASE + 4


def test_a_batch_bears_the_epoch_and_the_time_of_its_first_record(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, b"a", b"b")
    append(accumulator, b"c", now_ms=START_MS + 9)

    (completed,) = accumulator.drain(START_MS + LINGER_MS)
    ((header, _),) = batches_in(completed.data)

    assert (header.base_offset, header.last_offset, header.record_count) == (BASE, BASE + 2, 3)
    assert (header.partition_leader_epoch, header.magic, header.attributes) == (EPOCH, 2, 0)
    assert (header.base_timestamp, header.max_timestamp) == (START_MS, START_MS)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (-1, -1, -1)
    assert completed.last_offset == BASE + 2


def test_records_of_an_epoch_that_is_over_are_refused(accumulator: BatchAccumulator) -> None:
    with pytest.raises(NotLeader, match="Current leader epoch = 17"):
        accumulator.prepare(EPOCH - 1, [b"a"], START_MS)


def test_records_of_an_epoch_that_has_not_begun_are_a_mistake(
    accumulator: BatchAccumulator,
) -> None:
    with pytest.raises(ValueError, match="has not begun"):
        accumulator.prepare(EPOCH + 1, [b"a"], START_MS)


def test_an_append_without_records_is_a_mistake(accumulator: BatchAccumulator) -> None:
    with pytest.raises(ValueError, match="without records"):
        accumulator.prepare(EPOCH, [], START_MS)


# What was prepared and may not leave yet.


def test_what_was_prepared_does_not_leave_before_it_is_allowed_to(
    accumulator: BatchAccumulator,
) -> None:
    accumulator.prepare(EPOCH, [b"a"], START_MS)

    assert accumulator.deadline_ms() == NEVER_MS
    assert accumulator.drain(START_MS + LINGER_MS) == []
    accumulator.allow_drain()
    assert accumulator.deadline_ms() == START_MS + LINGER_MS

    assert values_in(accumulator.drain(START_MS + LINGER_MS)) == [[b"a"]]


def test_a_full_batch_leaves_while_a_later_append_is_still_prepared(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, HALF)
    accumulator.prepare(EPOCH, [HALF], START_MS + 5)

    assert accumulator.deadline_ms() <= START_MS + 5
    assert [batch.last_offset for batch in accumulator.drain(START_MS + 5)] == [BASE]


def test_a_drain_between_preparing_and_allowing_does_not_lose_the_linger(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, HALF)
    accumulator.prepare(EPOCH, [HALF], START_MS + 5)
    accumulator.drain(START_MS + 5)

    accumulator.allow_drain()

    assert accumulator.deadline_ms() <= START_MS + 5 + LINGER_MS
    drained = accumulator.drain(START_MS + 5 + LINGER_MS)
    assert [batch.last_offset for batch in drained] == [BASE + 1]


def test_the_first_of_several_prepared_appends_pins_them_all(accumulator: BatchAccumulator) -> None:
    for _ in range(3):
        accumulator.prepare(EPOCH, [HALF], START_MS)

    assert accumulator.deadline_ms() == NEVER_MS
    assert accumulator.drain(START_MS + LINGER_MS) == []
    accumulator.allow_drain()

    assert len(accumulator.drain(START_MS + LINGER_MS)) == 3


# Bounds.


def test_what_does_not_fit_begins_a_new_batch_and_the_full_one_need_not_linger(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, HALF)
    append(accumulator, HALF)

    assert accumulator.deadline_ms() <= START_MS
    drained = accumulator.drain(START_MS)

    assert [batch.last_offset for batch in drained] == [BASE, BASE + 1]
    assert all(len(batch.data) <= MAX_BATCH_BYTES for batch in drained)


def test_the_records_of_one_append_are_never_parted(accumulator: BatchAccumulator) -> None:
    third = b"t" * (MAX_BATCH_BYTES // 3 - 1000)
    append(accumulator, third, third)

    append(accumulator, third, third)

    assert [len(values) for values in values_in(accumulator.drain(START_MS + LINGER_MS))] == [2, 2]


def test_an_append_too_large_for_a_batch_is_refused_and_leaves_no_trace(
    accumulator: BatchAccumulator,
) -> None:
    append(accumulator, b"a")

    with pytest.raises(RecordListTooLarge, match="maximum allowed batch size"):
        accumulator.prepare(EPOCH, [HALF, HALF], START_MS)
    assert append(accumulator, b"b") == BASE + 1

    assert values_in(accumulator.drain(START_MS + LINGER_MS)) == [[b"a", b"b"]]


def test_with_too_many_batches_waiting_appends_are_refused_until_some_have_left(
    accumulator: BatchAccumulator,
) -> None:
    for _ in range(MAX_COMPLETED_BATCHES + 1):
        append(accumulator, HALF)

    with pytest.raises(BufferAllocation, match="already wait"):
        accumulator.prepare(EPOCH, [b"a"], START_MS)
    assert len(accumulator.drain(START_MS)) == MAX_COMPLETED_BATCHES + 1

    assert append(accumulator, b"a") == BASE + MAX_COMPLETED_BATCHES + 1


# Control records.


def test_control_records_leave_at_once_in_a_batch_of_their_own(
    accumulator: BatchAccumulator,
) -> None:
    accumulator.append_control([CONTROL, CONTROL], START_MS)

    assert accumulator.deadline_ms() <= START_MS
    (completed,) = accumulator.drain(START_MS)
    ((header, content),) = batches_in(completed.data)

    assert header.is_control
    assert (header.base_offset, header.last_offset) == (BASE, BASE + 1)
    assert header.partition_leader_epoch == EPOCH
    assert [(r.key, r.value) for r in content] == [CONTROL, CONTROL]


def test_control_records_end_the_batch_before_them(accumulator: BatchAccumulator) -> None:
    append(accumulator, b"a")
    accumulator.append_control([CONTROL], START_MS)
    append(accumulator, b"b")

    drained = accumulator.drain(START_MS)
    headers = [header for batch in drained for header, _ in batches_in(batch.data)]

    assert [header.is_control for header in headers] == [False, True, False]
    assert [batch.last_offset for batch in drained] == [BASE, BASE + 1, BASE + 2]
