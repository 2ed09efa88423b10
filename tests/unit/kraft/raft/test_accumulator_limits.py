"""How much fits into a batch on its way to the leader's log, and what pinned records hold back."""

from __future__ import annotations

import pytest

from kafka_common.errors import RecordListTooLarge
from kafka_common.protocol.record_batch import HEADER_BYTES
from kraft.raft.accumulator import BatchAccumulator
from kraft.raft.config import MAX_BATCH_BYTES, NEVER_MS
from tests.support.raft_harness import START_MS, batches_in

EPOCH, BASE, LINGER_MS = 17, 157, 25
HALF = b"h" * (MAX_BATCH_BYTES // 2)
"""Two of these do not fit into one batch."""
MOST_OVERHEAD = 22
"""Of one record: attributes, and five varints of which those of lengths have up to five bytes."""


@pytest.fixture
def accumulator() -> BatchAccumulator:
    return BatchAccumulator(EPOCH, BASE, LINGER_MS)


def test_the_largest_record_that_is_taken_makes_a_batch_that_may_be_appended(
    accumulator: BatchAccumulator,
) -> None:
    largest = b"l" * (MAX_BATCH_BYTES - HEADER_BYTES - MOST_OVERHEAD)

    with pytest.raises(RecordListTooLarge, match="maximum allowed batch size"):
        accumulator.prepare(EPOCH, [largest + b"l"], START_MS)
    accumulator.prepare(EPOCH, [largest], START_MS)
    accumulator.allow_drain()

    (batch,) = accumulator.drain(START_MS + LINGER_MS)
    assert len(largest) < len(batch.data) <= MAX_BATCH_BYTES


def test_small_records_are_counted_with_what_each_of_them_costs(
    accumulator: BatchAccumulator,
) -> None:
    many = MAX_BATCH_BYTES // MOST_OVERHEAD

    with pytest.raises(RecordListTooLarge, match="maximum allowed batch size"):
        accumulator.prepare(EPOCH, [b"v"] * many, START_MS)

    assert accumulator.next_offset == BASE


def test_of_full_batches_those_in_front_of_the_first_pinned_record_leave_alone(
    accumulator: BatchAccumulator,
) -> None:
    accumulator.prepare(EPOCH, [HALF], START_MS)
    accumulator.allow_drain()
    accumulator.prepare(EPOCH, [HALF], START_MS)
    accumulator.prepare(EPOCH, [HALF], START_MS)

    assert [batch.last_offset for batch in accumulator.drain(START_MS + LINGER_MS)] == [BASE]
    assert accumulator.deadline_ms() == NEVER_MS
    accumulator.allow_drain()
    drained = accumulator.drain(START_MS + LINGER_MS)

    assert [batch.last_offset for batch in drained] == [BASE + 1, BASE + 2]


def test_a_batch_that_is_open_when_others_leave_takes_more_records(
    accumulator: BatchAccumulator,
) -> None:
    accumulator.prepare(EPOCH, [HALF], START_MS)
    accumulator.allow_drain()
    accumulator.prepare(EPOCH, [HALF], START_MS)
    assert len(accumulator.drain(START_MS + LINGER_MS)) == 1

    accumulator.prepare(EPOCH, [b"more"], START_MS + LINGER_MS)
    accumulator.allow_drain()

    (batch,) = accumulator.drain(START_MS + 2 * LINGER_MS)
    ((header, records),) = batches_in(batch.data)
    assert (header.base_offset, [len(record.value or b"") for record in records]) == (
        BASE + 1,
        [len(HALF), 4],
    )
