"""A random run of a broker's logs on disk, compared with a plain dictionary of what they may hold.

A run appends records and tombstones, compacts, applies retention and DeleteRecords, truncates,
deletes and creates partitions, moves them to another log directory, kills the broker, and loses
the tails of logs.  The logs are the real ones, in a folder of the test.  An executor replaces the
threads; the run decides when it executes a task.

The model does not know how a log works.  It keeps every record since the partition was created, and
marks those that compaction may have removed.  Three things must hold for a read.  It returns no
record that the model does not have.  It returns every record that no operation may have removed.
It never returns a value of a key whose newest record is a tombstone.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any, Final

from typing_extensions import override

from kafka_common.model import TopicPartition
from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record
from replica_manager.log.checkpoints import CheckpointWrite
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_manager import LogDirFailure, LogManager
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.maintenance import LogMaintenance, Schedule
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.log_dir_copy import (
    align,
    append,
    has_caught_up,
    read_next,
    take_over_epochs,
)

START_MS: Final = 1_700_000_000_000
STEPS: Final = 70
KEYS: Final = 10
CLEANER_BYTES: Final = 2**16
_NEVER: Final = 2**62

_SMALL: Final = LogConfig(
    segment_bytes=420,
    index_interval_bytes=100,
    min_cleanable_dirty_ratio=0.0,
    delete_retention_ms=1_000,
    file_delete_delay_ms=500,
    retention_bytes=-1,
    retention_ms=-1,
)
CONFIGS: Final = {
    "plain": replace(_SMALL, retention_bytes=2_000),
    "compact": replace(_SMALL, is_compacted=True, is_deleted=False),
    "both": replace(_SMALL, is_compacted=True, retention_bytes=4_000),
}
PARTITIONS: Final = tuple(TopicPartition(topic, 0) for topic in CONFIGS)
_WEIGHTS: Final = (2, 4, 1)


class Unreadable(AssertionError):
    """The log gives what it must not, or lacks what it must have."""


class LaterExecutor(Executor):
    """Runs what it was given when :meth:`run` is called, in the caller's thread."""

    def __init__(self) -> None:
        self._waiting: list[tuple[Future[Any], Callable[[], Any]]] = []

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._waiting.append((future, lambda: fn(*args, **kwargs)))
        return future

    def run(self) -> None:
        waiting, self._waiting = self._waiting, []
        for future, action in waiting:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(action())
                except Exception as error:  # noqa: BLE001 - the waiting task gets it
                    future.set_exception(error)


class NowExecutor(LaterExecutor):
    """Runs at once."""

    @override
    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = super().submit(fn, *args, **kwargs)
        self.run()
        return future


@dataclass(slots=True)
class Life:
    """What is known of a partition since it was created."""

    epoch: int = 0
    records: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    batch_starts: list[int] = field(default_factory=list)
    may_be_gone: set[int] = field(default_factory=set)
    """Offsets of records that compaction may have removed."""
    start: int = 0
    """Below it nothing need be there; it is never above what was asked for."""
    end: int = 0
    fsynced: int = 0
    """Records below it survive the loss of the page cache."""

    def cut(self, offset: int) -> None:
        self.records = {at: record for at, record in self.records.items() if at < offset}
        self.batch_starts = [at for at in self.batch_starts if at < offset]
        self.may_be_gone = {at for at in self.may_be_gone if at < offset}
        self.end = offset
        self.start = min(self.start, offset)
        self.fsynced = min(self.fsynced, offset)
        self.epoch += 1

    def cleaned(self, end: int) -> None:
        """A compaction up to ``end`` may have removed all but the newest record of each key."""
        newest = {key: at for at, (key, _) in self.records.items() if at < end}
        self.may_be_gone |= {
            at
            for at, (key, value) in self.records.items()
            if at < end and (value is None or newest[key] != at)
        }
        self.fsynced = max(self.fsynced, end)

    def check(self, found: dict[int, tuple[bytes, bytes | None]], log: UnifiedLog) -> None:
        """Unreadable if the log is not what it may be."""
        if log.log_end_offset != self.end:
            raise Unreadable(f"{log.name} ends at {log.log_end_offset} instead of {self.end}")
        if log.log_start_offset > self.start:
            raise Unreadable(f"{log.name} starts at {log.log_start_offset}, not {self.start}")
        for at, record in found.items():
            if self.records.get(at) != record:
                raise Unreadable(f"{log.name} has {record} at {at}: {self.records.get(at)}")
        for at in self.records:
            if at >= self.start and at not in found and at not in self.may_be_gone:
                raise Unreadable(f"{log.name} has lost {self.records[at]} at {at}")
        newest = {key: at for at, (key, _) in self.records.items()}
        seen = {key: at for at, (key, _) in found.items()}
        for key, at in newest.items():
            if self.records[at][1] is None and seen.get(key, at) != at:
                raise Unreadable(f"{log.name} has {key!r} at {seen[key]}, deleted at {at}")


class LogScenario:
    """One broker's log directories, stepped at random."""

    def __init__(self, root: Path, seed: int) -> None:
        self.random = Random(seed)
        self.log_dirs = [root / "a", root / "b"]
        self.now_ms = START_MS
        self.lives: dict[TopicPartition, Life] = {}
        self.history: list[str] = []
        self.compactions = 0
        self._number = 0
        self._failures: list[LogDirFailure] = []
        self._held: list[CheckpointWrite] = []
        self._loop = asyncio.new_event_loop()
        self._cleaning: asyncio.Task[bool] | None = None
        self._start()

    def _start(self) -> None:
        self.manager = LogManager(
            self.log_dirs,
            lambda: self.now_ms,
            default_config=_SMALL,
            on_failure=self._failures.append,
            random=self.random,
        )
        self.manager.load(CONFIGS)
        self._executor = LaterExecutor()
        self._cleaner = CleanerManager(self.manager, self._executor, lambda: CLEANER_BYTES)
        self._held = []

    def run(self, steps: int = STEPS) -> None:
        """Performs random actions; raises Unreadable when a log differs from the model."""
        actions: list[tuple[Callable[[], None], int]] = [
            (self._append, 12),
            (self._roll, 4),
            (self._begin_cleaning, 6),
            (self._go_on_cleaning, 8),
            (self._compact_everything, 4),
            (self._pass_time, 3),
            (self._upkeep, 2),
            (self._hold_checkpoints, 1),
            (self._write_held_checkpoints, 1),
            (self._flush, 2),
            (self._retention, 2),
            (self._delete_records, 2),
            (self._truncate, 2),
            (self._delete, 2),
            (self._begin_move, 2),
            (self._go_on_moving, 4),
            (self._cancel_move, 1),
            (self._kill, 1),
            (self._lose_tails, 1),
            (self._stop, 1),
        ]
        weights = [weight for _, weight in actions]
        try:
            for _ in range(steps):
                [(action, _)] = self.random.choices(actions, weights)
                self.history.append(action.__name__)
                action()
                self.check()
            # In the end everything is compacted, tombstones expire, and it is compacted again.
            self._cancel_move()
            for _ in range(3):
                self._compact_everything()
                self.check()
            self._stop()
            self.check()
        finally:
            self._forget_cleaning()
            self._loop.close()

    # Looking.

    def check(self) -> None:
        self._note_cleaned()
        if self._failures:
            raise Unreadable(f"a log directory went offline: {self._failures}")
        if self.manager.cleaning.uncleanable:
            raise Unreadable(f"cannot be compacted: {self.manager.cleaning.uncleanable}")
        for tp in PARTITIONS:
            log, life = self.manager.log(tp), self.lives.get(tp)
            if (log is None) != (life is None):
                raise Unreadable(f"{tp}: {log} is there, {life} should be")
            if log is not None and life is not None:
                life.check(dict(_read(log)), log)

    def _pick(self) -> tuple[TopicPartition, UnifiedLog, Life]:
        """A partition, created if it is not there."""
        [tp] = self.random.choices(PARTITIONS, _WEIGHTS)
        log = self.manager.get_or_create(tp, CONFIGS[tp.topic])
        return tp, log, self.lives.setdefault(tp, Life())

    # Records.

    def _append(self) -> None:
        _, log, life = self._pick()
        for _ in range(self.random.randint(1, 6)):
            self._append_batch(log, life)

    def _append_batch(self, log: UnifiedLog, life: Life) -> None:
        records = [self._record(i) for i in range(self.random.randint(1, 3))]
        self._append_records(log, life, records)

    def _append_records(self, log: UnifiedLog, life: Life, records: list[Record]) -> None:
        life.batch_starts.append(life.end)
        log.append_as_leader(encode_batch(records), life.epoch)
        for record in records:
            assert record.key is not None, "every record has a key"
            life.records[life.end] = record.key, record.value
            life.end += 1
        log.update_high_watermark(log.log_end_offset)

    def _maybe_refill(self, log: UnifiedLog, life: Life, end: int) -> None:
        """A producer may write as much again as was cut off or deleted, before anything else."""
        if self.random.random() < 0.6:
            self.history.append("refilled")
            while life.end < end:
                self._append_batch(log, life)

    def _record(self, place: int) -> Record:
        self._number += 1
        is_tombstone = self.random.random() < 0.3
        key = b"k%d" % self.random.randrange(KEYS)
        return Record(place, self.now_ms, key, None if is_tombstone else b"%d" % self._number)

    def _roll(self) -> None:
        _, log, _ = self._pick()
        log.roll()

    def _flush(self) -> None:
        _, log, life = self._pick()
        log.flush()
        life.fsynced = life.end

    def _retention(self) -> None:
        self.manager.delete_old_segments()
        self._note_retention()

    def _note_retention(self) -> None:
        for tp, life in self.lives.items():
            log = self.manager.logs[tp]
            assert log.log_start_offset <= log.high_watermark
            life.start = max(life.start, log.log_start_offset)

    def _delete_records(self) -> None:
        tp, log, life = self._pick()
        if tp.topic != "compact" and log.log_start_offset < log.high_watermark:
            offset = self.random.randint(log.log_start_offset, log.high_watermark)
            log.delete_records(offset)
            life.start = max(life.start, offset)

    def _truncate(self) -> None:
        _, log, life = self._pick()
        starts = [at for at in life.batch_starts if at >= log.log_start_offset]
        if starts:
            offset = self.random.choice(starts)
            is_full = self.random.random() < 0.2
            if is_full:
                log.truncate_fully_and_start_at(offset)
                life.records.clear()
            else:
                plan = log.plan_truncation(offset)
                if plan is not None:
                    plan.run()
                log.truncate_to(offset)
            end = life.end
            life.cut(offset)
            if is_full:
                life.start = offset
            self._maybe_refill(log, life, end)

    # Compaction.

    def _turn(self) -> None:
        """Lets the task of the cleaner go on as far as it can."""
        for _ in range(4):
            self._loop.run_until_complete(asyncio.sleep(0))

    def _begin_cleaning(self) -> None:
        if self._cleaning is None:
            self._cleaning = self._loop.create_task(self._clean())
            self._turn()

    async def _clean(self) -> bool:
        return await self._cleaner.clean_next()

    def _go_on_cleaning(self) -> None:
        """The thread of the cleaner gets its turn; then, perhaps, the event loop."""
        if self._cleaning is None:
            return
        self._executor.run()
        if self.random.random() < 0.5:
            self._turn()
        if self._cleaning.done():
            self._cleaning.result()
            self._cleaning = None

    def _note_cleaned(self) -> None:
        for tp, life in self.lives.items():
            log = self.manager.log(tp)
            end = None if log is None else self._checkpoint(tp, log)
            if end is not None:
                life.cleaned(min(end, life.end))
                self.compactions += 1

    def _checkpoint(self, tp: TopicPartition, log: UnifiedLog) -> int | None:
        return self.manager.cleaning.checkpoint(log.log_dir).get(tp)

    def _compact_everything(self) -> None:
        """Compacts every log, each with something new in it, and lets tombstones expire."""
        for tp, log in self.manager.logs.items():
            self._append_records(log, self.lives[tp], [Record(0, self.now_ms, b"last", b"")])
            log.roll()
        for _ in range(4 * len(PARTITIONS)):
            self._begin_cleaning()
            task = self._cleaning
            while task is not None and not task.done():
                self._executor.run()
                self._turn()
                self._note_cleaned()
            self._cleaning = None
            if task is not None and not task.result():
                break
        self.now_ms += 10_000

    def _forget_cleaning(self) -> None:
        if self._cleaning is not None:
            self._cleaning.cancel()
            self._turn()
            self._cleaning = None

    # Upkeep.

    def _pass_time(self) -> None:
        self.now_ms += self.random.choice([1, 600, 2_000])

    def _upkeep(self) -> None:
        """What logs have left to be done; sometimes also the periodic checkpoints."""
        period = 0 if self.random.random() < 0.5 else _NEVER
        schedule = Schedule(_NEVER, period, period, period, _NEVER, _NEVER, period)
        maintenance = LogMaintenance(self.manager, NowExecutor(), schedule)
        self._loop.run_until_complete(maintenance.run_due())
        self._note_retention()  # the first run of all that is periodic

    def _hold_checkpoints(self) -> None:
        """Periodic checkpoints are planned; their thread is slow."""
        self._held += [
            *self.manager.start_offset_checkpoints(),
            *self.manager.recovery_point_checkpoints(),
        ]

    def _write_held_checkpoints(self) -> None:
        held, self._held = self._held, []
        for write in held:
            write.run()

    # Logs come, go and move.

    def _delete(self) -> None:
        tp, _, deleted = self._pick()
        self.manager.delete(tp)
        self.manager.delete(tp, is_future=True)
        del self.lives[tp]
        if self.random.random() < 0.7:
            self.history.append("recreated")
            log = self.manager.get_or_create(tp, CONFIGS[tp.topic])
            life = self.lives[tp] = Life()
            self._maybe_refill(log, life, deleted.end)

    def _begin_move(self) -> None:
        tp, log, _ = self._pick()
        if tp not in self.manager.future_logs:
            other = next(path for path in self.log_dirs if path != log.log_dir)
            self.manager.prefer_log_dir(tp, other)
            self.manager.get_or_create(tp, CONFIGS[tp.topic], is_future=True)

    def _go_on_moving(self) -> None:
        for tp, future in list(self.manager.future_logs.items()):
            current = self.manager.logs[tp]
            for _ in range(self.random.randint(1, 30)):
                self._align(current, future)
                if has_caught_up(current, future):
                    break
                found = read_next(current, future, 300)
                append(current, future, b"" if found.slice is None else found.slice.read())
            self._align(current, future)
            if has_caught_up(current, future):
                append(current, future, b"")
                take_over_epochs(current, future)
                future.flush()
                self.manager.replace_current_with_future(tp)
                self.lives[tp].fsynced = self.lives[tp].end
                self.history.append(f"moved {tp}")

    def _align(self, current: UnifiedLog, future: UnifiedLog) -> None:
        while (plan := align(current, future)) is not None:
            plan.run()

    def _cancel_move(self) -> None:
        for tp in list(self.manager.future_logs):
            self.manager.delete(tp, is_future=True)

    # The process ends.

    def _stop(self) -> None:
        self._forget_cleaning()
        self.manager.close()
        self._start()
        for tp, life in self.lives.items():
            life.fsynced = life.end
            self._accept_an_end_that_fell(tp, life)
        self._restore_high_watermarks()

    def _kill(self) -> None:
        """The process is killed; what it has written stays."""
        self._forget_cleaning()
        self._start()
        for tp, life in self.lives.items():
            life.epoch += 1
            self._accept_a_start_that_fell(tp, life)
        self._restore_high_watermarks()

    def _lose_tails(self) -> None:
        """The machine loses its power: of what was not flushed some is lost."""
        self._forget_cleaning()
        cuts: dict[TopicPartition, int] = {}
        for tp, log in self.manager.logs.items():
            life = self.lives[tp]
            first = next(iter(log.segments)).base_offset
            kept = max(life.fsynced, log.recovery_point, first)
            starts = [at for at in (*life.batch_starts, life.end) if at >= kept]
            cuts[tp] = self.random.choice(starts or [life.end])
            if cuts[tp] < life.end:
                _cut_files(log, cuts[tp], self.random)
        self._start()
        for tp, offset in cuts.items():
            life = self.lives[tp]
            log = self.manager.logs[tp]
            # A log that lost its records below a known start begins anew at that start.
            life.cut(max(offset, min(log.log_start_offset, life.start)))
            self._accept_a_start_that_fell(tp, life)
        self._restore_high_watermarks()

    def _accept_a_start_that_fell(self, tp: TopicPartition, life: Life) -> None:
        """A start that was not in the checkpoint yet is forgotten; what is below may be gone."""
        life.may_be_gone |= {at for at in life.records if at < life.start}
        self._accept_an_end_that_fell(tp, life)

    def _accept_an_end_that_fell(self, tp: TopicPartition, life: Life) -> None:
        """A log ends after its last batch; compaction and then a truncation may leave none there.

        Kafka's log, too, ends lower after a restart then.
        """
        log = self.manager.log(tp)
        if log is None:
            raise Unreadable(f"{tp} has no log after the restart")
        end = log.log_end_offset
        if end < life.end and all(at in life.may_be_gone for at in life.records if at >= end):
            life.cut(end)

    def _restore_high_watermarks(self) -> None:
        for log in self.manager.logs.values():
            log.update_high_watermark(log.log_end_offset)


def _read(log: UnifiedLog) -> Iterator[tuple[int, tuple[bytes, bytes | None]]]:
    """Every record that a client gets, by offset."""
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        found = log.read(offset, 2**20, FetchIsolation.LOG_END, min_one_message=True)
        data = b"" if found.slice is None else found.slice.read()
        after = offset
        for place, header in iterate_batches(data):
            for record in iterate_batch(data, place, header):
                if record.offset >= offset:
                    assert record.key is not None, "every record has a key"
                    yield record.offset, (record.key, record.value)
            after = header.last_offset + 1
        if after <= offset:
            return
        offset = after


def _cut_files(log: UnifiedLog, offset: int, random: Random) -> None:
    """Leaves in the files what is before ``offset``, and perhaps some bytes of the next batch."""
    for segment in list(log.segments):
        if segment.base_offset > offset:
            for path in segment.paths():
                path.unlink(missing_ok=True)
            continue
        place = segment.find_batch(offset)
        if place is not None:
            torn = random.choice([0, 0, 20, place.header.size - 1])
            os.truncate(segment.file.path, place.position + torn)
