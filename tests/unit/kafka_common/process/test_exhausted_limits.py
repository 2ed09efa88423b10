"""A limit of the process or the system is no failed disk."""

from __future__ import annotations

import asyncio
import errno
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kafka_common.errors import KafkaStorage, LimitReached
from kafka_common.model import TopicPartition
from kafka_common.process.resource_limits import (
    MOST_RESERVED,
    exhausted_limit,
    first_reserved_descriptor,
    most_open_files,
)
from replica_manager.log.checkpoints import CheckpointFile
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogDirFailure, LogManager
from replica_manager.log.maintenance import RETRY_MS, LogMaintenance
from replica_manager.log.producer_snapshots import ProducerSnapshotFiles
from tests.support.descriptors import no_more_files, open_files
from tests.support.log_world import (
    START_MS,
    LogWorld,
    base_offsets,
    batch,
    content,
    end_transaction,
)

ORDERS = TopicPartition("orders", 0)
SEGMENT = LogConfig(segment_bytes=2 * len(batch()))


@pytest.mark.parametrize(
    "code", [errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENAMETOOLONG]
)
def test_a_limit_is_distinguished_from_a_failed_disk(code: int) -> None:
    assert exhausted_limit(OSError(code, "refused")) is not None


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_failed_disk_is_no_limit(code: int) -> None:
    assert exhausted_limit(OSError(code, "refused")) is None


def test_the_limit_of_open_files_is_named_with_its_size() -> None:
    with no_more_files() as limit:
        with pytest.raises(OSError, match="Too many open files") as refused:
            os.open(os.devnull, os.O_RDONLY)

        assert exhausted_limit(refused.value) == f"the process may open {limit} files (ulimit -n)"


def test_an_eighth_of_the_files_is_kept_from_clients() -> None:
    reserved = most_open_files() - first_reserved_descriptor()

    assert reserved == min(most_open_files() // 8, MOST_RESERVED)


def test_an_append_that_may_open_no_segment_changes_nothing_and_works_later(
    tmp_path: Path,
) -> None:
    world = LogWorld(tmp_path / "orders-0", SEGMENT)
    log = world.open()
    for _ in range(2):
        log.append_as_leader(batch(), leader_epoch=0)

    with no_more_files(), pytest.raises(LimitReached, match="ulimit -n"):
        log.append_as_leader(batch(), leader_epoch=0)

    assert world.failures == []
    assert log.log_end_offset == 2
    log.append_as_leader(batch(), leader_epoch=0)
    assert [offset for offset, _ in content(log)] == [0, 1, 2]
    assert base_offsets(log) == [0, 2]


def test_a_sync_that_lacks_memory_is_a_failed_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = LogWorld(tmp_path / "orders-0", SEGMENT)
    log = world.open()
    log.append_as_leader(batch(), leader_epoch=0)

    def refused(_: int) -> None:
        raise OSError(errno.ENOMEM, "Cannot allocate memory")

    monkeypatch.setattr(os, "fsync", refused)
    with pytest.raises(KafkaStorage) as failure:
        log.flush()

    assert not isinstance(failure.value, LimitReached)
    assert len(world.failures) == 1


def test_a_log_keeps_one_file_open_for_each_segment(tmp_path: Path) -> None:
    log = LogWorld(tmp_path / "orders-0", SEGMENT).open()
    log.append_as_leader(batch(), leader_epoch=0)
    before = open_files()

    for _ in range(9):
        log.append_as_leader(batch(), leader_epoch=0)

    assert len(base_offsets(log)) == 5
    assert open_files() == before + 4


def test_a_truncation_that_may_open_no_file_changes_nothing_and_works_later(
    tmp_path: Path,
) -> None:
    world = LogWorld(tmp_path / "orders-0", SEGMENT)
    log = world.open()
    for _ in range(5):
        log.append_as_leader(batch(), leader_epoch=0)

    with no_more_files(), pytest.raises(LimitReached):
        log.truncate_fully_and_start_at(9)

    assert [offset for offset, _ in content(log)] == [0, 1, 2, 3, 4]
    log.truncate_to(3)
    assert [offset for offset, _ in content(log)] == [0, 1, 2]
    log.truncate_fully_and_start_at(9)
    assert (log.log_end_offset, world.failures) == (9, [])


def test_a_marker_whose_index_may_not_be_opened_is_not_in_the_log(tmp_path: Path) -> None:
    world = LogWorld(tmp_path / "orders-0")
    log = world.open()
    log.append_as_leader(
        batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True),
        leader_epoch=0,
    )

    with no_more_files(), pytest.raises(LimitReached):
        end_transaction(log, 7, commit=False)

    assert log.log_end_offset == 1
    end_transaction(log, 7, commit=False)
    log.update_high_watermark(2)
    assert (log.log_end_offset, log.last_stable_offset) == (2, 2)
    assert [each.producer_id for each in log.aborted_transactions(0, 2)] == [7]


def test_a_snapshot_of_producers_that_may_not_be_opened_is_synced_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[int] = []
    fsync = os.fsync

    def counting(descriptor: int) -> None:
        synced.append(descriptor)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", counting)
    snapshots = ProducerSnapshotFiles(tmp_path)
    snapshots.take([], 5)

    with no_more_files(), pytest.raises(OSError, match="Too many open files"):
        snapshots.sync()

    assert synced == []
    snapshots.sync()
    assert len(synced) == 1


def test_no_directory_fails_because_a_new_log_may_open_no_file(tmp_path: Path) -> None:
    failures: list[LogDirFailure] = []
    manager = LogManager([tmp_path], lambda: START_MS, on_failure=failures.append)
    manager.load({})

    with no_more_files(), pytest.raises(LimitReached, match="ulimit -n"):
        manager.get_or_create(ORDERS, SEGMENT)

    assert failures == []
    assert manager.get_or_create(ORDERS, SEGMENT).log_end_offset == 0
    manager.close()


def test_a_start_with_too_low_a_limit_ends_with_its_name(tmp_path: Path) -> None:
    failures: list[LogDirFailure] = []
    first = LogManager([tmp_path], lambda: START_MS)
    first.load({})
    first.get_or_create(ORDERS, SEGMENT)
    first.close()

    second = LogManager([tmp_path], lambda: START_MS, on_failure=failures.append)
    with no_more_files(), pytest.raises(LimitReached, match="ulimit -n"):
        second.load({})

    assert failures == []


def test_upkeep_that_may_open_no_file_is_done_later(tmp_path: Path) -> None:
    failures: list[LogDirFailure] = []
    now_ms = START_MS
    manager = LogManager([tmp_path], lambda: now_ms, on_failure=failures.append)
    manager.load({})
    write = CheckpointFile(tmp_path, "probe-checkpoint").plan({ORDERS: 7})
    manager.environment.deferred_tasks.add("probe", "orders-0", tmp_path, now_ms, write.run)

    with ThreadPoolExecutor(1) as executor:
        upkeep = LogMaintenance(manager, executor)
        executor.submit(int).result()  # its thread has begun
        with asyncio.Runner() as runner:
            runner.get_loop()
            with no_more_files():
                runner.run(upkeep.run_due())
            assert not (tmp_path / "probe-checkpoint").exists()

            now_ms += RETRY_MS
            runner.run(upkeep.run_due())

    assert "orders 0 7" in (tmp_path / "probe-checkpoint").read_text()
    assert failures == []
    manager.close()
