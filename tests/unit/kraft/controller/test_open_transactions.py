"""A metadata transaction that begins in the middle of a batch: what came before it counts.

Source of the behaviours: Kafka ``OffsetControlManager``.
"""

from __future__ import annotations

import pytest

from kafka_common.errors import IllegalState
from kraft.controller.offsets import BatchEnd, OffsetControlManager
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineValue
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kraft.raft.values import OffsetAndEpoch


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


@pytest.fixture
def offsets(registry: SnapshotRegistry) -> OffsetControlManager:
    return OffsetControlManager(registry)


def test_what_stands_in_front_of_a_transaction_in_its_batch_is_stable_and_no_more(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "nothing")
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))

    value.set("in front")
    offsets.replay(BeginTransactionRecord(), 105)
    value.set("within")
    offsets.handle_commit_batch(BatchEnd(110, 3, 0))

    assert (offsets.last_committed_offset, offsets.last_stable_offset) == (110, 104)
    assert (value.get(epoch=104), value.get()) == ("in front", "within")


def test_a_transaction_that_is_aborted_takes_back_what_it_wrote_and_nothing_else(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    values: TimelineDict[str, int] = TimelineDict(registry)
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))

    values["in front"] = 1
    offsets.replay(BeginTransactionRecord(), 101)
    values["within"] = 2
    offsets.replay(AbortTransactionRecord(), 103)
    values["behind"] = 3
    offsets.handle_commit_batch(BatchEnd(104, 3, 0))

    assert dict(values.items()) == {"in front": 1, "behind": 3}
    assert offsets.last_stable_offset == 104
    assert registry.epochs() == [104]


def test_one_transaction_after_the_other_in_one_batch(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    values: TimelineDict[str, int] = TimelineDict(registry)
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))

    for begin, name in ((100, "first"), (103, "second")):
        offsets.replay(BeginTransactionRecord(), begin)
        values[name] = begin
        if name == "first":
            offsets.replay(EndTransactionRecord(), begin + 2)
    offsets.handle_commit_batch(BatchEnd(104, 3, 0))

    assert offsets.last_stable_offset == 102
    assert dict(values.items(epoch=102)) == {"first": 100}
    offsets.replay(AbortTransactionRecord(), 105)
    offsets.handle_commit_batch(BatchEnd(105, 3, 0))

    assert dict(values.items()) == {"first": 100}


def test_a_snapshot_says_how_far_everything_is(offsets: OffsetControlManager) -> None:
    offsets.handle_commit_batch(BatchEnd(7, 1, 5))

    offsets.begin_load_snapshot(OffsetAndEpoch(4000, 300))
    offsets.end_load_snapshot(99)

    assert offsets.last_committed_record_offset == offsets.last_applied_record_offset == 3999
    assert offsets.last_applied_record_timestamp_ms == 99
    assert (offsets.last_committed_epoch, offsets.next_write_offset) == (300, -1)


def test_a_transaction_that_was_not_committed_is_not_open_after_the_leadership(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "before")
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))
    offsets.activate(100)
    offsets.replay(BeginTransactionRecord(), 100)
    value.set("within")
    offsets.handle_schedule_append(100, 0)

    offsets.deactivate()

    assert (value.get(), offsets.transaction_start_offset) == ("before", -1)
    offsets.activate(100)
    offsets.replay(BeginTransactionRecord(), 100)
    offsets.handle_schedule_append(100, 0)
    assert offsets.transaction_start_offset == 100


def test_a_transaction_that_was_committed_in_part_stays_open_with_what_was_committed(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "before")
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))
    offsets.activate(100)
    offsets.replay(BeginTransactionRecord(), 100)
    value.set("committed")
    offsets.handle_schedule_append(101, 0)
    value.set("lost")
    offsets.replay(EndTransactionRecord(), 103)
    offsets.handle_schedule_append(103, 0)
    offsets.handle_commit_batch(BatchEnd(101, 3, 0))
    assert offsets.last_stable_offset == 99, "the end of the transaction is not committed"

    offsets.deactivate()

    assert (value.get(), offsets.transaction_start_offset) == ("committed", 100)
    assert value.get(epoch=offsets.last_stable_offset) == "before"
    # The next leader's log may have the end of it.
    offsets.replay(EndTransactionRecord(), 102)
    offsets.handle_commit_batch(BatchEnd(102, 4, 0))
    assert (value.get(), offsets.last_stable_offset) == ("committed", 102)


def test_an_abort_that_may_never_be_committed_leaves_no_way_back_but_a_restart(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "before")
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))
    offsets.replay(BeginTransactionRecord(), 100)
    value.set("committed")
    offsets.handle_commit_batch(BatchEnd(101, 3, 0))
    offsets.activate(102)
    offsets.replay(AbortTransactionRecord(), 102)
    offsets.handle_schedule_append(102, 0)

    with pytest.raises(IllegalState, match="no in-memory snapshot at 101"):
        offsets.deactivate()
