"""The logs of a broker: loads them at the start, maintains them, and closes them at the end.

Loading and closing block, so they run in an executor; everything else runs on the event loop.  A
directory that fails goes offline, and :mod:`.log_dir_failure_handler` takes its replicas offline.

Source: Kafka ``KafkaServer``, ``LogManager.startup``, ``ReplicaManager.handleLogDirFailure``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka_common.model import TopicPartition
from kafka_common.process.wall_clock import monotonic_ms
from kafka_common.protocol.inter_broker_versions import transaction_verification_version
from kafka_common.wall_time import wall_time_ms
from replica_manager.configuration.config import BrokerConfig
from replica_manager.log.cleaner_manager import CleanerManager
from replica_manager.log.log_manager import LogDirFailure, LogManager
from replica_manager.log.maintenance import LogMaintenance, Schedule
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.disk_logs import DiskLogs
from replica_manager.resizable_executor import ResizableExecutor

_log = logging.getLogger("kafka.server.ReplicaManager")

_RESTART_DELAY_S: Final = 1.0
"""Pause before maintenance that ended with an error is started again."""


class CleanerSettings(NamedTuple):
    """The settings of the log cleaner: keys ``log.cleaner.*``."""

    backoff_ms: int
    """``log.cleaner.backoff.ms``: pause when no log needs cleaning."""
    memory_bytes: int
    """``log.cleaner.dedupe.buffer.size``: limit of the memory of the offset map."""


class Storage:
    """The logs of one broker and their maintenance."""

    def __init__(
        self,
        broker_id: int,
        config: Callable[[], BrokerConfig],
        failed_log_dirs: Mapping[Path, tuple[str, OSError]],
        on_failure: Callable[[LogDirFailure], None],
        on_flush: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``on_flush`` is called with the milliseconds of each flush, in the flushing thread.

        ``failed_log_dirs`` holds directories that cannot be used, with the error.  ``on_failure``
        is called on the event loop when a directory fails.
        """
        self._config = config
        self._on_failure = on_failure
        self._loop = asyncio.get_running_loop()
        self._tasks: list[asyncio.Task[None]] = []
        now = config()
        self._executor = ResizableExecutor(now.integer("background.threads"), "kafka-scheduler")
        self._cleaner_executor = ThreadPoolExecutor(1, "kafka-log-cleaner-thread")
        self.logs = LogManager(
            now.log_dirs,
            wall_time_ms,
            monotonic_ms=monotonic_ms,
            on_failure=self._failed,
            recovery_threads_per_dir=now.integer("num.recovery.threads.per.data.dir"),
            producer_id_expiration_ms=lambda: config().integer("producer.id.expiration.ms"),
            verifies_transactions=lambda: _is_verifying_transactions(config()),
            on_flush=on_flush,
        )
        self.replica_logs = DiskLogs(self.logs, lambda: self._config().values, broker_id)
        for log_dir, failed in failed_log_dirs.items():
            self.logs.fail(log_dir, *failed)
        self.maintenance = LogMaintenance(self.logs, self._executor, _schedule(now))
        self.cleaner: CleanerManager | None = None
        """The log cleaner; None if ``log.cleaner.enable`` is false."""
        if now.is_enabled("log.cleaner.enable"):
            self.cleaner = CleanerManager(
                self.logs, self._cleaner_executor, lambda: self.cleaner_settings.memory_bytes
            )
        self._cleaning: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Opens all logs, and recovers those that need it.  Blocks."""
        self.replica_logs.load(lambda _: None)

    def start(self) -> None:
        """Starts the maintenance of logs, and the log cleaner."""
        self._tasks.append(self._loop.create_task(self._keep_up(self.maintenance.run)))
        cleaner = self.cleaner
        if cleaner is not None:
            self._cleaning = self._loop.create_task(
                self._keep_up(lambda: cleaner.run(lambda: self.cleaner_settings.backoff_ms))
            )
            self._tasks.append(self._cleaning)

    def min_in_sync_replicas(self, topic: str) -> int:
        """The topic's ``min.insync.replicas``."""
        return self.replica_logs.min_in_sync_replicas(topic)

    async def flush(self, log: UnifiedLog) -> None:
        """Flushes a log in a thread; its recovery point tells whether that was done or put off."""
        await self.maintenance.flush(log)

    async def flush_to_end(self, topic_partition: TopicPartition) -> None:
        """Flushes a partition's log in a thread, again until it is on disk or not served."""
        await self.maintenance.flush_to_end(topic_partition)

    @property
    def has_cleaner_ended(self) -> bool:
        """Whether the log cleaner's task has ended, so that no log is compacted."""
        return self._cleaning is not None and self._cleaning.done()

    def broker_changed(self) -> None:
        """Applies the broker's changed configuration to threads and logs."""
        now = self._config()
        self._executor.resize(now.integer("background.threads"))
        self.logs.recovery_threads_per_dir = now.integer("num.recovery.threads.per.data.dir")
        self.replica_logs.broker_changed()

    @property
    def threads(self) -> int:
        """The number of threads that maintain the logs: ``background.threads``."""
        return self._executor.threads

    @property
    def cleaner_settings(self) -> CleanerSettings:
        """The current settings of the log cleaner."""
        now = self._config()
        return CleanerSettings(
            now.integer("log.cleaner.backoff.ms"), now.integer("log.cleaner.dedupe.buffer.size")
        )

    async def stop(self) -> None:
        """Stops the maintenance, then closes the logs and marks their directories as clean."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # Maintenance that is running must end before the last checkpoints are written.
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._cleaner_executor.shutdown(wait=True, cancel_futures=True)
        self.logs.close()

    async def _keep_up(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await run()
            except Exception:  # noqa: BLE001 - a defect must not end the maintenance of logs
                _log.exception("The upkeep of logs ended with an error and begins anew")
            await asyncio.sleep(_RESTART_DELAY_S)

    def _failed(self, failure: LogDirFailure) -> None:
        # Called from any thread, in the operation that failed on the disk.
        with contextlib.suppress(RuntimeError):  # the loop is closed: the broker has ended
            self._loop.call_soon_threadsafe(self._on_failure, failure)


def _is_verifying_transactions(config: BrokerConfig) -> bool:
    """Whether transactions are verified by their coordinators before the first append (KIP-890)."""
    return transaction_verification_version(
        config.inter_broker_version
    ) is not None and config.is_enabled("transaction.partition.verification.enable")


def _schedule(config: BrokerConfig) -> Schedule:
    return Schedule(
        retention_check_ms=config.integer("log.retention.check.interval.ms"),
        recovery_point_checkpoint_ms=config.integer("log.flush.offset.checkpoint.interval.ms"),
        start_offset_checkpoint_ms=config.integer("log.flush.start.offset.checkpoint.interval.ms"),
        high_watermark_checkpoint_ms=config.integer(
            "replica.high.watermark.checkpoint.interval.ms"
        ),
        flush_check_ms=config.integer("log.flush.scheduler.interval.ms"),
        producer_expiration_check_ms=config.integer("producer.id.expiration.check.interval.ms"),
        initial_delay_ms=config.integer("log.initial.task.delay.ms"),
    )
