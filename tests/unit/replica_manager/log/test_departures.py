"""A log that was deleted, moved or truncated: nothing of it is inherited, its cleaning ends.

Source of the behaviours: Kafka ``LogCleanerManagerTest``, ``LogManagerTest``.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from kafka_common.model import TopicPartition
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record
from replica_manager.log import checkpoints
from replica_manager.log.checkpoints import CheckpointFile, read_offsets
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_cleaner import AbortSwitch, CleaningAborted, clean, cleaning_job
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogDirFailure, LogManager
from replica_manager.log.maintenance import LogMaintenance, Schedule
from replica_manager.log.unified_log import UnifiedLog
from tests.support.log_world import START_MS, batch, content

ORDERS = TopicPartition("orders", 0)
BILLS = TopicPartition("bills", 0)
MEMORY = 2**20
DAY_MS = 86_400_000
COMPACTED = LogConfig(
    segment_bytes=400,
    is_compacted=True,
    is_deleted=False,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1000,
)


class Disk:
    """Log directories, managers of them one after the other, and their upkeep."""

    def __init__(self, root: Path, executor: ThreadPoolExecutor, *log_dirs: str) -> None:
        self.log_dirs = [root / name for name in log_dirs or ("a",)]
        self.executor = executor
        self.now_ms = START_MS
        self.failures: list[LogDirFailure] = []
        self.restart()

    def restart(self) -> None:
        """As after ``kill -9``: what was not written is lost, the page cache is not."""
        self.manager = LogManager(
            self.log_dirs,
            lambda: self.now_ms,
            default_config=COMPACTED,
            on_failure=self.failures.append,
        )
        self.manager.load({})
        self.cleaner = CleanerManager(self.manager, self.executor, lambda: MEMORY)

    def log(self, tp: TopicPartition = ORDERS) -> UnifiedLog:
        return self.manager.get_or_create(tp, COMPACTED)

    def upkeep(self) -> None:
        # Nothing periodic: only what logs have left to be done.
        never = 2**62
        schedule = Schedule(*(never,) * 7)
        asyncio.run(LogMaintenance(self.manager, self.executor, schedule).run_due())

    def compact(self) -> None:
        async def clean_all() -> None:
            for _ in range(9):
                if not await self.cleaner.clean_next():
                    return

        asyncio.run(clean_all())

    def on_disk(self, file_name: str, log_dir: int = 0) -> dict[TopicPartition, int]:
        return read_offsets(self.log_dirs[log_dir] / file_name)


@pytest.fixture
def executor() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def disk(tmp_path: Path, executor: ThreadPoolExecutor) -> Disk:
    return Disk(tmp_path, executor)


def put(log: UnifiedLog, key: str, value: str | None, *, timestamp: int = START_MS) -> None:
    record = Record(0, timestamp, key.encode(), None if value is None else value.encode())
    log.append_as_leader(encode_batch([record]), 0)
    log.update_high_watermark(log.log_end_offset)


def fill(log: UnifiedLog, count: int, *, keys: int = 5) -> None:
    for number in range(count):
        put(log, f"k{number % keys}", f"{number}")


def state(log: UnifiedLog) -> dict[bytes | None, bytes | None]:
    """What a consumer that reads the whole log knows in the end."""
    known: dict[bytes | None, bytes | None] = {}
    for segment in log.segments:
        data = segment.file.read(0, segment.size)
        for place, header in iterate_batches(data):
            known |= {record.key: record.value for record in iterate_batch(data, place, header)}
    return {key: value for key, value in known.items() if value is not None}


def copy(log: UnifiedLog, future: UnifiedLog) -> None:
    for segment in log.segments:
        if segment.size:
            future.append_as_follower(segment.file.read(0, segment.size))


def write_and_delete_a_key(disk: Disk, log: UnifiedLog) -> None:
    """A key and its tombstone, and two cleanings with ``delete.retention.ms`` between them."""
    put(log, "gone", "value")
    log.roll()
    put(log, "gone", None)
    log.roll()
    disk.compact()
    disk.now_ms += DAY_MS
    put(log, "other", "value")
    log.roll()
    disk.compact()


@pytest.mark.parametrize("is_killed", [False, True])
def test_a_deleted_key_stays_away_from_a_topic_that_was_deleted_and_created_again(
    disk: Disk, is_killed: bool
) -> None:
    log = disk.log()
    fill(log, 40)
    log.roll()
    disk.compact()
    assert disk.on_disk(checkpoints.CLEANER_FILE) == {ORDERS: 40}

    disk.manager.delete(ORDERS)
    again = disk.log()
    if is_killed:
        disk.restart()
        again = disk.log()
    write_and_delete_a_key(disk, again)

    assert state(again) == {b"other": b"value"}


@pytest.mark.parametrize("is_killed", [False, True])
@pytest.mark.parametrize("is_full", [False, True])
def test_a_deleted_key_stays_away_from_a_log_that_was_truncated(
    disk: Disk, is_killed: bool, is_full: bool
) -> None:
    log = disk.log()
    fill(log, 40)
    log.roll()
    disk.compact()

    if is_full:
        log.truncate_fully_and_start_at(10)
    else:
        log.truncate_to(10)
    if is_killed:
        disk.restart()
        log = disk.log()
    assert disk.on_disk(checkpoints.CLEANER_FILE)[ORDERS] <= 10
    write_and_delete_a_key(disk, log)

    assert b"gone" not in state(log)


@pytest.mark.parametrize("is_full", [False, True])
def test_a_kill_after_a_truncation_leaves_no_epoch_where_another_ones_records_stand(
    disk: Disk, is_full: bool
) -> None:
    """The epochs on disk may be old; the recovery point on disk must not be beyond the cut."""
    log = disk.log()
    for _ in range(40):
        log.append_as_leader(batch(), 1)
    log.flush()
    for write in disk.manager.recovery_point_checkpoints():
        write.run()
    assert disk.on_disk(checkpoints.RECOVERY_POINT_FILE)[ORDERS] == 40

    if is_full:
        log.truncate_fully_and_start_at(10)
    else:
        log.truncate_to(10)
    for _ in range(40):
        log.append_as_leader(batch(), 2)
    disk.restart()

    assert disk.log().epoch_entries == (((2, 10),) if is_full else ((1, 0), (2, 10)))


def test_a_log_that_moves_takes_its_checkpoint_along_and_is_not_cleaned_meanwhile(
    tmp_path: Path, executor: ThreadPoolExecutor
) -> None:
    disk = Disk(tmp_path, executor, "a", "b")
    log = disk.log()
    fill(log, 40)
    log.roll()
    disk.compact()
    source, destination = log.log_dir, next(d for d in disk.log_dirs if d != log.log_dir)

    disk.manager.prefer_log_dir(ORDERS, destination)
    future = disk.manager.get_or_create(ORDERS, COMPACTED, is_future=True)
    fill(log, 40)
    log.roll()
    before = content(log)
    disk.compact()
    assert content(log) == before, "the log moves"

    copy(log, future)
    disk.manager.replace_current_with_future(ORDERS)
    disk.upkeep()
    cleaned = {d: read_offsets(d / checkpoints.CLEANER_FILE) for d in disk.log_dirs}
    assert cleaned == {source: {}, destination: {ORDERS: 40}}

    future.roll()
    disk.compact()
    assert content(future) != before


@pytest.mark.parametrize("is_killed_before_upkeep", [False, True])
def test_a_topic_created_again_does_not_inherit_a_log_start_after_a_crash(
    disk: Disk, is_killed_before_upkeep: bool
) -> None:
    log = disk.log()
    fill(log, 40)
    log.delete_records(30)
    for write in (
        *disk.manager.start_offset_checkpoints(),
        *disk.manager.recovery_point_checkpoints(),
        *disk.manager.high_watermark_checkpoints(),
    ):
        write.run()
    assert disk.on_disk(checkpoints.LOG_START_OFFSET_FILE) == {ORDERS: 30}

    disk.manager.delete(ORDERS)
    if is_killed_before_upkeep:
        disk.restart()
    else:
        disk.upkeep()
        assert ORDERS not in disk.on_disk(checkpoints.LOG_START_OFFSET_FILE)
    again = disk.log()
    for _ in range(35):
        again.append_as_leader(batch(), 0)
    disk.restart()

    log = disk.log()
    assert (log.log_start_offset, log.log_end_offset) == (0, 35)
    assert len(content(log)) == 35
    assert disk.manager.high_watermarks(disk.log_dirs[0]).get(ORDERS, 0) == 0


def test_a_checkpoint_planned_before_a_deletion_does_not_bring_the_partition_back(
    disk: Disk,
) -> None:
    log = disk.log()
    fill(log, 40)
    log.delete_records(30)
    early = disk.manager.start_offset_checkpoints()

    disk.manager.delete(ORDERS)
    disk.log()
    for write in early:
        write.run()

    assert disk.on_disk(checkpoints.LOG_START_OFFSET_FILE) == {}


def test_many_deletions_are_written_together(disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    tps = [TopicPartition("orders", number) for number in range(50)]
    for tp in tps:
        disk.log(tp)
    writes: list[str] = []
    real = CheckpointFile.write

    def count(self: CheckpointFile, number: int, offsets: dict[TopicPartition, int]) -> None:
        writes.append(self.file_name)
        real(self, number, offsets)

    monkeypatch.setattr(CheckpointFile, "write", count)
    for tp in tps:
        disk.manager.delete(tp)
    disk.upkeep()
    disk.upkeep()

    assert len(writes) == 4, "each file of the directory once"


class Held:
    """An executor's thread that stops before it replaces the first batch, until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached = threading.Event()
        self.may_go = threading.Event()
        real = AbortSwitch.check
        calls = 0

        def check(switch: AbortSwitch) -> None:
            nonlocal calls
            calls += 1
            if calls == 30:
                self.is_reached.set()
                assert self.may_go.wait(60)
            real(switch)

        monkeypatch.setattr(AbortSwitch, "check", check)


@pytest.mark.parametrize("what", ["delete", "delete and create", "truncate", "move"])
async def test_a_log_may_go_in_the_middle_of_its_cleaning(
    tmp_path: Path, executor: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    disk = Disk(tmp_path, executor, "a", "b")
    log = disk.log()
    fill(log, 40)
    log.roll()
    held = Held(monkeypatch)

    cleaning = asyncio.create_task(disk.cleaner.clean_next())
    await asyncio.to_thread(held.is_reached.wait, 60)
    if what == "truncate":
        log.truncate_to(10)
        fill(log, 30, keys=50)
    elif what == "move":
        disk.manager.prefer_log_dir(ORDERS, next(d for d in disk.log_dirs if d != log.log_dir))
        future = disk.manager.get_or_create(ORDERS, COMPACTED, is_future=True)
        copy(log, future)
        disk.manager.replace_current_with_future(ORDERS)
    else:
        disk.manager.delete(ORDERS)
        if what == "delete and create":
            fill(disk.log(), 40, keys=50)
    held.may_go.set()
    assert await cleaning

    assert disk.failures == []
    assert not disk.manager.cleaning.uncleanable
    for log_dir in disk.log_dirs:
        assert list(log_dir.glob("*-0/*.cleaned")) == []
    now = disk.manager.log(ORDERS)
    if what == "delete":
        assert now is None
    else:
        assert now is not None
        assert len(content(now)) == 40, "nothing was compacted"


def test_a_tail_that_was_truncated_and_refilled_to_the_same_size_is_not_overwritten(
    disk: Disk,
) -> None:
    log = disk.log()
    fill(log, 10, keys=1)
    log.roll()
    cleaned = clean(cleaning_job(log, None, disk.now_ms), MEMORY)
    old = [segment.base_offset for segment in log.segments]

    log.truncate_to(old[-2])
    fill(log, 10 - old[-2], keys=1)
    log.roll()
    assert [segment.base_offset for segment in log.segments] == old

    assert not log.replace_segments(cleaned.replacements, cleaned.generation)


def test_an_aborted_cleaning_touches_no_path(disk: Disk) -> None:
    log = disk.log()
    fill(log, 40)
    log.roll()
    switch = AbortSwitch()
    job = cleaning_job(log, None, disk.now_ms)
    switch.abort()

    with pytest.raises(CleaningAborted):
        clean(job, MEMORY, switch)
    assert list(log.directory.glob("*.cleaned")) == []


def test_files_of_an_aborted_cleaning_are_not_appended_to(disk: Disk) -> None:
    log = disk.log()
    fill(log, 40)
    log.roll()
    (log.directory / "00000000000000000000.log.cleaned").write_bytes(b"left behind")

    disk.compact()

    assert disk.on_disk(checkpoints.CLEANER_FILE) == {ORDERS: 40}
    assert len(state(log)) == 5


@pytest.mark.parametrize("seam", ["clean", "dirtiness"])
def test_an_unforeseen_exception_in_one_log_leaves_the_others_to_be_cleaned(
    disk: Disk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, seam: str
) -> None:
    orders, bills = disk.log(ORDERS), disk.log(BILLS)
    for log in (orders, bills):
        fill(log, 40)
        log.roll()
    from replica_manager.log import cleaner_manager

    real = getattr(cleaner_manager, seam)

    def fail(subject: object, *rest: object) -> object:
        name = getattr(subject, "name", "")
        if name == orders.name:
            raise RuntimeError("nobody foresaw this")
        return real(subject, *rest)

    monkeypatch.setattr(cleaner_manager, seam, fail)
    disk.compact()

    assert disk.cleaner.uncleanable == {ORDERS}
    assert disk.on_disk(checkpoints.CLEANER_FILE) == {BILLS: 40}
    assert disk.failures == []
    assert f"Marking its partition ({ORDERS}) as uncleanable" in caplog.text
    disk.manager.delete(ORDERS)
    assert disk.cleaner.uncleanable == set()


def test_a_task_that_fails_unforeseen_leaves_the_other_due_tasks_to_be_done(
    disk: Disk, caplog: pytest.LogCaptureFixture
) -> None:
    done: list[str] = []

    def fail() -> None:
        raise RuntimeError("nobody foresaw this")

    log_dir = disk.log_dirs[0]
    for name, action in (("bad", fail), ("good", lambda: done.append("good"))):
        disk.manager.environment.deferred_tasks.add(name, "orders-0", log_dir, 0, action)
    disk.manager.environment.deferred_tasks.add(
        "after", "orders-0", log_dir, 0, lambda: None, lambda: done.append("after")
    )
    disk.upkeep()

    assert done == ["good", "after"]
    assert "Uncaught exception in scheduled task 'bad'" in caplog.text
    assert disk.failures == []


def test_two_threads_that_write_the_leader_epochs_do_not_share_a_file(
    disk: Disk, executor: ThreadPoolExecutor
) -> None:
    log = disk.manager.get_or_create(ORDERS, replace(COMPACTED, segment_bytes=2**20))
    written = []
    for epoch in range(1, 40):
        log.assign_epoch_start_offset(epoch, log.log_end_offset)
        log.append_as_leader(batch(), epoch)
        plan = log.plan_flush()
        assert plan is not None
        written += [executor.submit(plan.run), executor.submit(plan.before)]

    for each in written:
        each.result(60)
    entries = checkpoints.read_epochs(log.directory / "leader-epoch-checkpoint")
    assert [entry.epoch for entry in entries][-1] == 39
    assert disk.failures == []
