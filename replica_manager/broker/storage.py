"""The broker's disks: logs loaded at the start, looked after while it runs, closed at its end.

Loading and closing block and belong to an executor; everything else happens on the event loop.  A
directory that fails, whenever that is, goes offline, and :mod:`.log_dir_failure_handler` gives up
its replicas.

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
"""Before upkeep that ended with an error is begun anew."""


class CleanerSettings(NamedTuple):
    """How the log cleaner works: the keys ``log.cleaner.*``."""

    backoff_ms: int
    """How long to wait when nothing needs it."""
    memory_bytes: int
    """What the map of offsets may take."""


class Storage:
    """The logs of one broker and their upkeep."""

    def __init__(
        self,
        config: Callable[[], BrokerConfig],
        failed_log_dirs: Mapping[Path, tuple[str, OSError]],
        on_failure: Callable[[LogDirFailure], None],
        on_flush: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``on_flush`` is called with the milliseconds of each flush, in its thread.

        ``failed_log_dirs`` were found unusable, and why; ``on_failure`` is for the loop.
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
        self.replica_logs = DiskLogs(self.logs, lambda: self._config().values)
        for log_dir, failed in failed_log_dirs.items():
            self.logs.fail(log_dir, *failed)
        self.maintenance = LogMaintenance(self.logs, self._executor, _schedule(now))
        self.cleaner: CleanerManager | None = None
        """None where ``log.cleaner.enable`` is false."""
        if now.is_enabled("log.cleaner.enable"):
            self.cleaner = CleanerManager(
                self.logs, self._cleaner_executor, lambda: self.cleaner_settings.memory_bytes
            )
        self._cleaning: asyncio.Task[None] | None = None

    def load(self) -> None:
        """Opens every log, with recovery where it is needed.  Blocks."""
        self.replica_logs.load(lambda _: None)

    def start(self) -> None:
        """Begins the upkeep."""
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
        """Brings a log to disk, in a thread."""
        await self.maintenance.flush(log)

    @property
    def has_cleaner_ended(self) -> bool:
        """Whether the task that compacts has ended, and no log is compacted any more."""
        return self._cleaning is not None and self._cleaning.done()

    def broker_changed(self) -> None:
        """The broker is configured differently from now on."""
        now = self._config()
        self._executor.resize(now.integer("background.threads"))
        self.logs.recovery_threads_per_dir = now.integer("num.recovery.threads.per.data.dir")
        self.replica_logs.broker_changed()

    @property
    def threads(self) -> int:
        """How many threads keep the logs up."""
        return self._executor.threads

    @property
    def cleaner_settings(self) -> CleanerSettings:
        """What the next compaction goes by."""
        now = self._config()
        return CleanerSettings(
            now.integer("log.cleaner.backoff.ms"), now.integer("log.cleaner.dedupe.buffer.size")
        )

    async def stop(self) -> None:
        """Ends the upkeep, then closes the logs and marks their directories as clean."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.to_thread(self._close)

    def _close(self) -> None:
        # What the upkeep had begun must be over before the last checkpoints are written.
        self._executor.shutdown(wait=True, cancel_futures=True)
        self._cleaner_executor.shutdown(wait=True, cancel_futures=True)
        self.logs.close()

    async def _keep_up(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        while True:
            try:
                await run()
            except Exception:  # noqa: BLE001 - a defect must not leave logs without upkeep for good
                _log.exception("The upkeep of logs ended with an error and begins anew")
            await asyncio.sleep(_RESTART_DELAY_S)

    def _failed(self, failure: LogDirFailure) -> None:
        # From any thread, and in the midst of whatever met the failing disk.
        with contextlib.suppress(RuntimeError):  # the loop is gone, and the broker with it
            self._loop.call_soon_threadsafe(self._on_failure, failure)


def _is_verifying_transactions(config: BrokerConfig) -> bool:
    """Whether a transaction's coordinator is asked before its first record is appended."""
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
