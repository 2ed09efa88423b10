"""Snapshots of producers: which are there, which go, and what a log knows with and without them.

Source of the behaviours: Kafka ``UnifiedLogTest``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from kafka_common.errors import KafkaStorage, OutOfOrderSequence, UnexpectedAppendOffset
from kafka_common.model import TopicPartition
from replica_manager.log.log_cleaner import clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogManager
from replica_manager.log.retention import DeletionRule
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.replica_fetcher import append_as_follower
from tests.support.log_world import START_MS, LogWorld, at, base_offsets, batch, content, files

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def world(tmp_path: Path) -> LogWorld:
    return LogWorld(tmp_path / "orders-0", LogConfig(file_delete_delay_ms=0))


def sent(sequence: int, *, key: bytes = b"key", producer_id: int = 7) -> bytes:
    return batch(key=key, producer_id=producer_id, producer_epoch=0, base_sequence=sequence)


def filled(log: UnifiedLog, segments: int = 3) -> UnifiedLog:
    """A record in each segment, all of one producer."""
    for sequence in range(segments):
        if sequence:
            log.roll()
        log.append_as_leader(sent(sequence), 0)
    log.update_high_watermark(log.log_end_offset)
    return log


def snapshots(directory: Path) -> list[int]:
    return [int(name.removesuffix(".snapshot")) for name in files(directory, ".snapshot")]


@pytest.mark.parametrize("has_empty_active_segment", [True, False])
def test_retention_takes_snapshots_along_and_leaves_the_last(
    tmp_path: Path, has_empty_active_segment: bool
) -> None:
    now_ms = START_MS
    config = LogConfig(retention_ms=60_000, file_delete_delay_ms=0)
    manager = LogManager([tmp_path], lambda: now_ms)
    manager.load({})
    log = filled(manager.get_or_create(ORDERS, config))
    if has_empty_active_segment:
        log.roll()
    assert snapshots(log.directory) == ([1, 2, 3] if has_empty_active_segment else [1, 2])

    now_ms += 60_001
    manager.delete_old_segments()
    for task in list(manager.environment.deferred_tasks.take_due(now_ms)):
        task.action()

    assert base_offsets(log) == [3]
    assert snapshots(log.directory) == [3]
    assert log.producers.entry(7).last_sequence == 2


def test_a_raised_log_start_takes_snapshots_along_with_the_segments_before_it(
    tmp_path: Path,
) -> None:
    manager = LogManager([tmp_path], lambda: START_MS)
    manager.load({})
    log = filled(manager.get_or_create(ORDERS, LogConfig(file_delete_delay_ms=0)))

    log.delete_records(2)
    manager.delete_old_segments()
    for task in list(manager.environment.deferred_tasks.take_due(START_MS)):
        task.action()

    assert base_offsets(log) == [2]
    assert snapshots(log.directory) == [2]


def test_compaction_takes_the_snapshots_of_merged_segments_along(world: LogWorld) -> None:
    world.config = replace(
        world.config, is_compacted=True, is_deleted=False, min_cleanable_dirty_ratio=0.0
    )
    log = world.open()
    for sequence, key in enumerate((b"a", b"b", b"a", b"b", b"c")):
        if sequence:
            log.roll()
        log.append_as_leader(sent(sequence, key=key), 0)
    log.update_high_watermark(log.log_end_offset)
    assert snapshots(log.directory) == [1, 2, 3, 4]

    cleaned = clean(cleaning_job(log, None, world.now_ms), 2**20)
    assert log.replace_segments(cleaned.replacements, cleaned.generation)
    world.do_deferred_tasks()

    assert base_offsets(log) == [0, 4]
    assert snapshots(log.directory) == [4]
    assert [offset for offset, _ in content(log)] == [2, 3, 4]


def test_a_truncation_to_the_start_of_a_segment_goes_by_its_snapshot(world: LogWorld) -> None:
    log = filled(world.open(), 2)

    log.truncate_to(1)

    assert (base_offsets(log), log.active_segment.size) == ([0, 1], 0)
    assert snapshots(log.directory) == [1]
    assert log.producers.entry(7).last_sequence == 0
    assert log.append_as_leader(sent(1), 0).first_offset == 1


def test_without_snapshots_a_truncation_reads_the_log(world: LogWorld) -> None:
    log = filled(world.open(), 4)
    for path in world.directory.glob("*.snapshot"):
        path.unlink()

    log.truncate_to(2)

    assert log.producers.entry(7).last_sequence == 1
    with pytest.raises(OutOfOrderSequence):
        log.append_as_leader(sent(3), 0)
    assert log.append_as_leader(sent(2), 0).first_offset == 2


def test_a_log_of_a_version_without_snapshots_gets_empty_ones_and_is_not_read(
    world: LogWorld,
) -> None:
    filled(world.open(), 4).close()
    for path in world.directory.glob("*.snapshot"):
        path.unlink()

    log = world.open(clean=True)

    assert snapshots(world.directory) == [2, 3, 4]
    assert dict(log.producers.entries) == {}


def test_producers_are_known_again_after_gaps_that_compaction_left(world: LogWorld) -> None:
    log = world.open()
    # The leader has compacted: of sequences 0 to 3 the last is left, then 4 follows.
    log.append_as_follower(at(3, sent(3)) + at(4, sent(4)))
    log.append_as_follower(at(9, sent(9)))
    entry = log.producers.entry(7)
    assert (entry.last_sequence, entry.last_offset) == (9, 9)
    del log
    world.environment.deferred_tasks.take_due(2**62)

    again = world.open(clean=False)

    assert again.producers.entry(7).last_sequence == 9
    assert again.append_as_leader(sent(10), 0).first_offset == 10


def test_producers_whose_records_were_all_deleted_are_remembered_until_they_expire(
    world: LogWorld,
) -> None:
    world.environment = structs.replace(world.environment, producer_id_expiration_ms=lambda: 1_000)
    log = filled(world.open(), 3)

    log.delete_segments(list(log.segments), DeletionRule.TIME)

    assert log.append_as_leader(sent(3), 0).first_offset == 3
    world.now_ms = START_MS + 1_000
    log.remove_expired_producers()
    assert dict(log.producers.entries) == {}


def test_plain_records_move_the_offset_of_the_next_snapshot_too(world: LogWorld) -> None:
    log = world.open()
    log.append_as_leader(sent(0), 0)
    log.append_as_leader(batch(4), 0)

    log.close()

    assert snapshots(world.directory) == [5]
    assert world.open().producers.end_offset == 5


def test_the_recovery_point_stays_where_a_snapshot_cannot_be_brought_to_disk(
    world: LogWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(world.open(), 2)
    plan = log.plan_flush()
    assert plan is not None

    def fail(*_: Any) -> None:
        raise OSError("the disk is gone")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(KafkaStorage):
        log.flush()

    assert log.recovery_point == 0
    assert len(world.failures) == 1


def test_an_empty_log_may_begin_below_its_start_with_a_batch_that_reaches_it(
    world: LogWorld,
) -> None:
    log = world.open(log_start_offset=5)

    append_as_follower(log, at(3, batch(4)))

    assert (log.log_start_offset, log.log_end_offset) == (3, 7)
    assert base_offsets(log) == [3]
    for refused in (at(2, batch(2)), at(5, batch(4))):
        with pytest.raises(UnexpectedAppendOffset):
            append_as_follower(log, refused)
    assert log.log_end_offset == 7
