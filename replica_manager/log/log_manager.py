"""Every log of a broker, in all of its log directories.

:meth:`LogManager.load` opens what is there, in threads; from then on everything is called on the
event loop, and what blocks is handed out: deferred work, flushes and checkpoints
(:mod:`replica_manager.log.maintenance` performs them).  A directory whose disk fails goes offline
with its logs until the broker is started again; the rest serves on.

Source: Kafka ``LogManager``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from typing import Final, NamedTuple
from uuid import UUID, uuid4

from kafka_common.errors import KafkaStorage, ZkControllerError
from kafka_common.model import TopicPartition
from kafka_common.process.resource_limits import raise_if_limit
from replica_manager.log import checkpoints
from replica_manager.log.checkpoints import (
    CheckpointFile,
    CheckpointMalformed,
    CheckpointWrite,
)
from replica_manager.log.cleaner_state import CleanerState
from replica_manager.log.environment import DeferredTasks, LogEnvironment
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_directory import (
    FolderKind,
    LogFolder,
    folders_in,
    parse_folder,
    partition_folder,
    take_clean_shutdown_mark,
    write_clean_shutdown_mark,
)
from replica_manager.log.log_loading import RecoveryProgress, remove_log_files
from replica_manager.log.partition_metadata import PartitionMetadataCorrupt
from replica_manager.log.unified_log import UnifiedLog

_log = logging.getLogger("kafka.log.LogManager")
_failures = logging.getLogger("org.apache.kafka.storage.internals.log.LogDirFailureChannel")

_FLUSH_THREADS: Final = 8


class DuplicateLog(ZkControllerError):
    """Two log directories hold the same partition; the operator must remove one."""


class StaleCheckpoints(NamedTuple):
    """Checkpoint files of a directory that are outdated for some log."""

    log_dir: Path
    change: int
    """Changes up to this one are in the writes."""
    writes: tuple[CheckpointWrite, ...]


class LogDirFailure(NamedTuple):
    """A log directory went offline, and what was in it."""

    log_dir: Path
    topic_partitions: tuple[TopicPartition, ...]
    future_topic_partitions: tuple[TopicPartition, ...]


def _ignore(failure: LogDirFailure) -> None:
    del failure


def _no_progress(progress: RecoveryProgress) -> None:
    del progress


class LogManager:
    """The logs by partition.  For the event loop, but for :meth:`load` and :meth:`close`."""

    def __init__(
        self,
        log_dirs: Sequence[Path],
        now_ms: Callable[[], int],
        *,
        monotonic_ms: Callable[[], int] | None = None,
        default_config: LogConfig | None = None,
        on_failure: Callable[[LogDirFailure], None] = _ignore,
        recovery_threads_per_dir: int = 1,
        producer_id_expiration_ms: Callable[[], int] = lambda: 86_400_000,
        verifies_transactions: Callable[[], bool] = lambda: True,
        random: Random | None = None,
        on_flush: Callable[[float], None] = lambda _: None,
    ) -> None:
        """``on_flush`` is called with the milliseconds of each flush, in its thread.

        ``monotonic_ms`` times the upkeep; without it ``now_ms`` does, which must never go back.
        """
        self.default_config = default_config or LogConfig()
        """Of topics without a configuration of their own."""
        self._log_dirs = tuple(log_dirs)
        self._live = list(log_dirs)
        self._loaded: set[Path] = set()
        self._current: dict[TopicPartition, UnifiedLog] = {}
        self._future: dict[TopicPartition, UnifiedLog] = {}
        self._preferred: dict[TopicPartition, Path] = {}
        self.cleaning = CleanerState()
        """How far logs are compacted; knows of every log that goes."""
        self._files: dict[tuple[Path, str], CheckpointFile] = {}
        # Of these partitions a directory's checkpoint files may say what is no longer true.
        self._stale_entries: dict[Path, dict[TopicPartition, int]] = {}
        self._changes = 0
        self._on_failure = on_failure
        self.recovery_threads_per_dir = recovery_threads_per_dir
        """``num.recovery.threads.per.data.dir``; counts for the next load or close."""
        self.environment = LogEnvironment(
            now_ms,
            monotonic_ms or now_ms,
            DeferredTasks(),
            random or Random(),
            self.fail,
            producer_id_expiration_ms,
            verifies_transactions,
            self._before_truncation,
            self._after_truncation,
            on_flush,
        )

    # What there is.

    @property
    def live_log_dirs(self) -> tuple[Path, ...]:
        """The directories that work; a broker without any must end."""
        return tuple(self._live)

    @property
    def offline_log_dirs(self) -> tuple[Path, ...]:
        return tuple(path for path in self._log_dirs if path not in self._live)

    @property
    def logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        """The logs in service."""
        return self._current

    @property
    def future_logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        """The logs that move to another directory."""
        return self._future

    def log(self, topic_partition: TopicPartition, *, is_future: bool = False) -> UnifiedLog | None:
        """The partition's log, None if this broker has none."""
        return (self._future if is_future else self._current).get(topic_partition)

    def is_live(self, log_dir: Path) -> bool:
        return log_dir in self._live

    def _all_logs(self) -> list[tuple[TopicPartition, UnifiedLog]]:
        return [*self._current.items(), *self._future.items()]

    # Loading.

    def load(
        self,
        topic_configs: Mapping[str, LogConfig],
        on_progress: Callable[[RecoveryProgress], None] = _no_progress,
    ) -> None:
        """Opens every log of every directory, with recovery where the last stop was not clean.

        Blocks.  A directory that fails goes offline.  Raises DuplicateLog and FolderNameInvalid,
        which end the broker: nothing may be guessed about data; and LimitReached, for a limit that
        is too low for these logs.  ``on_progress`` is called from
        several threads.
        """
        _log.info("Loading logs from log dirs %s", ", ".join(map(str, self._log_dirs)))
        started_ms = self.environment.monotonic_ms()
        for log_dir in self.live_log_dirs:
            try:
                log_dir.mkdir(parents=True, exist_ok=True)
                self._load_directory(log_dir, topic_configs, on_progress)
                self._loaded.add(log_dir)
            except (OSError, KafkaStorage, PartitionMetadataCorrupt) as error:
                doing = f"Error while loading log dir {log_dir}"
                raise_if_limit(error, doing)
                self.fail(log_dir, doing, error)
        _log.info(
            "Loaded %d logs in %dms",
            len(self._all_logs()),
            self.environment.monotonic_ms() - started_ms,
        )

    def _load_directory(
        self,
        log_dir: Path,
        topic_configs: Mapping[str, LogConfig],
        on_progress: Callable[[RecoveryProgress], None],
    ) -> None:
        had_clean_shutdown = take_clean_shutdown_mark(log_dir)
        recovery_points = self._read(log_dir, checkpoints.RECOVERY_POINT_FILE)
        start_offsets = self._read(log_dir, checkpoints.LOG_START_OFFSET_FILE)
        high_watermarks = self._read(log_dir, checkpoints.HIGH_WATERMARK_FILE)
        cleaned = self._read(log_dir, checkpoints.CLEANER_FILE)
        folders = list(folders_in(log_dir))
        wanted = [f for f in folders if f.kind in (FolderKind.CURRENT, FolderKind.FUTURE)]
        if not wanted:
            _log.info("No logs found to be loaded in %s", log_dir)
        elif had_clean_shutdown:
            _log.info(
                "Skipping recovery of %d logs from %s since clean shutdown file was found",
                len(wanted),
                log_dir,
            )
        else:
            _log.info(
                "Recovering %d logs from %s since no clean shutdown file was found",
                len(wanted),
                log_dir,
            )

        def load(folder: LogFolder) -> UnifiedLog:
            return UnifiedLog.open(
                folder.path,
                topic_configs.get(folder.topic_partition.topic, self.default_config),
                self.environment,
                log_start_offset=start_offsets.get(folder.topic_partition, 0),
                recovery_point=recovery_points.get(folder.topic_partition, 0),
                had_clean_shutdown=had_clean_shutdown,
                on_progress=on_progress,
            )

        with ThreadPoolExecutor(self.recovery_threads_per_dir, "log-recovery") as threads:
            for folder, log in zip(wanted, threads.map(load, wanted), strict=True):
                self._add(folder, log)
                _log.info(
                    "Completed load of Log(dir=%s, topic=%s, partition=%d) with %d segments, "
                    "local-log-start-offset %d and log-end-offset %d",
                    log.directory,
                    folder.topic_partition.topic,
                    folder.topic_partition.partition,
                    len(tuple(log.segments)),
                    log.log_start_offset,
                    log.log_end_offset,
                )
        here = {folder.topic_partition for folder in wanted}
        self.cleaning.load(log_dir, {tp: end for tp, end in cleaned.items() if tp in here})
        for tp in {**recovery_points, **start_offsets, **high_watermarks, **cleaned}:
            if tp not in here:
                self._mark_stale(log_dir, tp)
        for folder in folders:
            if folder.kind is FolderKind.DELETED:
                self._remove_folder_later(
                    folder.topic_partition, folder.path, self.default_config.file_delete_delay_ms
                )
            elif folder.kind is FolderKind.STRAY:
                _log.warning("Loaded stray log: %s", folder.path)

    def _add(self, folder: LogFolder, log: UnifiedLog) -> None:
        logs = self._future if folder.kind is FolderKind.FUTURE else self._current
        earlier = logs.get(folder.topic_partition)
        if earlier is not None:
            raise DuplicateLog(
                f"Duplicate log directories for {folder.topic_partition} are found in both "
                f"{earlier.directory} and {folder.path}. It is likely because log directory "
                "failure happened while broker was replacing current replica with future replica. "
                "Recover broker from this failure by manually deleting one of the two directories "
                "for this partition. It is recommended to delete the partition in the log "
                "directory that is known to have failed recently."
            )
        logs[folder.topic_partition] = log

    def _read(self, log_dir: Path, file_name: str) -> dict[TopicPartition, int]:
        try:
            return checkpoints.read_offsets(log_dir / file_name)
        except CheckpointMalformed as malformed:
            _log.warning(
                "Error occurred while reading %s of directory %s, resetting to 0: %s",
                file_name,
                log_dir,
                malformed,
            )
            return {}

    def high_watermarks(self, log_dir: Path) -> dict[TopicPartition, int]:
        """What the directory's ``replication-offset-checkpoint`` says.  Reads the file."""
        return self._read(log_dir, checkpoints.HIGH_WATERMARK_FILE)

    # Logs come and go.

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
        *,
        is_future: bool = False,
    ) -> UnifiedLog:
        """The partition's log; a new one goes to the preferred directory or that with fewest logs.

        Raises InconsistentTopicId, KafkaStorage if no directory takes it, and PartitionRefused for
        a name that cannot be a folder of a log directory.
        """
        logs = self._future if is_future else self._current
        log = logs.get(topic_partition)
        if log is None:
            log = self._create(topic_partition, config, is_future=is_future)
            logs[topic_partition] = log
            if is_future:
                # The future log copies what is there; compaction goes on when it has arrived.
                self.cleaning.abort(topic_partition)
        if topic_id is not None:
            log.assign_topic_id(topic_id)
        return log

    def _create(
        self, topic_partition: TopicPartition, config: LogConfig, *, is_future: bool
    ) -> UnifiedLog:
        kind = FolderKind.FUTURE if is_future else FolderKind.CURRENT
        unique_id = uuid4()
        for log_dir in self._candidates(topic_partition):
            path = partition_folder(log_dir, topic_partition, kind, unique_id)
            try:
                if topic_partition in self._stale_entries.get(log_dir, ()):
                    # After a crash the new log would inherit the offsets of the old one.  This
                    # waits for the disk, but seldom: the files follow a deletion within a second.
                    self.write_stale_checkpoints(log_dir)
                log = UnifiedLog.open(path, config, self.environment)
            except OSError as error:
                doing = f"Error while creating log for {topic_partition} in dir {log_dir}"
                raise_if_limit(error, doing)
                self.fail(log_dir, doing, error)
                continue
            _log.info(
                "Created log for partition %s in %s with properties %s",
                topic_partition,
                log.directory,
                config.overrides,
            )
            return log
        raise KafkaStorage(f"No log directory is left for {topic_partition}")

    def _candidates(self, topic_partition: TopicPartition) -> list[Path]:
        preferred = self._preferred.get(topic_partition)
        if preferred is not None and preferred in self._live:
            return [preferred]
        if len(self._live) == 1:
            return list(self._live)  # nothing to count, for thousands of logs at once
        counts = dict.fromkeys(self._live, 0)
        for _, log in self._all_logs():
            counts[log.log_dir] = counts.get(log.log_dir, 0) + 1
        return sorted(self._live, key=lambda path: counts[path])

    def prefer_log_dir(self, topic_partition: TopicPartition, log_dir: Path) -> None:
        """Sets the directory for the partition's log: AlterReplicaLogDirs."""
        self._preferred[topic_partition] = log_dir

    def delete(
        self, topic_partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False
    ) -> None:
        """Takes the log out of service and renames its folder.

        It is removed after ``file.delete.delay.ms``, unless it is a stray one, which stays.
        """
        log = (self._future if is_future else self._current).pop(topic_partition, None)
        if log is None:
            return
        self._preferred.pop(topic_partition, None)
        kind = FolderKind.STRAY if is_stray else FolderKind.DELETED
        log_dir = log.log_dir
        if not is_future:
            self.cleaning.deleted(log_dir, topic_partition)
        self._mark_stale(log_dir, topic_partition)
        path = partition_folder(log_dir, topic_partition, kind, uuid4())
        log.rename(path)
        _log.info(
            "Log for partition %s is renamed to %s and %s", topic_partition, path,
            "marked as stray" if is_stray else "is scheduled for deletion",
        )  # fmt: skip
        if is_stray:
            log.close()
        else:
            self._remove_folder_later(topic_partition, path, log.config.file_delete_delay_ms)

    def _remove_folder_later(
        self, topic_partition: TopicPartition, path: Path, delay_ms: int
    ) -> None:
        def remove() -> None:
            remove_log_files(path)
            _log.info("Deleted log for partition %s in %s.", topic_partition, path)

        due_ms = self.environment.monotonic_ms() + delay_ms
        self.environment.deferred_tasks.add(
            "kafka-delete-logs", path.name, path.parent, due_ms, remove
        )

    def replace_current_with_future(self, topic_partition: TopicPartition) -> UnifiedLog:
        """Replaces the partition's log by its future log, which has caught up.

        KafkaStorage if the future log's directory fails; the current one stays in service then.
        """
        future, current = self._future[topic_partition], self._current.get(topic_partition)
        self.cleaning.abort(topic_partition)
        future.rename(
            partition_folder(future.log_dir, topic_partition, FolderKind.CURRENT, uuid4())
        )
        future.update_high_watermark(
            future.log_end_offset if current is None else current.high_watermark
        )
        del self._future[topic_partition]
        self._current[topic_partition] = future
        self._preferred.pop(topic_partition, None)
        if current is not None:
            self.cleaning.moved(topic_partition, current.log_dir, future.log_dir)
            self._mark_stale(current.log_dir, topic_partition)
            self._mark_stale(future.log_dir, topic_partition)
            path = partition_folder(current.log_dir, topic_partition, FolderKind.DELETED, uuid4())
            with contextlib.suppress(KafkaStorage):  # its directory is offline now
                current.rename(path)
                self._remove_folder_later(
                    topic_partition, path, current.config.file_delete_delay_ms
                )
        return future

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """The topic's configuration has changed."""
        for topic_partition, log in self._all_logs():
            if topic_partition.topic == topic:
                log.update_config(config)

    def update_configs(self, config_of: Callable[[str], LogConfig]) -> None:
        """Applies changed broker defaults to every log."""
        for topic_partition, log in self._all_logs():
            log.update_config(config_of(topic_partition.topic))

    # Upkeep.

    def delete_old_segments(self) -> int:
        """Retention: gives how many segments went; compacted logs lose what is before the start."""
        return sum(self.retention_steps())

    def retention_steps(self) -> Iterator[int]:
        """Retention log by log, between which other tasks can run: how many segments went."""
        for _, log in self._all_logs():
            yield self._delete_old_segments(log)

    def _delete_old_segments(self, log: UnifiedLog) -> int:
        try:
            return log.delete_old_segments()
        except KafkaStorage:
            return 0  # the directory is offline now

    def remove_expired_producers(self) -> None:
        """Forgets idempotent producers that were silent for long, in every log."""
        for _, log in self._all_logs():
            log.remove_expired_producers()

    def dirty_logs(self) -> Iterator[UnifiedLog]:
        """The logs to flush because ``flush.ms`` is over."""
        now_ms = self.environment.monotonic_ms()
        for _, log in self._all_logs():
            if log.unflushed_messages and now_ms - log.last_flushed_ms >= log.config.flush_ms:
                yield log

    # Checkpoints that must follow what happened to a log.

    def _mark_stale(self, log_dir: Path, topic_partition: TopicPartition) -> None:
        """A log was created, deleted or truncated: the checkpoint files must follow."""
        self._changes += 1
        self._stale_entries.setdefault(log_dir, {})[topic_partition] = self._changes

    def stale_checkpoints(self) -> list[StaleCheckpoints]:
        """The checkpoint files to write because logs were deleted, moved or truncated."""
        return [
            StaleCheckpoints(log_dir, self._changes, tuple(self._checkpoints_of(log_dir)))
            for log_dir, entries in self._stale_entries.items()
            if entries and log_dir in self._live
        ]

    def finish_stale_checkpoints(self, written: StaleCheckpoints) -> None:
        """The files are on disk: forgets the changes before they were planned."""
        entries = self._stale_entries.get(written.log_dir, {})
        for topic_partition in [tp for tp, change in entries.items() if change <= written.change]:
            del entries[topic_partition]

    def write_stale_checkpoints(self, log_dir: Path) -> None:
        """Writes every checkpoint file of a directory.  Blocks; OSError if the disk fails."""
        for stale in self.stale_checkpoints():
            if stale.log_dir == log_dir:
                for write in stale.writes:
                    write.run()
                self.finish_stale_checkpoints(stale)

    def _checkpoints_of(self, log_dir: Path) -> Iterator[CheckpointWrite]:
        for writes in (
            self.recovery_point_checkpoints(),
            self.start_offset_checkpoints(),
            self.high_watermark_checkpoints(),
        ):
            yield from (write for write in writes if write.log_dir == log_dir)
        yield self.cleaning.write(log_dir)

    def _before_truncation(self, directory: Path) -> None:
        folder = parse_folder(directory)
        if folder.kind is FolderKind.CURRENT:
            self.cleaning.abort(folder.topic_partition)

    def _after_truncation(
        self, directory: Path, active_base_offset: int, is_below_recovery_point: bool
    ) -> None:
        folder = parse_folder(directory)
        log_dir = directory.parent
        self._mark_stale(log_dir, folder.topic_partition)
        if is_below_recovery_point:
            # Before anything is appended: a recovery that began behind the truncation would not
            # learn which epochs the records have that were appended since.
            for write in self.recovery_point_checkpoints():
                if write.log_dir == log_dir:
                    write.run()
        if folder.kind is FolderKind.CURRENT and self.cleaning.truncated(
            log_dir, folder.topic_partition, active_base_offset
        ):
            # Before anything is appended: after a crash the file must not be beyond the truncation.
            self.cleaning.write(log_dir).run()

    # Checkpoints now and then.

    def recovery_point_checkpoints(self) -> list[CheckpointWrite]:
        """The ``recovery-point-offset-checkpoint`` of each live directory, to be written."""
        return self._checkpoints(
            checkpoints.RECOVERY_POINT_FILE, lambda log: log.recovery_point, with_future=True
        )

    def start_offset_checkpoints(self) -> list[CheckpointWrite]:
        """The ``log-start-offset-checkpoint`` files; what the first segment says is left out."""

        def start(log: UnifiedLog) -> int | None:
            first = next(iter(log.segments)).base_offset
            return log.log_start_offset if log.log_start_offset > first else None

        return self._checkpoints(checkpoints.LOG_START_OFFSET_FILE, start, with_future=True)

    def high_watermark_checkpoints(self) -> list[CheckpointWrite]:
        """The ``replication-offset-checkpoint`` of each live directory, to be written."""
        return self._checkpoints(
            checkpoints.HIGH_WATERMARK_FILE, lambda log: log.high_watermark, with_future=False
        )

    def _checkpoints(
        self, file_name: str, offset: Callable[[UnifiedLog], int | None], *, with_future: bool
    ) -> list[CheckpointWrite]:
        offsets: dict[Path, dict[TopicPartition, int]] = {log_dir: {} for log_dir in self._live}
        logs: Iterable[tuple[TopicPartition, UnifiedLog]] = self._current.items()
        for topic_partition, log in self._all_logs() if with_future else logs:
            value = offset(log)
            if value is not None and log.log_dir in offsets:
                offsets[log.log_dir].setdefault(topic_partition, value)
        return [self._file(log_dir, file_name).plan(found) for log_dir, found in offsets.items()]

    def _file(self, log_dir: Path, file_name: str) -> CheckpointFile:
        file = self._files.get((log_dir, file_name))
        if file is None:
            file = self._files[log_dir, file_name] = CheckpointFile(log_dir, file_name)
        return file

    # Failure and end.

    def fail(self, log_dir: Path, doing: str, error: Exception) -> None:
        """Takes a directory offline with its logs; calls the owner once."""
        if log_dir not in self._live:
            return
        self._live.remove(log_dir)
        self._stale_entries.pop(log_dir, None)
        _failures.error("%s", doing, exc_info=error)
        _log.warning("Stopping serving logs in dir %s", log_dir)
        gone: list[tuple[TopicPartition, ...]] = []
        for logs in (self._current, self._future):
            found = tuple(tp for tp, log in logs.items() if log.log_dir == log_dir)
            for topic_partition in found:
                del logs[topic_partition]
                self.cleaning.abort(topic_partition)
            gone.append(found)
        if self._live:  # else the broker ends: there is no log that is still online
            _log.warning(
                "Logs for partitions %s are offline and logs for future partitions %s are offline "
                "due to failure on log directory %s",
                *(",".join(map(str, found)) for found in gone),
                log_dir,
            )
        self._on_failure(LogDirFailure(log_dir, *gone))

    def close(self) -> None:
        """Flushes and closes every log, and marks the directories as cleanly stopped.  Blocks."""
        _log.info("Shutting down.")
        for log_dir in self.live_log_dirs:
            logs = [log for _, log in self._all_logs() if log.log_dir == log_dir]
            try:
                self._flush(logs)
                for log in logs:
                    log.close()
                for write in self._checkpoints_of(log_dir):
                    write.run()
                # A directory that was not read to its end has not been recovered either.
                if log_dir in self._loaded:
                    write_clean_shutdown_mark(log_dir)
            except KafkaStorage:
                continue  # logged already; the next start recovers the directory
            except OSError as error:
                self.fail(log_dir, f"Error while closing logs in dir {log_dir}", error)
        self._current.clear()
        self._future.clear()
        _log.info("Shutdown complete.")

    def _flush(self, logs: Sequence[UnifiedLog]) -> None:
        """Flushes several logs at a time, which a file system combines."""
        plans = [(log, plan) for log in logs if (plan := log.plan_flush()) is not None]
        workers = max(_FLUSH_THREADS, self.recovery_threads_per_dir)
        with ThreadPoolExecutor(workers, "log-closing") as threads:
            done = threads.map(lambda planned: planned[1].run(), plans)
            for (log, plan), _ in zip(plans, done, strict=True):
                log.finish_flush(plan)
