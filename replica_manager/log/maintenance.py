"""Periodic and deferred work on logs: planned on the event loop, run in threads.

The work on one log directory is done in the order in which it fell due, one task at a time.
Directories do not wait for each other: a disk that is slow, or hangs, blocks one thread of the pool
and delays the logs on that disk only.

Source: Kafka ``LogManager.startupWithConfigOverrides`` (its schedules).
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict, deque
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Executor
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import Struct

from kafka_common.errors import KafkaStorage
from kafka_common.model import TopicPartition
from kafka_common.process.resource_limits import exhausted_limit
from replica_manager.log.checkpoints import CheckpointWrite
from replica_manager.log.environment import DeferredTask
from replica_manager.log.log_manager import LogManager, StaleCheckpoints
from replica_manager.log.unified_log import UnifiedLog

_log = logging.getLogger("kafka.log.LogManager")

TICK_MS: Final = 1000
"""The interval of the checks for due work, in milliseconds; deferred work is never urgent."""

RETRY_MS: Final = 5_000
"""The delay before a task that failed at a limit of the system is tried again."""

LOGS_AT_ONCE: Final = 200
"""Logs that retention checks before it yields to other tasks of the event loop: some 3 ms."""


class _Outcome(Enum):
    """The outcome of work in a thread."""

    DONE = "done"
    FAILED = "failed"
    PUT_OFF = "put off"
    """A limit of the process or the system prevents the work now; the disk has not failed."""


class Schedule(Struct, frozen=True):
    """Periods in milliseconds, with Kafka's defaults."""

    retention_check_ms: int = 300_000
    recovery_point_checkpoint_ms: int = 60_000
    start_offset_checkpoint_ms: int = 60_000
    high_watermark_checkpoint_ms: int = 5_000
    flush_check_ms: int = 2**63 - 1
    producer_expiration_check_ms: int = 600_000
    initial_delay_ms: int = 30_000


class _Work(NamedTuple):
    """One task in the queue of a log directory."""

    name: str
    do: Callable[[], Coroutine[Any, Any, None]]


class LogMaintenance:
    """Runs deferred and periodic work until cancelled; :meth:`run_due` may also be called alone."""

    def __init__(
        self, manager: LogManager, executor: Executor, schedule: Schedule | None = None
    ) -> None:
        self._manager = manager
        self._executor = executor
        times = schedule or Schedule()
        now_ms = manager.environment.monotonic_ms()
        first_ms = now_ms + times.initial_delay_ms
        self._periods: dict[str, int] = {
            "retention": times.retention_check_ms,
            "flush": times.flush_check_ms,
            "recovery-point": times.recovery_point_checkpoint_ms,
            "start-offset": times.start_offset_checkpoint_ms,
            "high-watermark": times.high_watermark_checkpoint_ms,
            "producers": times.producer_expiration_check_ms,
        }
        self._due_ms = dict.fromkeys(self._periods, first_ms)
        self._queues: dict[Path, deque[_Work]] = {}
        """The tasks of each directory in order: deferred ones, each periodic one at most once."""
        self._waiting: set[tuple[Path, str]] = set()
        """The names of the periodic tasks that wait in those queues."""
        self._workers: dict[Path, asyncio.Task[None]] = {}
        # As in Kafka, the first check comes after a whole period, not after the initial delay: a
        # producer with old timestamps in its records would expire at once.
        self._due_ms["producers"] = now_ms + times.producer_expiration_check_ms
        self._due_ms["high-watermark"] = now_ms + times.high_watermark_checkpoint_ms

    async def run(self) -> None:
        """Checks the logs every TICK_MS, endlessly."""
        _log.info("Starting log cleanup with a period of %d ms.", self._periods["retention"])
        text = "Starting log flusher with a default period of %d ms."
        _log.info(text, self._periods["flush"])
        try:
            while True:
                await asyncio.sleep(TICK_MS / 1000)
                await self.run_due(to_its_end=False)
        finally:
            workers = list(self._workers.values())
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._workers.clear()  # a task cancelled before its first step does not remove itself

    async def run_due(self, *, to_its_end: bool = True) -> None:
        """Starts the work that is due now; unexpected failures are logged.

        Work that waits for a disk runs in a task per directory; ``to_its_end`` awaits these tasks.
        """
        manager = self._manager
        now_ms = manager.environment.monotonic_ms()
        for task in manager.environment.deferred_tasks.take_due(now_ms):
            self._enqueue(task.directory, task.name, partial(self._run_deferred, task))
        for stale in manager.stale_checkpoints():
            self._enqueue_once(
                stale.log_dir, "stale-checkpoints", partial(self._write_stale_checkpoints, stale)
            )
        for name, due_ms in self._due_ms.items():
            if now_ms >= due_ms:
                self._due_ms[name] = now_ms + self._periods[name]
                await self._guarded(name, self._perform(name))
        if to_its_end:
            await asyncio.gather(*self._workers.values())

    def _enqueue(
        self, log_dir: Path, name: str, do: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Adds work to a directory's queue, and starts the queue's task if none is running."""
        queue = self._queues.setdefault(log_dir, deque())
        queue.append(_Work(name, do))
        if log_dir not in self._workers:
            self._workers[log_dir] = asyncio.get_running_loop().create_task(
                self._run_queue(log_dir, queue)
            )

    def _enqueue_once(
        self, log_dir: Path, name: str, do: Callable[[], Coroutine[Any, Any, None]]
    ) -> None:
        """Adds a periodic task, unless the same one still waits in the directory's queue."""
        if (log_dir, name) not in self._waiting:
            self._waiting.add((log_dir, name))
            self._enqueue(log_dir, name, do)

    async def _run_queue(self, log_dir: Path, queue: deque[_Work]) -> None:
        try:
            while queue:
                work = queue.popleft()
                self._waiting.discard((log_dir, work.name))
                await self._guarded(work.name, work.do())
        finally:
            self._workers.pop(log_dir, None)

    async def _guarded(self, name: str, action: Coroutine[Any, Any, None]) -> None:
        try:
            await action
        except Exception:  # noqa: BLE001 - one task must not take the others along
            _log.exception("Uncaught exception in scheduled task '%s'", name)

    async def _run_deferred(self, task: DeferredTask) -> None:
        if self._manager.is_live(task.directory):
            doing = f"Error while deleting files in dir {task.directory}"
            outcome = await self._blocking(task.directory, doing, task.action)
            if outcome is _Outcome.PUT_OFF:
                now_ms = self._manager.environment.monotonic_ms()
                self._manager.environment.deferred_tasks.put_off(task, now_ms + RETRY_MS)
            elif outcome is _Outcome.DONE and task.after is not None:
                task.after()

    async def _write_stale_checkpoints(self, stale: StaleCheckpoints) -> None:
        """Writes the checkpoints of a directory where logs were deleted, moved or truncated."""
        for write in stale.writes:
            if not self._manager.is_live(write.log_dir):
                return
            if await self._checkpoint(write) is not _Outcome.DONE:
                return
        self._manager.finish_stale_checkpoints(stale)

    async def _perform(self, name: str) -> None:
        manager = self._manager
        match name:
            case "retention":
                for number, _ in enumerate(manager.retention_steps(), start=1):
                    if number % LOGS_AT_ONCE == 0:
                        await asyncio.sleep(0)
            case "producers":
                manager.remove_expired_producers()
            case "flush":
                dirty: defaultdict[Path, list[UnifiedLog]] = defaultdict(list)
                for log in manager.dirty_logs():
                    dirty[log.log_dir].append(log)
                for log_dir, logs in dirty.items():
                    self._enqueue_once(log_dir, name, partial(self._flush_all, logs))
            case "recovery-point":
                self._write(name, manager.recovery_point_checkpoints())
            case "start-offset":
                self._write(name, manager.start_offset_checkpoints())
            case _:
                self._write(name, manager.high_watermark_checkpoints())

    async def _flush_all(self, logs: Iterable[UnifiedLog]) -> None:
        for log in logs:
            await self.flush(log)

    async def flush(self, log: UnifiedLog, offset: int | None = None) -> None:
        """Flushes a log up to ``offset`` (None: its end) in a thread; moves its recovery point."""
        try:
            plan = log.plan_flush(offset)
        except KafkaStorage:
            return  # logged already
        if plan is None:
            return
        log_dir = log.directory.parent
        doing = f"Error while flushing log for {log.name} in dir {log_dir}"
        if await self._blocking(log_dir, doing, plan.run) is _Outcome.DONE:
            log.finish_flush(plan)

    async def flush_to_end(self, topic_partition: TopicPartition) -> None:
        """Flushes a partition's log up to its present end, again while a limit puts that off.

        Returns, too, when this log is not the partition's any more, or its directory is offline.
        """
        log = self._manager.log(topic_partition)
        end_offset = 0 if log is None else log.log_end_offset
        while log is not None and log is self._manager.log(topic_partition):
            await self.flush(log)
            if log.recovery_point >= min(end_offset, log.log_end_offset):
                return
            await asyncio.sleep(RETRY_MS / 1000)

    def _write(self, name: str, writes: Iterable[CheckpointWrite]) -> None:
        for write in writes:
            self._enqueue_once(write.log_dir, name, partial(self._write_one, write))

    async def _write_one(self, write: CheckpointWrite) -> None:
        if self._manager.is_live(write.log_dir):
            await self._checkpoint(write)

    async def _checkpoint(self, write: CheckpointWrite) -> _Outcome:
        doing = f"Error while writing to checkpoint file {write.path}"
        return await self._blocking(write.log_dir, doing, write.run)

    async def _blocking(self, log_dir: Path, doing: str, action: Callable[[], None]) -> _Outcome:
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, action)
        except OSError as error:
            if isinstance(error, FileNotFoundError) and log_dir.is_dir():
                # The file was renamed or deleted since the work was planned; the disk is fine.
                _log.warning("Upkeep of %s found a file gone: %s", log_dir, error)
                return _Outcome.FAILED
            limit = exhausted_limit(error)
            if limit is not None:
                _log.error("Upkeep of %s is put off: %s", log_dir, limit)
                return _Outcome.PUT_OFF
            self._manager.fail(log_dir, doing, error)
            return _Outcome.FAILED
        return _Outcome.DONE
