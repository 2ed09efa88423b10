"""A limit may refuse any system call of an append; the log is then as it was before."""

from __future__ import annotations

import errno
import itertools
import os
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_common.errors import KafkaStorage, LimitReached
from replica_manager.log.leader_epoch_file_cache import EpochEntry
from replica_manager.log.log_cleaner import clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import (
    LogWorld,
    at,
    base_offsets,
    batch,
    content,
    end_transaction,
    files,
    offsets,
    read,
)
from tests.support.refused_calls import CALLS, refused_call

LARGE = batch(size=600)
SMALL = batch()
ROLLING = LogConfig(segment_bytes=1_000)

limits = pytest.mark.parametrize("code", CALLS, ids=[errno.errorcode[code] for code in CALLS])


def reopened(world: LogWorld, log: UnifiedLog) -> UnifiedLog:
    """The log after a clean stop, or after a crash where its directory went offline."""
    if world.failures:
        world.failures.clear()
        return world.open(clean=False)
    log.flush()
    log.close()
    return world.open()


@limits
def test_an_append_refused_at_any_call_of_its_roll_hides_no_record_after_a_restart(
    code: int, tmp_path: Path
) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", ROLLING)
        log = world.open()
        log.append_as_leader(LARGE, 0)

        with refused_call(code, number) as refused:
            try:
                log.append_as_leader(LARGE, 0)
            except KafkaStorage:
                assert log.log_end_offset == 1, refused.name
        if refused.name is None:
            break
        if not world.failures:
            log.append_as_leader(SMALL, 0)
            log.append_as_leader(SMALL, 0)
        before = content(log)
        log = reopened(world, log)

        assert content(log) == before, (number, refused.name)
        assert log.log_end_offset == len(before), (number, refused.name)
    assert number > 3


def test_an_append_refused_in_its_roll_leaves_the_files_of_one_segment(tmp_path: Path) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", ROLLING)
        log = world.open()
        log.append_as_leader(LARGE, 0)

        with refused_call(errno.EMFILE, number) as refused:
            try:
                log.append_as_leader(LARGE, 0)
            except LimitReached:
                assert base_offsets(log) == [0]
                assert len(files(log.directory, ".log")) == 1
                assert files(log.directory, ".snapshot") == []
        if refused.name is None:
            break


def test_a_follower_whose_append_past_a_gap_was_refused_takes_what_lies_in_the_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LogWorld(tmp_path / "orders-0", ROLLING)
    log = world.open()
    log.append_as_follower(at(0, LARGE))

    def refused(*_: object) -> int:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", refused)
        with pytest.raises(LimitReached):
            log.append_as_follower(at(8, LARGE))
    log.append_as_follower(at(1, batch(2)))
    log = reopened(world, log)

    assert [offset for offset, _ in content(log)] == [0, 1, 2]
    assert log.log_end_offset == 3


@limits
def test_a_marker_whose_index_entry_was_refused_is_known_after_a_restart(
    code: int, tmp_path: Path
) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}")
        log = world.open()
        log.append_as_leader(
            batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True), 0
        )

        with refused_call(code, number) as refused:
            try:
                end_transaction(log, 7, commit=False)
            except KafkaStorage:
                assert world.failures or log.log_end_offset == 1, refused.name
        if refused.name is None:
            break
        log = reopened(world, log)
        if log.log_end_offset == 1:
            end_transaction(log, 7, commit=False)
        log.update_high_watermark(2)

        assert log.last_stable_offset == 2, (number, refused.name)
        assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [7]


@limits
def test_several_markers_of_one_append_of_a_follower_are_taken_all_or_none(
    code: int, tmp_path: Path
) -> None:
    leader = LogWorld(tmp_path / "leader").open()
    for producer_id in (7, 8):
        leader.append_as_leader(
            batch(
                producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True
            ),
            0,
        )
    for producer_id in (7, 8):
        end_transaction(leader, producer_id, commit=False)
    found = leader.read(0, 2**20, FetchIsolation.LOG_END, min_one_message=True).slice
    assert found is not None
    records = found.read()
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}")
        log = world.open()

        with refused_call(code, number) as refused:
            try:
                log.append_as_follower(records)
            except LimitReached:
                assert log.log_end_offset == 0, refused.name
            except KafkaStorage:
                assert log.log_end_offset == 0 or refused.name == "write", refused.name
        if refused.name is None:
            break
        log = reopened(world, log)
        if log.log_end_offset == 0:
            log.append_as_follower(records)
        log.update_high_watermark(4)

        assert log.last_stable_offset == 4, (number, refused.name)
        assert [each.producer_id for each in log.aborted_transactions(0, 4)] == [7, 8]


@limits
def test_a_refused_append_leaves_no_leader_epoch(code: int, tmp_path: Path) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", ROLLING)
        log = world.open()
        log.append_as_follower(at(0, LARGE, epoch=6))

        with refused_call(code, number) as refused:
            try:
                log.append_as_follower(at(1, LARGE, epoch=7))
            except KafkaStorage:
                assert log.epoch_entries == (EpochEntry(6, 0),), (number, refused.name)
                assert log.end_offset_for_epoch(7) is None
        if refused.name is None:
            break
        if not world.failures:
            world.do_deferred_tasks()
        log = reopened(world, log)

        assert log.latest_epoch == (7 if log.log_end_offset == 2 else 6), (number, refused.name)


@limits
def test_a_swap_of_compacted_segments_is_made_as_a_whole_or_not_at_all(
    code: int, tmp_path: Path
) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", replace(ROLLING, is_compacted=True))
        log = world.open()
        for key in range(3):
            log.append_as_leader(batch(key=b"large %d" % key, size=600), 0)
            log.append_as_leader(batch(key=b"small %d" % key), 0)
        log.roll()
        log.flush()
        log.update_high_watermark(log.log_end_offset)
        assert log.high_watermark_metadata.message_offset == 6
        cleaned = clean(cleaning_job(log, None, world.now_ms), 2**20)

        with refused_call(code, number) as refused:
            try:
                log.replace_segments(cleaned.replacements, cleaned.generation)
            except KafkaStorage:
                assert [offset for offset, _ in content(log)] == [0, 1, 2, 3, 4, 5], refused.name
                assert offsets(read(log, 4)) == [4, 5]
        if refused.name is None:
            break
        before = content(log)
        log = reopened(world, log)

        assert content(log) == before, (number, refused.name)
        assert log.log_end_offset == 6


def grown(world: LogWorld) -> UnifiedLog:
    """Segments with records of producer 7, between aborted transactions of producer 8."""
    log = world.open()

    def abort(sequence: int) -> None:
        log.append_as_leader(
            batch(producer_id=8, producer_epoch=0, base_sequence=sequence, is_transactional=True),
            0,
        )
        end_transaction(log, 8, commit=False)

    abort(0)
    for sequence in range(4):
        large = batch(size=600, producer_id=7, producer_epoch=0, base_sequence=sequence)
        log.append_as_leader(large, sequence)
    abort(1)
    log.update_high_watermark(log.log_end_offset)
    return log


def state(log: UnifiedLog) -> tuple[object, ...]:
    """What a log is, and that producer 7 goes on where its records end."""
    end = log.log_end_offset
    sequence = min(max(end - 2, 0), 4)
    appended = log.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=sequence), 9
    )
    assert (appended.first_offset, appended.is_duplicate) == (end, False)
    return (
        content(log), log.high_watermark, log.last_stable_offset, log.epoch_entries,
        log.aborted_transactions(0, 100),
    )  # fmt: skip


@limits
@pytest.mark.parametrize("is_tried_again", [True, False])
@pytest.mark.parametrize("cut", [1, 3, 5, 7, 0])
def test_a_refused_truncation_to_an_offset_leaves_a_whole_log(
    code: int, cut: int, is_tried_again: bool, tmp_path: Path
) -> None:
    untouched = state(grown(LogWorld(tmp_path / "untouched", ROLLING)))
    log = grown(LogWorld(tmp_path / "cut", ROLLING))
    log.truncate_to(cut)
    truncated = state(log)

    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", ROLLING)
        log = grown(world)

        with refused_call(code, number) as refused:
            try:
                log.truncate_to(cut)
            except KafkaStorage:
                assert log.high_watermark <= log.log_end_offset, (number, refused.name)
        if refused.name is None:
            break
        if world.failures:
            assert code != errno.EMFILE, "a limit of open files is no failed disk"
            continue  # its directory is offline; recovery reads what is there
        if is_tried_again:
            log.truncate_to(cut)
        found = state(log)
        assert found in ((truncated,) if is_tried_again else (untouched, truncated)), (
            number, refused.name,
        )  # fmt: skip
        assert content(reopened(world, log)) == found[0], (number, refused.name)


@limits
def test_a_refused_truncation_hides_no_record(code: int, tmp_path: Path) -> None:
    for number in itertools.count(1):
        world = LogWorld(tmp_path / f"orders-{number}", ROLLING)
        log = world.open()
        for _ in range(4):
            log.append_as_leader(LARGE, 0)

        with refused_call(code, number) as refused:
            try:
                log.truncate_fully_and_start_at(9)
            except KafkaStorage:
                if log.log_end_offset == 4:
                    assert [offset for offset, _ in content(log)] == [0, 1, 2, 3], refused.name
        if refused.name is None:
            break
