"""A metadata transaction that begins in the middle of a batch: what came before it counts.

Source of the behaviours: Kafka ``OffsetControlManager``.
"""

from __future__ import annotations

import pytest

from zkcontroller.kraft.controller.offsets import BatchEnd, OffsetControlManager
from zkcontroller.kraft.controller.snapshot_registry import SnapshotRegistry
from zkcontroller.kraft.controller.timeline import TimelineDict, TimelineValue
from zkcontroller.kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from zkcontroller.kraft.values import OffsetAndEpoch


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
