"""Offsets and transactions, answers that wait for them, and the order of events.

Source of the behaviours: Kafka ``OffsetControlManagerTest``, ``DeferredEventQueueTest``,
``KafkaEventQueueTest``.
"""

from __future__ import annotations

from weakref import WeakSet

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_common.errors import IllegalState
from kraft.controller.controller_event_queue import ControllerEventQueue
from kraft.controller.deferred_events import DeferredEventQueue
from kraft.controller.offsets import NONE, BatchEnd, OffsetControlManager
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineValue
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)
from kraft.raft.values import OffsetAndEpoch

BEGIN, END, ABORT = BeginTransactionRecord(), EndTransactionRecord(), AbortTransactionRecord()


@pytest.fixture
def registry() -> SnapshotRegistry:
    return SnapshotRegistry()


@pytest.fixture
def offsets(registry: SnapshotRegistry) -> OffsetControlManager:
    return OffsetControlManager(registry)


# ---------------------------------------------------------------------- offsets


def test_in_the_beginning_there_is_a_snapshot_of_nothing(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    assert registry.epochs() == [NONE]
    assert not offsets.is_active
    assert offsets.last_committed_offset == offsets.last_stable_offset == NONE


def test_a_standby_has_a_snapshot_at_its_stable_offset(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    offsets.handle_commit_batch(BatchEnd(200, 3, 77))

    assert registry.epochs() == [200]
    assert (offsets.last_committed_offset, offsets.last_committed_epoch) == (200, 3)
    assert offsets.last_applied_record_offset == 200
    assert offsets.last_applied_record_timestamp_ms == 77


def test_an_active_controller_has_a_snapshot_after_each_batch(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    offsets.handle_commit_batch(BatchEnd(200, 3, 77))
    offsets.activate(201)

    offsets.handle_schedule_append(300, 88)
    offsets.handle_schedule_append(400, 99)
    assert offsets.next_write_offset == 401
    assert registry.epochs() == [200, 300, 400]
    assert offsets.last_applied_record_timestamp_ms == 99

    offsets.handle_commit_batch(BatchEnd(300, 4, 0))
    assert registry.epochs() == [300, 400]
    assert offsets.last_applied_record_offset == 400


def test_stepping_down_undoes_what_was_not_committed(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "before")
    offsets.handle_commit_batch(BatchEnd(200, 3, 77))
    offsets.activate(201)
    value.set("after")
    offsets.handle_schedule_append(300, 88)

    offsets.deactivate()

    assert value.get() == "before"
    assert registry.epochs() == [200]
    assert not offsets.is_active
    assert offsets.last_applied_record_offset == 200


def test_activity_cannot_begin_or_end_twice(offsets: OffsetControlManager) -> None:
    with pytest.raises(IllegalState, match="not active"):
        offsets.deactivate()
    with pytest.raises(IllegalState, match="no offset"):
        offsets.activate(-1)
    offsets.activate(0)
    with pytest.raises(IllegalState, match="active already"):
        offsets.activate(0)


def test_batches_of_the_quorum_itself_count_in_metrics_only(offsets: OffsetControlManager) -> None:
    offsets.handle_commit_batch_metrics(BatchEnd(5, 1, 7))

    assert offsets.last_committed_record_offset == offsets.last_applied_record_offset == 5
    assert offsets.last_committed_offset == NONE


def test_a_snapshot_of_the_quorum_resets_everything(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    value = TimelineValue(registry, "initial")
    offsets.handle_commit_batch(BatchEnd(200, 3, 77))
    value.set("after")

    offsets.begin_load_snapshot(OffsetAndEpoch(4000, 300))
    assert value.get() == "initial"
    assert registry.epochs() == []
    with pytest.raises(IllegalState, match="still being read"):
        offsets.begin_load_snapshot(OffsetAndEpoch(4001, 300))

    offsets.end_load_snapshot(99)
    assert registry.epochs() == [3999]
    assert offsets.last_committed_offset == offsets.last_stable_offset == 3999
    assert offsets.last_committed_epoch == 300
    with pytest.raises(IllegalState, match="no snapshot is being read"):
        offsets.end_load_snapshot(99)


# ---------------------------------------------------------------------- transactions


@pytest.mark.parametrize("is_aborted", [False, True])
def test_the_stable_offset_stands_still_in_a_transaction(
    registry: SnapshotRegistry, offsets: OffsetControlManager, is_aborted: bool
) -> None:
    value = TimelineValue(registry, "before")
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))

    offsets.replay(BEGIN, 100)
    value.set("within")
    offsets.handle_commit_batch(BatchEnd(150, 3, 0))
    assert offsets.last_committed_offset == 150
    assert offsets.last_stable_offset == 99
    assert value.get(epoch=99) == "before"

    offsets.replay(ABORT if is_aborted else END, 151)
    offsets.handle_commit_batch(BatchEnd(151, 3, 0))
    assert offsets.last_stable_offset == 151
    assert value.get() == ("before" if is_aborted else "within")
    assert registry.epochs() == [151]


def test_a_transaction_in_the_middle_of_a_batch_has_a_snapshot_before_it(
    registry: SnapshotRegistry, offsets: OffsetControlManager
) -> None:
    offsets.handle_commit_batch(BatchEnd(99, 3, 0))

    offsets.replay(BEGIN, 105)
    offsets.handle_commit_batch(BatchEnd(110, 3, 0))

    assert offsets.last_stable_offset == 104
    assert registry.epochs() == [104]


@pytest.mark.parametrize("record", [END, ABORT])
def test_only_an_open_transaction_can_end(
    offsets: OffsetControlManager, record: EndTransactionRecord | AbortTransactionRecord
) -> None:
    with pytest.raises(IllegalState, match="no transaction is open"):
        offsets.replay(record, 100)


def test_transactions_do_not_nest(offsets: OffsetControlManager) -> None:
    offsets.replay(BEGIN, 100)

    with pytest.raises(IllegalState, match="still open"):
        offsets.replay(BEGIN, 101)


@pytest.mark.parametrize("record", [BEGIN, END, ABORT])
def test_there_are_no_transactions_in_a_snapshot(
    offsets: OffsetControlManager,
    record: BeginTransactionRecord | EndTransactionRecord | AbortTransactionRecord,
) -> None:
    offsets.begin_load_snapshot(OffsetAndEpoch(4000, 300))

    with pytest.raises(IllegalState, match="within a snapshot"):
        offsets.replay(record, 100)


# ---------------------------------------------------------------------- the purgatory


def test_deferred_events_come_out_by_offset() -> None:
    queue: DeferredEventQueue[str] = DeferredEventQueue()
    assert queue.highest_pending_offset() is None
    for offset, event in ((1, "a"), (1, "b"), (3, "c"), (5, "d")):
        queue.add(offset, event)

    assert queue.complete_up_to(0) == []
    assert queue.complete_up_to(3) == ["a", "b", "c"]
    assert queue.highest_pending_offset() == 5
    with pytest.raises(IllegalState, match="behind one for 5"):
        queue.add(4, "e")
    queue.add(5, "e")
    assert queue.fail_all() == ["d", "e"]
    assert len(queue) == 0


# ---------------------------------------------------------------------- the event queue


def taken(queue: ControllerEventQueue[str], now_ms: int) -> list[tuple[str, bool]]:
    """Each event with whether it timed out."""
    events = []
    while (one := queue.take(now_ms)) is not None:
        events.append((one.event, one.is_timed_out))
    return events


def test_events_run_in_order_and_a_prepended_one_first() -> None:
    queue: ControllerEventQueue[str] = ControllerEventQueue()
    queue.append("a")
    queue.append("b", deadline_ms=10)
    queue.prepend("first")

    assert queue.next_time_ms(0) == 0
    assert taken(queue, 0) == [("first", False), ("a", False), ("b", False)]
    assert queue.next_time_ms(0) is None


def test_an_event_whose_deadline_came_is_timed_out_before_others_run() -> None:
    queue: ControllerEventQueue[str] = ControllerEventQueue()
    queue.append("a")
    queue.append("late", deadline_ms=10)
    queue.append("later", deadline_ms=20)

    assert taken(queue, 10) == [("late", True), ("a", False), ("later", False)]


def test_a_deferred_event_runs_when_its_time_comes() -> None:
    queue: ControllerEventQueue[str] = ControllerEventQueue()
    queue.schedule_deferred("tag", 10, "task")
    assert queue.next_time_ms(0) == 10
    assert queue.take(9) is None

    queue.append("a")
    assert taken(queue, 10) == [("task", False), ("a", False)]


def test_a_deferred_event_takes_the_place_of_another_of_its_tag() -> None:
    queue: ControllerEventQueue[str] = ControllerEventQueue()
    queue.schedule_deferred("tag", 10, "old")
    queue.schedule_deferred("tag", 20, "new")
    assert queue.next_time_ms(0) == 10

    queue.schedule_deferred("tag", 5, "newest")
    assert queue.next_time_ms(0) == 5
    assert taken(queue, 100) == [("newest", False)]

    queue.schedule_deferred("tag", 10, "again")
    queue.cancel_deferred("tag")
    queue.cancel_deferred("tag")
    assert taken(queue, 100) == []


@given(st.lists(st.integers(0, 50), max_size=40), st.integers(0, 60))
def test_every_event_comes_out_once_however_it_does(deadlines: list[int], now_ms: int) -> None:
    queue: ControllerEventQueue[str] = ControllerEventQueue()
    for number, deadline_ms in enumerate(deadlines):
        queue.append(str(number), deadline_ms=deadline_ms)

    events = taken(queue, now_ms)

    late = [number for number, deadline_ms in enumerate(deadlines) if deadline_ms <= now_ms]
    late.sort(key=lambda number: deadlines[number])
    in_time = [number for number, deadline_ms in enumerate(deadlines) if deadline_ms > now_ms]
    assert events == [
        *((str(number), True) for number in late),
        *((str(number), False) for number in in_time),
    ]


class Event:
    """Something that can be watched as it goes."""


def test_what_ran_in_time_leaves_nothing_behind() -> None:
    queue: ControllerEventQueue[Event] = ControllerEventQueue()
    # Of another one's deadline, so that those of the many wait behind it.
    queue.schedule_deferred("task", 900_000, Event())
    events: WeakSet[Event] = WeakSet()
    for _ in range(5_000):
        event = Event()
        events.add(event)
        queue.append(event, deadline_ms=1_000_000)
        del event
        assert queue.take(0) is not None

    assert not events
    queue.cancel_deferred("task")
    assert queue.next_time_ms(0) is None
    assert queue.take(2_000_000) is None
