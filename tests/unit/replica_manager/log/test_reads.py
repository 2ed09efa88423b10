"""Reading a log, how far it may be read, and what shortens it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_common.errors import OffsetOutOfRange
from kafka_common.protocol.compression import Codec
from replica_manager.log.leader_epoch_file_cache import (
    UNDEFINED,
    EpochEndOffset,
    EpochEntry,
    LeaderEpochFileCache,
)
from replica_manager.log.local_log import LogOffsetMetadata
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import (
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    FetchIsolation,
)
from replica_manager.log.segment import TimestampedOffset
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import (
    START_MS,
    LogWorld,
    at,
    base_offsets,
    batch,
    content,
    end_transaction,
    files,
    offset_by_timestamp,
    offsets,
    read,
)


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(
        tmp_path / "orders-0", LogConfig(segment_bytes=3 * len(batch(2)), index_interval_bytes=50)
    )


def filled(world: LogWorld, batches: int = 10) -> UnifiedLog:
    """Batches of two records a millisecond apart, three batches to a segment."""
    log = world.open()
    for i in range(batches):
        log.append_as_leader(batch(2, timestamp=START_MS + i), i // 4)
    return log


def test_a_read_begins_with_the_batch_that_holds_the_offset(world: LogWorld) -> None:
    log = filled(world)

    for offset in range(20):
        found = read(log, offset, max_bytes=1)
        assert offsets(found) == [offset - offset % 2, offset - offset % 2 + 1]


def test_a_read_ends_with_its_segment_and_at_its_size(world: LogWorld) -> None:
    log = filled(world)
    size = len(batch(2))

    assert offsets(read(log, 1)) == [0, 1, 2, 3, 4, 5]
    assert read(log, 0, max_bytes=size + 7).size == size + 7
    assert offsets(read(log, 0, max_bytes=size + 7)) == [0, 1]


def test_a_first_batch_that_does_not_fit_is_whole_only_on_request(world: LogWorld) -> None:
    log = filled(world)

    cut = read(log, 0, max_bytes=10, min_one_message=False)
    whole = read(log, 0, max_bytes=10, min_one_message=True)

    assert (cut.size, cut.is_first_batch_incomplete) == (10, True)
    assert (whole.size, whole.is_first_batch_incomplete) == (len(batch(2)), False)


def test_reads_outside_of_the_log_are_out_of_range(world: LogWorld) -> None:
    log = filled(world)
    log.update_high_watermark(20)
    log.delete_records(3)

    for offset in (2, 21):
        with pytest.raises(OffsetOutOfRange):
            read(log, offset)
    assert read(log, 20).slice is None
    assert read(log, 3).slice is not None


def test_a_read_in_a_gap_gives_what_follows_it(world: LogWorld) -> None:
    log = world.open()
    log.append_as_follower(at(0, batch(2)))
    log.append_as_follower(at(50, batch(2)))
    log.roll()
    log.append_as_follower(at(90, batch(2)))

    assert offsets(read(log, 7)) == [50, 51]
    assert offsets(read(log, 60)) == [90, 91]


@pytest.mark.parametrize("high_watermark", range(0, 21, 2))
def test_a_consumer_sees_nothing_past_the_high_watermark(
    world: LogWorld, high_watermark: int
) -> None:
    log = filled(world)
    log.update_high_watermark(high_watermark)

    seen: list[int] = []
    offset = 0
    while found := offsets(read(log, offset, isolation=FetchIsolation.HIGH_WATERMARK)):
        seen += found
        offset = seen[-1] + 1

    assert seen == list(range(high_watermark))


def test_a_consumer_past_the_high_watermark_waits(world: LogWorld) -> None:
    log = filled(world)
    log.update_high_watermark(4)

    found = read(log, 9, isolation=FetchIsolation.HIGH_WATERMARK)

    assert found.slice is None
    assert found.start.message_offset == 9
    assert not found.start.is_offset_only


def test_the_high_watermark_stays_between_log_start_and_log_end(world: LogWorld) -> None:
    log = filled(world)

    assert log.update_high_watermark(99)
    assert log.high_watermark == 20
    log.delete_records(5)
    assert log.update_high_watermark(2)
    assert log.high_watermark == 5
    assert not log.maybe_increment_high_watermark(4)
    assert log.maybe_increment_high_watermark(8)
    assert log.maybe_increment_high_watermark(99)
    assert log.high_watermark == 20
    assert not log.maybe_increment_high_watermark(20)


def test_the_high_watermark_moves_along_when_its_segment_is_full(world: LogWorld) -> None:
    log = filled(world, 3)
    log.update_high_watermark(6)
    old = log.high_watermark_metadata

    log.roll()

    assert log.high_watermark_metadata == LogOffsetMetadata(6, 6, 0)
    assert old == LogOffsetMetadata(6, 0, log.size)
    assert old.is_on_older_segment(log.high_watermark_metadata)


def test_a_slice_outlives_its_segment(world: LogWorld) -> None:
    log = filled(world)
    found = read(log, 0)
    assert found.slice is not None
    before = found.slice.read()

    log.truncate_fully_and_start_at(100)
    world.do_deferred_tasks()

    assert files(world.directory, ".deleted") == []
    assert found.slice.read() == before
    assert os.pread(found.slice.file.fileno(), found.slice.length, found.slice.position) == before


def test_timestamps_lead_to_offsets(world: LogWorld) -> None:
    log = filled(world)

    for i in range(10):
        assert offset_by_timestamp(log, START_MS + i) == TimestampedOffset(
            START_MS + i, 2 * i, i // 4
        )
    assert offset_by_timestamp(log, 0) == TimestampedOffset(START_MS, 0, 0)
    assert offset_by_timestamp(log, START_MS + 10) is None


def test_special_timestamps(world: LogWorld) -> None:
    log = filled(world)
    log.update_high_watermark(20)
    log.append_as_leader(batch(3, timestamp=START_MS + 500, codec=Codec.LZ4), 7)
    log.append_as_leader(batch(2, timestamp=START_MS + 499), 7)

    assert offset_by_timestamp(log, EARLIEST_TIMESTAMP) == TimestampedOffset(-1, 0, 0)
    assert offset_by_timestamp(log, LATEST_TIMESTAMP) == TimestampedOffset(-1, 25, 7)
    assert offset_by_timestamp(log, MAX_TIMESTAMP) == TimestampedOffset(START_MS + 500, 20, 7)
    assert offset_by_timestamp(log, LATEST_TIERED_TIMESTAMP) == TimestampedOffset(-1, -1, -1)
    log.delete_records(9)
    assert offset_by_timestamp(log, EARLIEST_TIMESTAMP) == TimestampedOffset(-1, 9, 1)
    assert offset_by_timestamp(log, START_MS + 3) == TimestampedOffset(START_MS + 4, 9, 1)


def test_the_oldest_version_of_list_offsets_gets_segments(world: LogWorld) -> None:
    log = filled(world)

    assert log.legacy_offsets_before(LATEST_TIMESTAMP, 3) == [20, 18, 12]
    assert log.legacy_offsets_before(EARLIEST_TIMESTAMP, 3) == [0]
    assert log.legacy_offsets_before(0, 3) == []


@pytest.mark.parametrize("offset", range(0, 24, 3))
def test_truncation_leaves_exactly_the_batches_before_the_offset(
    world: LogWorld, offset: int
) -> None:
    log = filled(world)
    log.update_high_watermark(20)

    assert log.truncate_to(offset) is (offset < 20)

    # The batch that holds the offset goes as a whole, but offsets go on from where they were.
    kept = list(range(min(20, offset - offset % 2)))
    end = min(20, offset)
    assert [found for found, _ in content(log)] == kept
    assert (log.log_end_offset, log.high_watermark) == (end, end)
    for entry in log.epoch_entries:
        assert entry.start_offset < max(end, 1)
    active = log.active_segment
    assert active.offset_index.last().position <= active.size
    assert active.time_index.last().offset <= end
    log.append_as_leader(batch(2, timestamp=START_MS + 99), 9)
    for number in range(6):
        log.append_as_leader(batch(2, timestamp=START_MS + 100 + number), 9)
        assert offsets(read(log, log.log_end_offset - 1, max_bytes=1))[-1] == log.log_end_offset - 1
    log.truncate_to(end + 2)
    assert [found for found, _ in content(log)] == [*kept, end, end + 1]
    assert offset_by_timestamp(log, START_MS + 99) == TimestampedOffset(START_MS + 99, end, 9)
    log.close()
    again = world.open(clean=False)
    assert again.log_end_offset == end + 2
    assert content(again) == content(log)


def test_truncation_drops_the_newer_epochs_only(world: LogWorld) -> None:
    log = filled(world)
    log.assign_epoch_start_offset(6, 20)
    assert log.latest_epoch == 6

    assert not log.truncate_to(20)
    assert log.latest_epoch == 2
    assert log.truncate_to(16)
    assert log.latest_epoch == 1
    assert log.epoch_entries == (EpochEntry(0, 0), EpochEntry(1, 8))


def test_truncating_everything_starts_again_at_the_offset_without_producers(
    world: LogWorld,
) -> None:
    log = filled(world)
    log.append_as_leader(batch(producer_id=7, producer_epoch=0, base_sequence=0), 3)

    log.truncate_fully_and_start_at(100)

    assert (log.log_start_offset, log.log_end_offset, log.high_watermark) == (100, 100, 100)
    assert (log.latest_epoch, dict(log.producers.entries)) == (None, {})
    assert base_offsets(log) == [100]
    log.append_as_follower(at(100, batch(2)))
    log.close()
    assert world.open(log_start_offset=100).log_end_offset == 102


def test_truncating_below_the_first_segment_starts_again(world: LogWorld) -> None:
    log = world.open(log_start_offset=50)
    log.append_as_follower(at(50, batch(2)))

    assert log.truncate_to(10)

    assert (log.log_start_offset, log.log_end_offset) == (10, 10)


def test_deleting_records_raises_the_log_start_and_trims_the_epochs(world: LogWorld) -> None:
    log = filled(world)
    log.update_high_watermark(12)

    assert log.delete_records(9) == 9

    assert log.epoch_entries[0] == EpochEntry(1, 9)
    assert log.delete_records(4) == 9
    with pytest.raises(OffsetOutOfRange, match="larger than the high watermark 12"):
        log.delete_records(13)


def test_the_log_start_survives_in_the_checkpoint_only(world: LogWorld) -> None:
    log = filled(world)
    log.update_high_watermark(20)
    log.delete_records(9)
    log.close()

    assert world.open().log_start_offset == 0
    assert world.open(log_start_offset=9).log_start_offset == 9
    assert world.open(log_start_offset=9).epoch_entries[0] == EpochEntry(1, 9)


def test_the_log_starts_again_where_the_checkpoint_says_if_it_ends_before(world: LogWorld) -> None:
    filled(world).close()

    log = world.open(log_start_offset=500)

    assert (log.log_start_offset, log.log_end_offset) == (500, 500)
    assert files(world.directory, ".log") == [f"{500:020d}.log"]


def test_epochs_end_where_the_next_begins() -> None:
    epochs = LeaderEpochFileCache([EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(5, 30)])

    assert epochs.end_offset_for(5, 44) == EpochEndOffset(5, 44)
    assert epochs.end_offset_for(4, 44) == EpochEndOffset(4, 30)
    assert epochs.end_offset_for(3, 44) == EpochEndOffset(2, 20)
    assert epochs.end_offset_for(1, 44) == EpochEndOffset(1, 10)
    assert epochs.end_offset_for(6, 44) == UNDEFINED
    assert epochs.end_offset_for(-1, 44) == UNDEFINED
    assert LeaderEpochFileCache().end_offset_for(0, 44) == UNDEFINED
    assert [epochs.epoch_for_offset(offset) for offset in (9, 10, 19, 20, 99)] == [None, 2, 2, 4, 5]


def test_a_new_epoch_replaces_what_contradicts_it() -> None:
    epochs = LeaderEpochFileCache([EpochEntry(2, 10), EpochEntry(4, 20), EpochEntry(5, 30)])

    assert not epochs.assign(5, 40)
    assert epochs.assign(6, 20)
    assert epochs.entries == (EpochEntry(2, 10), EpochEntry(6, 20))
    assert epochs.assign(3, 25)
    assert epochs.entries == (EpochEntry(2, 10), EpochEntry(3, 25))


def test_an_epoch_that_begins_anew_replaces_itself_and_what_came_after() -> None:
    epochs = LeaderEpochFileCache([EpochEntry(2, 10), EpochEntry(6, 20)])

    assert epochs.assign(2, 22)

    assert epochs.entries == (EpochEntry(2, 22),)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("assign"), st.integers(0, 9), st.integers(0, 30)),
            st.tuples(st.just("end"), st.integers(0, 30), st.just(0)),
            st.tuples(st.just("start"), st.integers(0, 30), st.just(0)),
        ),
        max_size=20,
    )
)
def test_epochs_and_offsets_always_rise(steps: list[tuple[str, int, int]]) -> None:
    epochs = LeaderEpochFileCache()

    for what, one, two in steps:
        if what == "assign":
            epochs.assign(one, two)
        elif what == "end":
            epochs.truncate_from_end(one)
            assert all(entry.start_offset < one for entry in epochs.entries)
        else:
            epochs.truncate_from_start(one)
            assert all(entry.start_offset >= one for entry in epochs.entries)

        pairs = list(zip(epochs.entries, epochs.entries[1:], strict=False))
        assert all(a.epoch < b.epoch and a.start_offset < b.start_offset for a, b in pairs)


def test_epochs_are_written_by_the_next_deferred_tasks_and_read_again(world: LogWorld) -> None:
    log = filled(world)
    world.do_deferred_tasks()

    assert (world.directory / "leader-epoch-checkpoint").read_text() == "0\n3\n0 0\n1 8\n2 16\n"
    assert world.open().epoch_entries == log.epoch_entries


def test_a_flush_brings_the_epochs_along_before_the_recovery_point_moves(world: LogWorld) -> None:
    log = filled(world)
    plan = log.plan_flush()
    assert plan is not None

    plan.run()

    assert (world.directory / "leader-epoch-checkpoint").exists()
    assert log.recovery_point == 0
    log.finish_flush(plan)
    assert (log.recovery_point, log.unflushed_messages, log.plan_flush()) == (20, 0, None)


def test_a_flush_moves_the_recovery_point_of_a_log_that_was_emptied(world: LogWorld) -> None:
    log = filled(world)

    log.truncate_fully_and_start_at(30)
    plan = log.plan_flush()
    log.flush()

    assert plan is not None
    assert plan.directory == log.directory  # its new segment is a new file
    assert (log.recovery_point, log.plan_flush()) == (30, None)


def test_an_append_says_when_enough_records_wait_for_a_flush(world: LogWorld) -> None:
    world.config = LogConfig(flush_messages=4)
    log = world.open()

    due = [log.append_as_leader(batch(2), 0).is_flush_due for _ in range(2)]
    log.flush()
    due.append(log.append_as_follower(at(4, batch(2))).is_flush_due)

    assert due == [False, True, False]


def test_a_flush_of_what_was_truncated_since_moves_no_recovery_point(world: LogWorld) -> None:
    log = filled(world)
    plan = log.plan_flush()
    assert plan is not None

    log.truncate_to(4)
    for _ in range(9):
        log.append_as_leader(batch(2), 5)
    plan.run()
    log.finish_flush(plan)

    assert log.recovery_point == 0


def test_rolling_leaves_a_flush_and_the_recovery_point_follows(world: LogWorld) -> None:
    log = filled(world, 4)
    assert log.recovery_point == 0

    world.do_deferred_tasks()

    assert log.recovery_point == 6


def test_files_of_deleted_segments_go_after_their_delay(world: LogWorld) -> None:
    world.config = replace(world.config, file_delete_delay_ms=1000)
    log = filled(world)

    log.truncate_to(3)
    world.do_deferred_tasks(after_ms=999)
    assert len(files(world.directory, ".log.deleted")) == 3
    world.do_deferred_tasks(after_ms=1000)

    assert files(world.directory, ".deleted") == []


def test_aborted_transactions_come_with_committed_reads_only(world: LogWorld) -> None:
    world.config = LogConfig()
    log = world.open()
    log.append_as_leader(batch(), 0)
    for sequence, commit in enumerate((False, True, False)):
        log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=sequence, is_transactional=True), 0
        )
        end_transaction(log, 7, commit=commit)
    log.update_high_watermark(log.log_end_offset)

    committed = read(log, 0, isolation=FetchIsolation.TXN_COMMITTED)
    plain = read(log, 0, isolation=FetchIsolation.HIGH_WATERMARK)

    assert committed.aborted_transactions is not None
    assert [(a.first_offset, a.last_offset) for a in committed.aborted_transactions] == [
        (1, 2),
        (5, 6),
    ]
    assert plain.aborted_transactions is None
    log.truncate_to(5)
    assert [t.first_offset for t in log.active_segment.transaction_index.entries()] == [1]


def test_the_last_stable_offset_waits_for_open_transactions_and_their_markers(
    world: LogWorld,
) -> None:
    log = world.open()
    log.append_as_leader(batch(), 0)
    log.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 0
    )
    log.append_as_leader(batch(), 0)
    log.update_high_watermark(3)
    assert log.last_stable_offset == 1

    end_transaction(log, 7, commit=True)
    assert log.last_stable_offset == 1  # replicas do not have the marker yet
    log.update_high_watermark(4)

    assert log.last_stable_offset == 4
    found = read(log, 3, isolation=FetchIsolation.TXN_COMMITTED)
    assert found.slice is not None


def test_the_last_stable_offset_is_never_below_the_log_start(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 0
    )
    log.append_as_leader(batch(4), 0)
    log.update_high_watermark(5)

    log.delete_records(3)

    assert log.last_stable_offset == 3
