"""All logs of a broker: directories, checkpoints, retention, deletion, a disk that fails."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from uuid import UUID

import pytest

from kafka_common.errors import KafkaStorage
from kafka_common.model import TopicPartition
from kafka_common.observability.instruments import Timer
from kafka_common.protocol.compression import Codec
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.topic_keys import validate_topic_config
from replica_manager.log import maintenance as maintenance_module
from replica_manager.log.checkpoints import (
    CheckpointMalformed,
    read_epochs,
    read_offsets,
    write_offsets,
)
from replica_manager.log.leader_epoch_file_cache import EpochEntry
from replica_manager.log.local_log import FlushPlan
from replica_manager.log.log_config import MAX_LONG, LogConfig
from replica_manager.log.log_directory import (
    FolderKind,
    FolderNameInvalid,
    folder_name,
    folders_in,
    parse_folder,
)
from replica_manager.log.log_manager import DuplicateLog, LogDirFailure, LogManager
from replica_manager.log.maintenance import LogMaintenance, Schedule
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import START_MS, base_offsets, batch, files, offsets, read

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 1)
SEGMENT = LogConfig(segment_bytes=2 * len(batch()), file_delete_delay_ms=1000)


@dataclass(slots=True)
class Disks:
    """A broker's log directories, managers of them one after the other, and a clock."""

    log_dirs: list[Path]
    now_ms: int = START_MS
    clock_step_ms: int = 0
    """By how much the wall clock was set forward; the other clock does not know."""
    failures: list[LogDirFailure] = field(default_factory=list)

    def manager(self, **topic_configs: LogConfig) -> LogManager:
        manager = LogManager(
            self.log_dirs, lambda: self.now_ms + self.clock_step_ms,
            monotonic_ms=lambda: self.now_ms, default_config=SEGMENT,
            on_failure=self.failures.append,
        )  # fmt: skip
        manager.load(topic_configs)
        return manager

    def with_orders(self) -> tuple[LogManager, UnifiedLog]:
        """A manager, and a log of it."""
        manager = self.manager()
        return manager, manager.get_or_create(ORDERS, SEGMENT)


@pytest.fixture
def disks(tmp_path: Path) -> Disks:
    return Disks([tmp_path / "a", tmp_path / "b"])


def upkeep(manager: LogManager, executor: ThreadPoolExecutor, schedule: Schedule) -> None:
    asyncio.run(LogMaintenance(manager, executor, schedule).run_due())


def test_new_logs_go_where_the_fewest_are(disks: Disks) -> None:
    manager = disks.manager()

    logs = [manager.get_or_create(TopicPartition("t", p), SEGMENT) for p in range(4)]

    assert [log.directory.parent.name for log in logs] == ["a", "b", "a", "b"]
    assert manager.get_or_create(TopicPartition("t", 2), SEGMENT) is logs[2]


def test_a_clean_stop_is_marked_and_the_mark_serves_once(disks: Disks) -> None:
    manager = disks.manager()
    log = manager.get_or_create(ORDERS, SEGMENT, UUID(int=9))
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    log.update_high_watermark(4)
    log.delete_records(1)
    manager.close()
    log_dir = log.directory.parent

    mark = log_dir / ".kafka_cleanshutdown"
    assert mark.read_text() == '{"version":0,"brokerEpoch":-1}'
    assert (log_dir / "recovery-point-offset-checkpoint").read_text() == "0\n1\norders 0 5\n"
    assert (log_dir / "log-start-offset-checkpoint").read_text() == "0\n1\norders 0 1\n"
    assert (log_dir / "replication-offset-checkpoint").read_text() == "0\n1\norders 0 4\n"

    again = disks.manager()
    loaded = again.log(ORDERS)
    assert not mark.exists()
    assert loaded is not None
    assert (loaded.log_start_offset, loaded.log_end_offset, loaded.recovery_point) == (1, 5, 5)
    assert loaded.topic_id == UUID(int=9)
    assert again.high_watermarks(log_dir) == {ORDERS: 4}


def test_what_is_logged_is_what_kafka_logs(disks: Disks, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    manager, log = disks.with_orders()
    for _ in range(3):
        log.append_as_leader(batch(), 0)
    log.update_high_watermark(3)
    log.delete_records(1)
    log.truncate_to(2)
    log.truncate_to(9)
    manager.close()
    disks.manager()
    (log.log_dir / "orders-0").rename(log.log_dir / "orders-1")
    error = OSError("No such device")
    disks.manager().fail(log.log_dir, "Disk pulled", error)

    assert error in [record.exc_info[1] for record in caplog.records if record.exc_info]
    lines = [f"{record.name} {record.getMessage()}" for record in caplog.records]
    where = f"partition=orders-0, dir={log.log_dir}"
    for line in (
        "kafka.log.LogManager Loading logs from log dirs ArrayBuffer("
        f"{disks.log_dirs[0]}, {disks.log_dirs[1]})",
        f"kafka.log.LogManager No logs found to be loaded in {log.log_dir}",
        "kafka.log.LogManager Loaded 0 logs in 0ms",
        f"kafka.log.LogManager Created log for partition orders-0 in {log.directory} with "
        "properties {}",
        f"kafka.log.LocalLog [LocalLog {where}] Rolled new log segment at offset 2 in 0 ms.",
        f"kafka.log.UnifiedLog [UnifiedLog {where}] Incremented log start offset to 1 due to "
        "client delete records request",
        f"kafka.log.UnifiedLog [UnifiedLog {where}] Truncating to offset 2",
        f"kafka.log.UnifiedLog [UnifiedLog {where}] Truncating to 9 has no effect as the largest "
        "offset in the log is 1",
        "kafka.log.LogManager Shutdown complete.",
        f"kafka.log.LogManager Skipping recovery of 1 logs from {log.log_dir} since clean shutdown "
        "file was found",
        f"kafka.log.LogManager Recovering 1 logs from {log.log_dir} since no clean shutdown file "
        "was found",
        f"kafka.log.LogManager Completed load of Log(dir={log.directory}, topic=orders, "
        "partition=0, highWatermark=1, lastStableOffset=1, logStartOffset=1, logEndOffset=2) with "
        "2 segments, local-log-start-offset 1 and log-end-offset 2 in 0ms (1/1 completed in "
        f"{log.log_dir})",
        "kafka.log.LogManager Loaded 1 logs in 0ms (unclean log dirs = ArrayBuffer("
        f"{log.log_dir}))",
        "org.apache.kafka.storage.internals.log.LogDirFailureChannel Disk pulled",
        f"kafka.log.LogManager Stopping serving logs in dir {log.log_dir}",
        "kafka.log.LogManager Logs for partitions orders-1 are offline and logs for future "
        f"partitions  are offline due to failure on log directory {log.log_dir}",
    ):
        assert line in lines


def test_a_flush_tells_how_long_it_took(tmp_path: Path) -> None:
    timer = Timer()
    manager = LogManager([tmp_path], lambda: START_MS, on_flush=timer.update)
    manager.load({})
    log = manager.get_or_create(ORDERS, SEGMENT)

    log.flush()
    without_records = timer.count
    log.append_as_leader(batch(), 0)
    log.flush()

    assert without_records == 0
    assert timer.count == 1


def test_without_the_mark_logs_are_recovered_from_the_recovery_point(disks: Disks) -> None:
    manager, log = disks.with_orders()
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    log.flush()
    for write in manager.recovery_point_checkpoints():
        write.run()
    log.append_as_leader(batch(), 0)
    path = log.active_segment.file.path
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 1)

    loaded = disks.manager().log(ORDERS)

    assert loaded is not None
    assert (loaded.recovery_point, loaded.log_end_offset) == (5, 5)


def test_a_checkpoint_that_cannot_be_read_counts_as_none(disks: Disks) -> None:
    manager, log = disks.with_orders()
    log.append_as_leader(batch(), 0)
    manager.close()
    (log.directory.parent / "recovery-point-offset-checkpoint").write_text("0\n5\norders 0 1\n")
    (log.directory.parent / ".kafka_cleanshutdown").unlink()

    loaded = disks.manager().log(ORDERS)

    assert loaded is not None
    assert (loaded.recovery_point, loaded.log_end_offset) == (0, 1)


def test_topics_have_their_own_configuration(disks: Disks) -> None:
    disks.manager().get_or_create(ORDERS, SEGMENT)
    own = LogConfig(max_message_bytes=77)

    manager = disks.manager(orders=own)
    loaded = manager.log(ORDERS)

    assert loaded is not None
    assert loaded.config == own
    manager.update_topic_config("orders", SEGMENT)
    assert loaded.config == SEGMENT


def test_a_deleted_log_is_gone_at_once_and_its_files_after_the_delay(
    disks: Disks, executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    manager, log = disks.with_orders()
    log.append_as_leader(batch(), 0)
    found = read(log, 0)
    caplog.set_level(logging.INFO, "kafka.log.LogManager")

    manager.delete(ORDERS)

    assert manager.log(ORDERS) is None
    assert log.directory.name.startswith("orders-0.")
    assert log.directory.name.endswith("-delete")
    assert manager.get_or_create(ORDERS, SEGMENT).log_end_offset == 0
    disks.now_ms += 1000
    upkeep(manager, executor, Schedule())
    assert not log.directory.exists()
    assert offsets(found) == [0]
    assert caplog.messages[-1] == f"Deleted log for partition orders-0 in {log.directory}."


def test_a_folder_marked_as_deleted_is_removed_after_a_restart(
    disks: Disks, executor: ThreadPoolExecutor
) -> None:
    manager, log = disks.with_orders()
    manager.delete(ORDERS)

    again = disks.manager()
    assert not again.logs
    disks.now_ms += 1000
    upkeep(again, executor, Schedule())

    assert not log.directory.exists()


def test_a_stray_log_is_kept_aside(disks: Disks) -> None:
    manager, log = disks.with_orders()
    log.append_as_leader(batch(), 0)
    manager.delete(ORDERS, is_stray=True)
    manager.close()

    again = disks.manager()

    assert not again.logs
    [stray] = [each for log_dir in disks.log_dirs for each in folders_in(log_dir)]
    assert (stray.topic_partition, stray.kind) == (ORDERS, FolderKind.STRAY)
    assert files(stray.path, ".log") == [f"{0:020d}.log"]


def test_a_future_log_takes_the_place_of_the_current(disks: Disks) -> None:
    manager, current = disks.with_orders()
    current.append_as_leader(batch(), 0)
    target = next(path for path in disks.log_dirs if path != current.directory.parent)
    manager.prefer_log_dir(ORDERS, target)
    future = manager.get_or_create(ORDERS, SEGMENT, is_future=True)
    future.append_as_follower(current.active_segment.file.read(0, current.size))
    assert future.directory.name.endswith("-future")
    assert disks.manager().log(ORDERS, is_future=True) is not None

    manager.replace_current_with_future(ORDERS)

    assert manager.log(ORDERS) is future
    assert future.directory == target / "orders-0"
    future.append_as_leader(batch(), 0)
    manager.close()
    loaded = disks.manager().log(ORDERS)
    assert loaded is not None
    assert (loaded.directory, loaded.log_end_offset) == (target / "orders-0", 2)


def test_one_partition_in_two_directories_ends_the_start(disks: Disks) -> None:
    for log_dir in disks.log_dirs:
        (log_dir / "orders-0").mkdir(parents=True)

    with pytest.raises(DuplicateLog, match="Duplicate log directories for orders-0"):
        disks.manager()


def test_a_folder_that_is_no_partitions_ends_the_start(disks: Disks) -> None:
    (disks.log_dirs[0] / "lost+found").mkdir(parents=True)

    with pytest.raises(FolderNameInvalid, match="not in the form of topic-partition"):
        disks.manager()


def test_folder_names_are_cut_to_what_a_file_system_takes() -> None:
    partition = TopicPartition("t" * 249, 12)

    for kind in (FolderKind.DELETED, FolderKind.STRAY):
        name = folder_name(partition, kind, UUID(int=1))
        assert len(name) == 255
        assert parse_folder(Path(name)).kind is kind
    dashed = TopicPartition("a-b.c-1", 3)
    for kind in FolderKind:
        folder = parse_folder(Path(folder_name(dashed, kind, UUID(int=1))))
        assert (folder.topic_partition, folder.kind) == (dashed, kind)


def test_a_failed_disk_takes_its_logs_along_and_the_rest_serves_on(
    disks: Disks, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, first = disks.with_orders()
    second = manager.get_or_create(BILLS, SEGMENT)
    write = os.pwritev

    def fails(descriptor: int, pieces: list[bytes], position: int) -> int:
        if descriptor == first.active_segment.file.fileno():
            raise OSError(5, "Input/output error")
        return write(descriptor, pieces, position)

    monkeypatch.setattr(os, "pwritev", fails)
    with pytest.raises(KafkaStorage):
        first.append_as_leader(batch(), 0)
    second.append_as_leader(batch(), 0)

    assert disks.failures == [LogDirFailure(first.directory.parent, (ORDERS,), ())]
    assert manager.log(ORDERS) is None
    assert manager.log(BILLS) is second
    assert manager.live_log_dirs == (second.directory.parent,)
    assert manager.get_or_create(ORDERS, SEGMENT).directory.parent == second.directory.parent
    manager.close()
    assert not (first.directory.parent / ".kafka_cleanshutdown").exists()
    assert (second.directory.parent / ".kafka_cleanshutdown").exists()


def test_a_directory_that_cannot_be_read_is_offline_from_the_start(disks: Disks) -> None:
    disks.log_dirs[0].write_text("a file")

    manager = disks.manager()

    assert manager.offline_log_dirs == (disks.log_dirs[0],)
    assert manager.get_or_create(ORDERS, SEGMENT).directory.parent == disks.log_dirs[1]


def test_a_topic_id_that_cannot_be_read_takes_its_directory_offline(disks: Disks) -> None:
    log = disks.manager().get_or_create(ORDERS, SEGMENT)
    (log.directory / "partition.metadata").write_text("version: 7\ntopic_id: x")

    manager = disks.manager()

    assert manager.offline_log_dirs == (log.log_dir,)
    assert manager.log(ORDERS) is None


def test_an_index_that_cannot_be_written_takes_the_directory_offline(
    disks: Disks, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager, log = disks.with_orders()
    log.append_as_leader(batch(), 0)
    path = log.active_segment.offset_index.path
    opens = os.open

    def fails(name: str | Path, flags: int, mode: int = 0o777) -> int:
        if name == path:
            raise OSError(30, "Read-only file system")
        return opens(name, flags, mode)

    monkeypatch.setattr(os, "open", fails)
    asyncio.run(LogMaintenance(manager, executor).flush(log))

    assert [failure.log_dir for failure in disks.failures] == [log.log_dir]
    assert log.recovery_point == 0


@pytest.mark.parametrize(
    ("code", "attempts", "recovery_point"), [(errno.EMFILE, 3, 1), (errno.EIO, 1, 0)]
)
def test_a_flush_that_a_limit_puts_off_is_tried_until_it_is_done_or_the_disk_fails(
    code: int,
    attempts: int,
    recovery_point: int,
    disks: Disks,
    executor: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    manager, log = disks.with_orders()
    log.append_as_leader(batch(), 0)
    monkeypatch.setattr(maintenance_module, "RETRY_MS", 1)
    flush, tried = FlushPlan.run, []

    def run(plan: FlushPlan) -> None:
        tried.append(plan.offset)
        if len(tried) < 3:
            raise OSError(code, os.strerror(code))
        flush(plan)

    monkeypatch.setattr(FlushPlan, "run", run)
    asyncio.run(LogMaintenance(manager, executor).flush_to_end(ORDERS))
    asyncio.run(LogMaintenance(manager, executor).flush_to_end(TopicPartition("gone", 0)))

    assert len(tried) == attempts
    assert log.recovery_point == recovery_point


def test_without_any_directory_nothing_can_be_made(disks: Disks) -> None:
    manager = disks.manager()
    for log_dir in disks.log_dirs:
        manager.fail(log_dir, "pulled", OSError("a fault"))

    with pytest.raises(KafkaStorage):
        manager.get_or_create(ORDERS, SEGMENT)
    assert len(disks.failures) == 2


def test_a_deferred_task_that_fails_takes_the_directory_offline(
    disks: Disks, executor: ThreadPoolExecutor
) -> None:
    manager, log = disks.with_orders()

    def fails() -> None:
        raise OSError(5, "Input/output error")

    manager.environment.deferred_tasks.add("x", "y", log.directory.parent, 0, fails)
    upkeep(manager, executor, Schedule())

    assert [failure.log_dir for failure in disks.failures] == [log.directory.parent]


def six_segments(manager: LogManager, config: LogConfig) -> UnifiedLog:
    log = manager.get_or_create(ORDERS, config)
    for i in range(11):
        log.append_as_leader(batch(timestamp=START_MS + i), i)
    log.update_high_watermark(11)
    assert base_offsets(log) == [0, 2, 4, 6, 8, 10]
    return log


def test_old_segments_go_by_time(disks: Disks) -> None:
    manager = disks.manager()
    config = replace(SEGMENT, retention_ms=1000)
    log = six_segments(manager, config)
    disks.now_ms = START_MS + 1000 + 6

    assert manager.delete_old_segments() == 3

    assert base_offsets(log) == [6, 8, 10]
    assert (log.log_start_offset, log.epoch_entries[0]) == (6, EpochEntry(6, 6))


def test_the_active_segment_goes_by_time_too_and_offsets_go_on(disks: Disks) -> None:
    manager = disks.manager()
    log = six_segments(manager, replace(SEGMENT, retention_ms=1000))
    disks.now_ms = START_MS + 10_000

    assert manager.delete_old_segments() == 6

    assert (base_offsets(log), log.log_start_offset, log.log_end_offset) == ([11], 11, 11)
    assert manager.delete_old_segments() == 0


def test_old_segments_go_by_size(disks: Disks) -> None:
    manager = disks.manager()
    config = replace(SEGMENT, retention_bytes=5 * len(batch()))
    log = six_segments(manager, config)

    assert manager.delete_old_segments() == 3

    assert log.size == 5 * len(batch())


def test_nothing_past_the_high_watermark_goes(disks: Disks) -> None:
    manager = disks.manager()
    log = six_segments(manager, replace(SEGMENT, retention_ms=0))
    disks.now_ms = START_MS + 10_000
    log.update_high_watermark(5)

    manager.delete_old_segments()

    assert base_offsets(log)[0] == 4
    assert log.log_start_offset == 4 <= log.high_watermark


def deletion_lines(log: UnifiedLog, caplog: pytest.LogCaptureFixture) -> list[str]:
    """What the log says of the deletion of its old segments, without its name and sizes."""
    caplog.clear()
    with caplog.at_level(logging.INFO, "kafka.log.UnifiedLog"):
        log.delete_old_segments()
    segment = re.compile(r"LogSegment\(baseOffset=(\d+), [^)]*\)")
    return [
        segment.sub(r"<\1>", record.getMessage().partition("] ")[2])
        for record in caplog.records
        if record.name == "kafka.log.UnifiedLog"
    ]


def test_the_log_says_why_segments_are_deleted(
    disks: Disks, caplog: pytest.LogCaptureFixture
) -> None:
    """Kafka's ``StartOffsetBreach``, ``RetentionSizeBreach`` and ``RetentionMsBreach``."""
    manager = disks.manager()
    size = len(batch())
    log = six_segments(manager, replace(SEGMENT, retention_bytes=7 * size, retention_ms=1000))
    log.delete_records(4)

    assert deletion_lines(log, caplog) == [
        "Deleting segments due to log start offset 4 breach: <0>,<2>"
    ]
    log.update_config(replace(log.config, retention_bytes=5 * size))
    assert deletion_lines(log, caplog) == [
        "Incremented log start offset to 6 due to segment deletion",
        f"Deleting segment <4> due to log retention size {5 * size} breach. Log size after "
        f"deletion will be {5 * size}.",
    ]
    disks.now_ms = START_MS + 10_000
    assert deletion_lines(log, caplog)[-4:] == [
        "Incremented log start offset to 11 due to segment deletion",
        *(
            f"Deleting segment <{base}> due to log retention time 1000ms breach based on the "
            "largest record timestamp in the segment"
            for base in (6, 8, 10)
        ),
    ]


def test_a_compacted_log_loses_what_is_before_its_start_only(disks: Disks) -> None:
    manager = disks.manager()
    config = replace(SEGMENT, retention_ms=0, is_compacted=True, is_deleted=False)
    log = six_segments(manager, config)
    disks.now_ms = START_MS + 10_000
    assert log.delete_old_segments() == 0

    log.delete_records(5)

    assert log.delete_old_segments() == 2
    assert base_offsets(log) == [4, 6, 8, 10]


def test_upkeep_writes_checkpoints_and_flushes_when_it_is_time(
    disks: Disks, executor: ThreadPoolExecutor
) -> None:
    manager = disks.manager()
    log = manager.get_or_create(ORDERS, replace(SEGMENT, flush_ms=500))
    log.append_as_leader(batch(), 0)
    log.update_high_watermark(1)
    maintenance = LogMaintenance(
        manager,
        executor,
        Schedule(flush_check_ms=100, initial_delay_ms=1000, high_watermark_checkpoint_ms=1000),
    )
    asyncio.run(maintenance.run_due())
    assert log.recovery_point == 0

    disks.now_ms += 1000
    asyncio.run(maintenance.run_due())

    assert log.recovery_point == 1
    disks.now_ms += Schedule().recovery_point_checkpoint_ms
    asyncio.run(maintenance.run_due())
    log_dir = log.directory.parent
    assert read_offsets(log_dir / "recovery-point-offset-checkpoint") == {ORDERS: 1}
    assert read_offsets(log_dir / "replication-offset-checkpoint") == {ORDERS: 1}
    assert read_offsets(log_dir / "log-start-offset-checkpoint") == {}


@pytest.mark.parametrize("clock_step_ms", [-3_600_000, 3_600_000])
def test_setting_the_clock_neither_stops_nor_hastens_the_upkeep(
    disks: Disks, executor: ThreadPoolExecutor, clock_step_ms: int
) -> None:
    manager = disks.manager()
    log = manager.get_or_create(ORDERS, replace(SEGMENT, flush_ms=500))
    for _ in range(5):
        log.append_as_leader(batch(), 0)
    log.update_high_watermark(5)
    bills = manager.get_or_create(BILLS, SEGMENT)
    manager.delete(BILLS)
    maintenance = LogMaintenance(
        manager, executor, Schedule(1000, 1000, 1000, 1000, 1000, initial_delay_ms=1000)
    )
    asyncio.run(maintenance.run_due())
    disks.clock_step_ms = clock_step_ms
    log.delete_records(3)

    disks.now_ms += 499
    asyncio.run(maintenance.run_due())
    assert log.recovery_point == 4, "only the rolls are flushed"
    assert [path.suffix for path in bills.directory.parent.glob("bills-1.*")] != []

    disks.now_ms += 501
    asyncio.run(maintenance.run_due())
    assert log.recovery_point == 5
    assert list(bills.directory.parent.glob("bills-1*")) == []
    disks.now_ms += 1000
    asyncio.run(maintenance.run_due())
    reopened = disks.manager().log(ORDERS)
    assert reopened is not None
    assert (reopened.log_start_offset, reopened.recovery_point) == (3, 5)


def test_a_disk_that_hangs_delays_the_upkeep_of_no_other(disks: Disks) -> None:
    manager = disks.manager()
    slow, fast = (
        manager.get_or_create(each, replace(SEGMENT, flush_ms=0)) for each in (ORDERS, BILLS)
    )
    assert slow.log_dir != fast.log_dir
    is_back = threading.Event()

    def hang() -> None:
        is_back.wait()

    manager.environment.deferred_tasks.add("hangs", "orders-0", slow.log_dir, 0, hang)

    async def keep_up() -> None:
        with ThreadPoolExecutor(2) as executor:
            maintenance = LogMaintenance(
                manager, executor, Schedule(1, 1, 1, 1, 1, 1, initial_delay_ms=0)
            )
            running = asyncio.create_task(maintenance.run())
            try:
                async with asyncio.timeout(20):
                    for number in range(1, 3):
                        for log in (slow, fast):
                            log.append_as_leader(batch(), 0)
                            log.update_high_watermark(number)
                        disks.now_ms += 1000
                        while (
                            number
                            not in read_offsets(
                                fast.log_dir / "recovery-point-offset-checkpoint"
                            ).values()
                        ):
                            disks.now_ms += 1
                            await asyncio.sleep(0.001)
                    assert slow.recovery_point == 0
                    is_back.set()
                    while slow.recovery_point != 2:
                        await asyncio.sleep(0.001)
            finally:
                is_back.set()
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maintenance_module, "TICK_MS", 1)
        asyncio.run(keep_up())
    assert disks.failures == []


def test_checkpoints_are_kafkas_text(tmp_path: Path) -> None:
    path = tmp_path / "replication-offset-checkpoint"
    assert read_offsets(path) == {}
    write_offsets(path, {ORDERS: 5, BILLS: 2**40})

    assert path.read_text() == f"0\n2\norders 0 5\nbills 1 {2**40}\n"
    assert read_offsets(path) == {ORDERS: 5, BILLS: 2**40}
    path.write_text("")
    assert read_offsets(path) == {}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "1\n0\n",
            "0\n",
            "0\n2\norders 0 5\n",
            "0\n1\norders 0\n",
            "0\n1\norders 0 x\n",
            "0\nx\n",
        ),
        *(f"0\n1\norders 0 {2**63}\n", f"0\n1\norders {2**31} 5\n"),
    ],
)
def test_a_malformed_checkpoint_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "checkpoint"
    path.write_text(text)

    with pytest.raises(CheckpointMalformed):
        read_offsets(path)


def test_bytes_that_are_no_text_are_a_malformed_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(CheckpointMalformed):
        read_epochs(path)


def test_a_log_is_configured_by_its_topic_and_the_broker() -> None:
    broker = BrokerConfig.parse(
        {
            "zookeeper.connect": "z:1",
            "log.retention.hours": "2",
            "log.segment.bytes": "1000",
            "log.roll.ms": "77",
            "compression.type": "zstd",
        }
    ).values
    own = {
        "cleanup.policy": "compact,delete",
        "segment.bytes": "2000",
        "compression.type": "gzip",
        "compression.gzip.level": "9",
        "message.timestamp.difference.max.ms": "5",
        "message.timestamp.after.max.ms": "6",
    }

    plain = LogConfig.of({}, broker)
    topic = LogConfig.of(validate_topic_config(own, broker), broker)

    assert (plain.retention_ms, plain.segment_bytes, plain.segment_ms) == (7_200_000, 1000, 77)
    assert (plain.codec, plain.compression_level, plain.flush_messages) == (Codec.ZSTD, 3, MAX_LONG)
    assert (topic.segment_bytes, topic.codec, topic.compression_level) == (2000, Codec.GZIP, 9)
    assert (topic.is_compacted, topic.is_deleted, plain.is_compacted) == (True, True, False)
    assert (topic.timestamp_before_max_ms, topic.timestamp_after_max_ms) == (5, 6)


async def test_upkeep_in_threads_and_appends_on_the_loop_do_not_disturb_each_other(
    disks: Disks, executor: ThreadPoolExecutor
) -> None:
    manager = disks.manager()
    config = replace(SEGMENT, index_interval_bytes=1, flush_ms=0, retention_bytes=500)
    logs = [manager.get_or_create(TopicPartition("t", p), config) for p in range(2)]
    maintenance = LogMaintenance(manager, executor, Schedule(1, 1, 1, 1, 1, 1, 0))

    keeping_up = asyncio.create_task(maintenance.run_due())
    for number in range(24):
        disks.now_ms += 10
        for log in logs:
            log.append_as_leader(batch(timestamp=disks.now_ms), number // 12)
            log.update_high_watermark(log.log_end_offset)
        if number % 8 == 7:
            logs[0].truncate_to(logs[0].log_end_offset - 3)
        await asyncio.sleep(0)
        if keeping_up.done():
            keeping_up = asyncio.create_task(maintenance.run_due())
    await keeping_up
    await maintenance.run_due()
    expected = {tp: (log.log_start_offset, log.log_end_offset) for tp, log in manager.logs.items()}
    values = {
        tp: [s.file.read(0, s.size) for s in log.segments] for tp, log in manager.logs.items()
    }
    assert disks.failures == []
    assert all(log.recovery_point > 0 for log in logs)
    assert all(start > 0 for start, _ in expected.values())

    manager.close()
    again = disks.manager()

    for topic_partition, log in again.logs.items():
        assert (log.log_start_offset, log.log_end_offset) == expected[topic_partition]
        assert [s.file.read(0, s.size) for s in log.segments] == values[topic_partition]
