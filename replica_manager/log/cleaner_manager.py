"""Chooses the log to compact next: one at a time, the dirtiest first.

Source: Kafka ``LogCleaner``, ``LogCleanerManager`` (``grabFilthiestCompactedLog``,
``deletableLogs``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Collection
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import KafkaStorage
from kafka_common.model import TopicPartition
from kafka_common.observability.log_text import throwable_text
from kafka_common.process.resource_limits import exhausted_limit
from replica_manager.log.checkpoints import CheckpointWrite
from replica_manager.log.files import CLEANED_SUFFIX, sync_directory
from replica_manager.log.log_cleaner import (
    AbortSwitch,
    Cleaned,
    Dirtiness,
    clean,
    cleaning_job,
    dirtiness,
    discard,
)
from replica_manager.log.log_manager import LogManager, delete_old_segments
from replica_manager.log.unified_log import UnifiedLog

LOGS_AT_ONCE: Final = 50
"""Logs examined before the cleaner yields to other tasks of the event loop: some 2 ms."""

_log = logging.getLogger("kafka.log.LogCleaner")


class LastCleaning(NamedTuple):
    """Statistics of the last compaction.

    Source: Kafka ``CleanerStats``, ``PreCleanStats``.
    """

    read_bytes: int = 0
    written_bytes: int = 0
    map_share: float = 0.0
    """The used part of the offset map's memory, from 0 to 1."""
    duration_s: float = 0.0
    compaction_delay_ms: int = 0
    """Milliseconds since ``max.compaction.lag.ms`` had passed at the start; 0 if it had not."""
    first_dirty_offset: int = 0
    end_offset: int = 0
    indexed_bytes: int = 0
    """Size of the dirty batches whose keys were in the offset map."""
    indexing_s: float = 0.0
    """The part of ``duration_s`` in which the offset map was built."""
    read_records: int = 0
    written_records: int = 0

    @property
    def recopied_percent(self) -> int:
        """Bytes written, in percent of the bytes read."""
        return 100 * self.written_bytes // max(self.read_bytes, 1)

    def text(self, name: str) -> str:
        """The statistics of cleaning the log ``name`` in many lines, as a broker logs them.

        Source: Kafka ``LogCleaner.recordStats``.
        """
        cleaning_s = self.duration_s - self.indexing_s

        def mb(size: float) -> str:
            return f"{size / 2**20:,.1f}"

        def percent(part: float, whole: float) -> str:
            return f"{100 * part / whole if whole else 0.0:.1f}%"

        def rate(size: int, seconds: float) -> str:
            return mb(size / max(seconds, 1e-9))

        def less(left: int, of: int) -> str:
            return percent(of - left, of)

        return "".join(
            f"\n\t{line}"
            for line in (
                f"Log cleaner thread 0 cleaned log {name} (dirty section = "
                f"[{self.first_dirty_offset}, {self.end_offset}])",
                f"{mb(self.read_bytes)} MB of log processed in {self.duration_s:,.1f} seconds "
                f"({rate(self.read_bytes, self.duration_s)} MB/sec).",
                f"Indexed {mb(self.indexed_bytes)} MB in {self.indexing_s:.1f} seconds "
                f"({rate(self.indexed_bytes, self.indexing_s)} Mb/sec, "
                f"{percent(self.indexing_s, self.duration_s)} of total time)",
                f"Buffer utilization: {100 * self.map_share:.1f}%",
                f"Cleaned {mb(self.read_bytes)} MB in {cleaning_s:.1f} seconds "
                f"({rate(self.read_bytes, cleaning_s)} Mb/sec, "
                f"{percent(cleaning_s, self.duration_s)} of total time)",
                f"Start size: {mb(self.read_bytes)} MB ({self.read_records:,} messages)",
                f"End size: {mb(self.written_bytes)} MB ({self.written_records:,} messages)",
                f"{less(self.written_bytes, self.read_bytes)} size reduction "
                f"({less(self.written_records, self.read_records)} fewer messages)",
            )
        )


class CleanerManager:
    """Compacts the logs of a manager.  For the event loop; the work is done in ``executor``."""

    def __init__(
        self, manager: LogManager, executor: Executor, memory_bytes: Callable[[], int]
    ) -> None:
        """``memory_bytes``: ``log.cleaner.dedupe.buffer.size``, the limit of the offset map."""
        self._manager = manager
        self._executor = executor
        self._memory_bytes = memory_bytes
        self.last_cleaning = LastCleaning()
        self.highest_ratio = 0.0
        """The dirty ratio of the dirtiest log at the last check, from 0 to 1."""
        self.last_run_ms = manager.environment.now_ms()
        """When the logs were last checked, in milliseconds since 1970."""

    @property
    def uncleanable(self) -> Collection[TopicPartition]:
        """Logs whose compaction failed."""
        return self._manager.cleaning.uncleanable

    async def run(self, backoff_ms: Callable[[], int]) -> None:
        """Compacts due logs, endlessly; checks again after ``log.cleaner.backoff.ms``.

        Also applies retention to compacted logs, as often as it looks at them.
        """
        while True:
            has_cleaned = await self.clean_next()
            await self.delete_old_segments()
            if not has_cleaned:
                await asyncio.sleep(backoff_ms() / 1000)

    async def delete_old_segments(self) -> None:
        """Applies retention to every compacted log that may be cleaned."""
        async for _, log in self._cleanable():
            delete_old_segments(log)

    async def next_log(self) -> tuple[TopicPartition, UnifiedLog] | None:
        """The log to compact next, None if none is due: of those the one with the highest ratio."""
        best: tuple[TopicPartition, UnifiedLog] | None = None
        worst: Dirtiness | None = None
        highest_ratio = 0.0
        self.last_run_ms = self._now_ms()
        async for topic_partition, log in self._cleanable():
            try:
                found = dirtiness(log, self._checkpoint(topic_partition, log), self._now_ms())
            except Exception as error:  # noqa: BLE001 - one log must not stop all
                self._failed(topic_partition, log.log_dir, error)
                continue
            highest_ratio = max(highest_ratio, found.ratio)
            if found.is_due and (worst is None or found.ratio > worst.ratio):
                best, worst = (topic_partition, log), found
        self.highest_ratio = highest_ratio
        return best

    async def _cleanable(self) -> AsyncIterator[tuple[TopicPartition, UnifiedLog]]:
        """The logs that may be cleaned; yields to the event loop every :data:`LOGS_AT_ONCE`."""
        for number, (topic_partition, log) in enumerate(list(self._manager.logs.items()), 1):
            if number % LOGS_AT_ONCE == 0:
                await asyncio.sleep(0)
            if self._may_clean(topic_partition, log):
                yield topic_partition, log

    def _may_clean(self, topic_partition: TopicPartition, log: UnifiedLog) -> bool:
        """Whether a log is in service, compacted, cleanable, and has no future log.

        Kafka pauses the cleaning of a log that moves to another directory: its future log may have
        copied records from before the cleaning, and would get a clean offset that is too high.
        """
        manager = self._manager
        return (
            log.config.is_compacted
            and manager.logs.get(topic_partition) is log
            and topic_partition not in manager.future_logs
            and not manager.cleaning.is_uncleanable(topic_partition)
        )

    async def clean_next(self) -> bool:
        """Compacts the next due log; returns whether to look for another one at once."""
        found = await self.next_log()
        if found is None:
            return False
        topic_partition, log = found
        if not self._may_clean(topic_partition, log):
            return True  # the log was deleted or moved while next_log() waited
        cleaning = self._manager.cleaning
        log_dir = log.log_dir
        switch = cleaning.begin(topic_partition)
        try:
            cleaned = await self._clean(topic_partition, log, switch)
            # No await from here until the segments are replaced: the log cannot change in between.
            if switch.is_aborted:
                self._delete_cleaned_files(topic_partition, log)
                return True
            if not log.replace_segments(cleaned.replacements, cleaned.generation):
                discard(cleaned.replacements)
                return True
        except KafkaStorage:
            # The directory is offline now, or a limit was reached.  If a .cleaned file stayed, the
            # next start would delete the .swap files of a later cleaning.
            with contextlib.suppress(OSError):
                self._delete_cleaned_files(topic_partition, log)
            return False
        except Exception as error:  # noqa: BLE001 - one log must not stop all
            if switch.is_aborted:
                self._delete_cleaned_files(topic_partition, log)
                return True
            return self._failed(topic_partition, log_dir, error)
        finally:
            cleaning.end(topic_partition, switch)
        cleaning.cleaned(log_dir, topic_partition, cleaned.end_offset)
        write = cleaning.write(log_dir)
        try:
            await asyncio.get_running_loop().run_in_executor(
                self._executor, _sync_and_checkpoint, log.directory, write
            )
        except OSError as error:
            limit = exhausted_limit(error)
            if limit is None:
                self._manager.fail(
                    log_dir, f"Error while writing to checkpoint file {write.path}", error
                )
            else:
                # The next compaction writes the checkpoint; a restart before that cleans again.
                _log.error("%s in %s is not written: %s", write.file_name, log_dir, limit)
            return False
        _log.info("[kafka-log-cleaner-thread-0]: %s\n", self.last_cleaning.text(log.name))
        return True

    async def _clean(
        self, topic_partition: TopicPartition, log: UnifiedLog, switch: AbortSwitch
    ) -> Cleaned:
        job = cleaning_job(log, self._checkpoint(topic_partition, log), self._now_ms())
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        cleaned = await loop.run_in_executor(
            self._executor, clean, job, self._memory_bytes(), switch
        )
        self.last_cleaning = LastCleaning(
            sum(replacement.old_size for replacement in cleaned.replacements),
            sum(replacement.new.size for replacement in cleaned.replacements),
            cleaned.map_share,
            loop.time() - began_s,
            job.dirtiness.compaction_delay_ms,
            job.first_dirty_offset,
            cleaned.end_offset,
            cleaned.indexed_bytes,
            cleaned.indexing_s,
            cleaned.read_records,
            cleaned.written_records,
        )
        return cleaned

    def dirty_bytes(self, topic_partition: TopicPartition) -> int:
        """Bytes of the log's dirty segments that can be compacted; 0 if there is no such log."""
        log = self._manager.logs.get(topic_partition)
        if log is None:
            return 0
        checkpoint = self._checkpoint(topic_partition, log)
        return dirtiness(log, checkpoint, self._now_ms()).cleanable_bytes

    def _failed(self, topic_partition: TopicPartition, log_dir: Path, error: Exception) -> bool:
        """Handles a failed compaction; returns whether to continue with the next log at once."""
        if isinstance(error, OSError):
            limit = exhausted_limit(error)
            if limit is not None:
                _log.error("Compaction of %s in %s is put off: %s", topic_partition, log_dir, limit)
                return False
            doing = f"Failed to clean up log for {topic_partition} in dir {log_dir}"
            self._manager.fail(log_dir, f"{doing} due to IOException", error)
            return False
        _log.warning(
            "Unexpected exception thrown when cleaning log %s. Marking its partition (%s) as "
            "uncleanable",
            self._manager.logs.get(topic_partition),
            topic_partition,
            extra={"cause": throwable_text(error)},
        )
        self._manager.cleaning.mark_uncleanable(topic_partition)
        return True

    def _delete_cleaned_files(self, topic_partition: TopicPartition, log: UnifiedLog) -> None:
        """Removes the ``.cleaned`` files of an aborted or failed compaction."""
        if self._manager.logs.get(topic_partition) is log:
            for path in log.directory.glob(f"*{CLEANED_SUFFIX}"):
                path.unlink(missing_ok=True)

    def _checkpoint(self, topic_partition: TopicPartition, log: UnifiedLog) -> int | None:
        return self._manager.cleaning.checkpoint(log.log_dir).get(topic_partition)

    def _now_ms(self) -> int:
        return self._manager.environment.now_ms()


def _sync_and_checkpoint(directory: Path, write: CheckpointWrite) -> None:
    """Syncs the renames of the new segments to disk, then writes the cleaner checkpoint."""
    with contextlib.suppress(FileNotFoundError):  # the folder was renamed or deleted meanwhile
        sync_directory(directory)
    write.run()
