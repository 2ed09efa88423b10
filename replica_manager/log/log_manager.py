"""Every log of a broker, in all of its log directories.

:meth:`LogManager.load` opens the existing logs in threads.  After that, all methods but
:meth:`LogManager.close` are called on the event loop; blocking work (deferred tasks, flushes,
checkpoints) is returned for :mod:`replica_manager.log.maintenance` to run.  A log directory whose
disk fails goes offline with its logs until the broker restarts; the other directories stay online.

Source: Kafka ``LogManager``.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from zkcontroller.core.journal import scala_seq

_log = logging.getLogger("kafka.log.LogManager")
_failures = logging.getLogger("org.apache.kafka.storage.internals.log.LogDirFailureChannel")

_FLUSH_THREADS: Final = 8


class DuplicateLog(ZkControllerError):
    """Two log directories have the same partition; the operator must remove one folder."""


class StaleCheckpoints(NamedTuple):
    """New checkpoint files of a directory, whose files are outdated for some log."""

    log_dir: Path
    change: int
    """The number of the last change that the writes contain."""
    writes: tuple[CheckpointWrite, ...]


class LogDirFailure(NamedTuple):
    """A log directory that went offline, with the partitions whose logs were in it."""

    log_dir: Path
    topic_partitions: tuple[TopicPartition, ...]
    future_topic_partitions: tuple[TopicPartition, ...]


def _ignore(failure: LogDirFailure) -> None:
    del failure


def _no_progress(progress: RecoveryProgress) -> None:
    del progress


class LogManager:
    """All logs of a broker.  For the event loop, except :meth:`load` and :meth:`close`."""

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

        ``monotonic_ms`` times the maintenance; its default is ``now_ms``, which then must not fall.
        """
        self.default_config = default_config or LogConfig()
        """The configuration of topics without a configuration of their own."""
        self._log_dirs = tuple(log_dirs)
        self._live = list(log_dirs)
        self._loaded: set[Path] = set()
        self._current: dict[TopicPartition, UnifiedLog] = {}
        self._future: dict[TopicPartition, UnifiedLog] = {}
        self._preferred: dict[TopicPartition, Path] = {}
        self.cleaning = CleanerState()
        """The state of compaction, which is updated with each log deleted, moved or truncated."""
        self._files: dict[tuple[Path, str], CheckpointFile] = {}
        # Partitions whose entries in a directory's checkpoint files are outdated, each with the
        # number of the change that made it so.
        self._stale_entries: dict[Path, dict[TopicPartition, int]] = {}
        self._changes = 0
        self._on_failure = on_failure
        self.recovery_threads_per_dir = recovery_threads_per_dir
        """``num.recovery.threads.per.data.dir``; a change applies to the next load or close."""
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

    # Directories and logs.

    @property
    def live_log_dirs(self) -> tuple[Path, ...]:
        """The online log directories; a broker without any must stop."""
        return tuple(self._live)

    @property
    def offline_log_dirs(self) -> tuple[Path, ...]:
        return tuple(path for path in self._log_dirs if path not in self._live)

    @property
    def logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        """The current logs by partition, without future logs."""
        return self._current

    @property
    def future_logs(self) -> Mapping[TopicPartition, UnifiedLog]:
        """The future logs by partition, which move to another log directory."""
        return self._future

    def log(self, topic_partition: TopicPartition, *, is_future: bool = False) -> UnifiedLog | None:
        """The partition's current or future log, None if this broker has none."""
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
        """Opens every log of every directory; recovers those of an unclean shutdown.

        Blocks.  A directory that fails goes offline.  Raises DuplicateLog or FolderNameInvalid,
        which stop the broker, because the operator must decide about the data, and LimitReached if
        a limit is too low for these logs.  ``on_progress`` is called from several threads.
        """
        _log.info("Loading logs from log dirs %s", scala_seq("ArrayBuffer", self.live_log_dirs))
        unclean: list[Path] = []
        started_ms = self.environment.monotonic_ms()
        for log_dir in self.live_log_dirs:
            try:
                log_dir.mkdir(parents=True, exist_ok=True)
                if not self._load_directory(log_dir, topic_configs, on_progress):
                    unclean.append(log_dir)
                self._loaded.add(log_dir)
            except (OSError, KafkaStorage, PartitionMetadataCorrupt) as error:
                doing = f"Error while loading log dir {log_dir}"
                raise_if_limit(error, doing)
                self.fail(log_dir, doing, error)
        _log.info(
            "Loaded %d logs in %dms%s",
            len(self._all_logs()),
            self.environment.monotonic_ms() - started_ms,
            f" (unclean log dirs = {scala_seq('ArrayBuffer', unclean)})" if unclean else "",
        )

    def _load_directory(
        self,
        log_dir: Path,
        topic_configs: Mapping[str, LogConfig],
        on_progress: Callable[[RecoveryProgress], None],
    ) -> bool:
        """Loads one directory; returns whether it needs no recovery."""
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

        def load(folder: LogFolder) -> tuple[UnifiedLog, int]:
            began_ms = self.environment.monotonic_ms()
            log = UnifiedLog.open(
                folder.path,
                topic_configs.get(folder.topic_partition.topic, self.default_config),
                self.environment,
                log_start_offset=start_offsets.get(folder.topic_partition, 0),
                recovery_point=recovery_points.get(folder.topic_partition, 0),
                had_clean_shutdown=had_clean_shutdown,
                on_progress=on_progress,
            )
            return log, self.environment.monotonic_ms() - began_ms

        with ThreadPoolExecutor(self.recovery_threads_per_dir, "log-recovery") as threads:
            loaded = zip(wanted, threads.map(load, wanted), strict=True)
            for count, (folder, (log, took_ms)) in enumerate(loaded, 1):
                self._add(folder, log)
                _log.info(
                    "Completed load of %s with %d segments, local-log-start-offset %d and "
                    "log-end-offset %d in %dms (%d/%d completed in %s)",
                    log,
                    len(tuple(log.segments)),
                    log.log_start_offset,
                    log.log_end_offset,
                    took_ms,
                    count,
                    len(wanted),
                    log_dir,
                )
        here = {folder.topic_partition for folder in wanted}
        self.cleaning.load(log_dir, {tp: end for tp, end in cleaned.items() if tp in here})
        for tp in {**recovery_points, **start_offsets, **high_watermarks, **cleaned}:
            if tp not in here:
                self._mark_stale(log_dir, tp)
        for folder in folders:
            if folder.kind is FolderKind.DELETED:
                self._remove_folder_later(folder.topic_partition, folder.path)
            elif folder.kind is FolderKind.STRAY:
                _log.warning("Loaded stray log: %s", folder.path)
        return had_clean_shutdown or not wanted

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
        """The high watermarks from the file ``replication-offset-checkpoint`` of a directory."""
        return self._read(log_dir, checkpoints.HIGH_WATERMARK_FILE)

    # Creating, deleting and replacing logs.

    def get_or_create(
        self,
        topic_partition: TopicPartition,
        config: LogConfig,
        topic_id: UUID | None = None,
        *,
        is_future: bool = False,
    ) -> UnifiedLog:
        """The partition's log, created in the preferred directory or the one with the fewest logs.

        Raises InconsistentTopicId, KafkaStorage if it cannot be created in any directory, and
        PartitionRefused for a name that cannot be a folder of a log directory.
        """
        logs = self._future if is_future else self._current
        log = logs.get(topic_partition)
        if log is None:
            log = self._create(topic_partition, config, is_future=is_future)
            logs[topic_partition] = log
            if is_future:
                # The future log copies the current one; compaction is paused until it replaces it.
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
                    # After a crash the new log would get the offsets of a deleted log of this name.
                    # This waits for the disk, but rarely: maintenance writes the checkpoint files
                    # within a second of a deletion.
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
            return list(self._live)  # counting the logs would be slow for thousands of new logs
        counts = dict.fromkeys(self._live, 0)
        for _, log in self._all_logs():
            counts[log.log_dir] = counts.get(log.log_dir, 0) + 1
        return sorted(self._live, key=lambda path: counts[path])

    def prefer_log_dir(self, topic_partition: TopicPartition, log_dir: Path) -> None:
        """Sets the log directory for the partition's next log, for AlterReplicaLogDirs."""
        self._preferred[topic_partition] = log_dir

    def delete(
        self, topic_partition: TopicPartition, *, is_future: bool = False, is_stray: bool = False
    ) -> None:
        """Takes the log out of service and renames its folder.

        The folder is deleted after the broker's ``log.segment.delete.delay.ms``, whatever the topic
        says; the folder of a stray log is kept.
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
            self._remove_folder_later(topic_partition, path)

    def _remove_folder_later(self, topic_partition: TopicPartition, path: Path) -> None:
        def remove() -> None:
            remove_log_files(path)
            _log.info("Deleted log for partition %s in %s.", topic_partition, path)

        delay_ms = self.default_config.file_delete_delay_ms
        due_ms = self.environment.monotonic_ms() + delay_ms
        self.environment.deferred_tasks.add(
            "kafka-delete-logs", path.name, path.parent, due_ms, remove
        )

    def replace_current_with_future(self, topic_partition: TopicPartition) -> UnifiedLog:
        """Replaces the partition's log by its future log, which has caught up.

        Raises KafkaStorage if the future log's directory fails; the current log then stays in
        service.
        """
        future, current = self._future[topic_partition], self._current.get(topic_partition)
        _log.info(
            "Attempting to replace current log %s with %s for %s", current, future, topic_partition
        )
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
                self._remove_folder_later(topic_partition, path)
        _log.info(
            "The current replica is successfully replaced with the future replica for %s",
            topic_partition,
        )
        return future

    def update_topic_config(self, topic: str, config: LogConfig) -> None:
        """Applies a changed topic configuration to the topic's logs."""
        for topic_partition, log in self._all_logs():
            if topic_partition.topic == topic:
                log.update_config(config)

    def update_configs(self, config_of: Callable[[str], LogConfig]) -> None:
        """Applies changed broker defaults to every log; ``config_of`` takes a topic."""
        for topic_partition, log in self._all_logs():
            log.update_config(config_of(topic_partition.topic))

    # Retention, producer expiration and flushes.

    def delete_old_segments(self) -> int:
        """Applies retention to every log that is not compacted; returns how many segments it took.

        The cleaner does so to those that are.
        """
        return sum(self.retention_steps())

    def retention_steps(self) -> Iterator[int]:
        """Applies retention; yields after each log how many segments were deleted.

        Between two logs the event loop can run other tasks.
        """
        for _, log in self._all_logs():
            if not log.config.is_compacted:
                yield delete_old_segments(log)

    def remove_expired_producers(self) -> None:
        """Removes idle producers past ``producer.id.expiration.ms`` from every log."""
        for _, log in self._all_logs():
            log.remove_expired_producers()

    def dirty_logs(self) -> Iterator[UnifiedLog]:
        """The logs with unflushed records whose ``flush.ms`` has passed since the last flush."""
        now_ms = self.environment.monotonic_ms()
        for _, log in self._all_logs():
            if log.unflushed_messages and now_ms - log.last_flushed_ms >= log.config.flush_ms:
                yield log

    # Checkpoint files to write after a log was deleted, moved or truncated.

    def _mark_stale(self, log_dir: Path, topic_partition: TopicPartition) -> None:
        """Marks a log's checkpoint entries as outdated, so that the files are written soon."""
        self._changes += 1
        self._stale_entries.setdefault(log_dir, {})[topic_partition] = self._changes

    def stale_checkpoints(self) -> list[StaleCheckpoints]:
        """The checkpoint files to write after logs were deleted, moved or truncated."""
        return [
            StaleCheckpoints(log_dir, self._changes, tuple(self._checkpoints_of(log_dir)))
            for log_dir, entries in self._stale_entries.items()
            if entries and log_dir in self._live
        ]

    def finish_stale_checkpoints(self, written: StaleCheckpoints) -> None:
        """Clears the marks of the changes that are now in the files on disk."""
        entries = self._stale_entries.get(written.log_dir, {})
        for topic_partition in [tp for tp, change in entries.items() if change <= written.change]:
            del entries[topic_partition]

    def write_stale_checkpoints(self, log_dir: Path) -> None:
        """Writes a directory's checkpoint files if outdated.  Blocks; OSError if the disk fails."""
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
            # Write the file before the next append: a recovery from the old, higher recovery point
            # would skip the records appended after the truncation, and so their leader epochs.
            for write in self.recovery_point_checkpoints():
                if write.log_dir == log_dir:
                    write.run()
        if folder.kind is FolderKind.CURRENT and self.cleaning.truncated(
            log_dir, folder.topic_partition, active_base_offset
        ):
            # Write the file before the next append: after a crash, the clean offset must not be
            # past the truncation, or new records would count as clean.
            self.cleaning.write(log_dir).run()

    # Periodic checkpoints.

    def recovery_point_checkpoints(self) -> list[CheckpointWrite]:
        """Planned writes of the ``recovery-point-offset-checkpoint`` of each live directory."""
        return self._checkpoints(checkpoints.RECOVERY_POINT_FILE, lambda log: log.recovery_point)

    def start_offset_checkpoints(self) -> list[CheckpointWrite]:
        """Planned writes of the ``log-start-offset-checkpoint`` of each live directory.

        Leaves out a log whose log start offset is the base offset of its first segment.
        """

        def start(log: UnifiedLog) -> int | None:
            first = next(iter(log.segments)).base_offset
            return log.log_start_offset if log.log_start_offset > first else None

        return self._checkpoints(checkpoints.LOG_START_OFFSET_FILE, start)

    def high_watermark_checkpoints(self) -> list[CheckpointWrite]:
        """Planned writes of the ``replication-offset-checkpoint`` of each live directory."""
        return self._checkpoints(checkpoints.HIGH_WATERMARK_FILE, lambda log: log.high_watermark)

    def _checkpoints(
        self, file_name: str, offset: Callable[[UnifiedLog], int | None]
    ) -> list[CheckpointWrite]:
        offsets: dict[Path, dict[TopicPartition, int]] = {log_dir: {} for log_dir in self._live}
        for topic_partition, log in self._all_logs():
            value = offset(log)
            if value is not None and log.log_dir in offsets:
                offsets[log.log_dir].setdefault(topic_partition, value)
        return [self._file(log_dir, file_name).plan(found) for log_dir, found in offsets.items()]

    def _file(self, log_dir: Path, file_name: str) -> CheckpointFile:
        file = self._files.get((log_dir, file_name))
        if file is None:
            file = self._files[log_dir, file_name] = CheckpointFile(log_dir, file_name)
        return file

    # Failed directories and shutdown.

    def fail(self, log_dir: Path, doing: str, error: Exception) -> None:
        """Takes a log directory offline with its logs; calls ``on_failure`` once per directory."""
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
        if self._live:  # without a live directory the broker stops
            _log.warning(
                "Logs for partitions %s are offline and logs for future partitions %s are offline "
                "due to failure on log directory %s",
                *(",".join(map(str, found)) for found in gone),
                log_dir,
            )
        self._on_failure(LogDirFailure(log_dir, *gone))

    def close(self) -> None:
        """Flushes and closes every log, then writes the clean shutdown files.  Blocks."""
        _log.info("Shutting down.")
        for log_dir in self.live_log_dirs:
            logs = [log for _, log in self._all_logs() if log.log_dir == log_dir]
            try:
                self._flush(logs)
                for log in logs:
                    log.close()
                for write in self._checkpoints_of(log_dir):
                    write.run()
                # A directory that was not loaded completely has not been recovered, so it is not
                # marked as cleanly shut down.
                if log_dir in self._loaded:
                    write_clean_shutdown_mark(log_dir)
            except KafkaStorage:
                continue  # logged already; the directory is recovered at the next start
            except OSError as error:
                self.fail(log_dir, f"Error while closing logs in dir {log_dir}", error)
        self._current.clear()
        self._future.clear()
        _log.info("Shutdown complete.")

    def _flush(self, logs: Sequence[UnifiedLog]) -> None:
        """Flushes several logs in parallel: a file system can combine their writes."""
        plans = [(log, plan) for log in logs if (plan := log.plan_flush()) is not None]
        workers = max(_FLUSH_THREADS, self.recovery_threads_per_dir)
        with ThreadPoolExecutor(workers, "log-closing") as threads:
            done = threads.map(lambda planned: planned[1].run(), plans)
            for (log, plan), _ in zip(plans, done, strict=True):
                log.finish_flush(plan)


def delete_old_segments(log: UnifiedLog) -> int:
    """Applies retention to a log; returns how many segments were deleted."""
    try:
        return log.delete_old_segments()
    except KafkaStorage:
        return 0  # none was deleted: the log directory is offline now
