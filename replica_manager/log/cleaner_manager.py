"""Which log is compacted next, and how far each has been: one at a time, the dirtiest first.

Source: Kafka ``LogCleanerManager``, ``LogCleaner``.
"""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from pathlib import Path

from replica_manager.log import checkpoints
from replica_manager.log.checkpoints import CheckpointMalformed, CheckpointWrite
from replica_manager.log.log_cleaner import CleaningJob, clean, cleaning_job, discard
from replica_manager.log.log_manager import LogManager
from zkcontroller.errors import CorruptRecord, InvalidRecord, KafkaStorage
from zkcontroller.model import TopicPartition
from zkcontroller.runtime.resource_limits import exhausted_limit

_log = logging.getLogger("kafka.log.LogCleaner")


class CleanerManager:
    """Compacts the logs of a manager.  For the event loop; the work is done in ``executor``."""

    def __init__(self, manager: LogManager, executor: Executor, memory_bytes: int) -> None:
        self._manager = manager
        self._executor = executor
        self._memory_bytes = memory_bytes
        """``log.cleaner.dedupe.buffer.size``: what the offset map may take."""
        self._cleaned: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable: set[TopicPartition] = set()

    @property
    def uncleanable(self) -> frozenset[TopicPartition]:
        """Logs whose compaction failed; they are left alone until the broker starts again."""
        return frozenset(self._uncleanable)

    def checkpoint(self, log_dir: Path) -> dict[TopicPartition, int]:
        """How far the logs of a directory are clean.  Reads the file once."""
        known = self._cleaned.get(log_dir)
        if known is None:
            try:
                known = checkpoints.read_offsets(log_dir / checkpoints.CLEANER_FILE)
            except CheckpointMalformed as malformed:
                _log.warning("%s; every log in %s counts as dirty", malformed, log_dir)
                known = {}
            self._cleaned[log_dir] = known
        return known

    def next_job(self) -> tuple[TopicPartition, CleaningJob] | None:
        """The log that needs it most: past its compaction lag, then by the share of dirty bytes."""
        now_ms = self._manager.environment.now_ms()
        best: tuple[TopicPartition, CleaningJob] | None = None
        for topic_partition, log in self._manager.logs.items():
            if not log.config.is_compacted or topic_partition in self._uncleanable:
                continue
            cleaned = self.checkpoint(log.directory.parent).get(topic_partition)
            job = cleaning_job(log, cleaned, now_ms)
            if job.is_due and (best is None or _urgency(job) > _urgency(best[1])):
                best = topic_partition, job
        return best

    async def run(self, backoff_ms: int) -> None:
        """Compacts what is due, for ever; looks again after ``log.cleaner.backoff.ms``."""
        while True:
            if not await self.clean_next():
                await asyncio.sleep(backoff_ms / 1000)

    async def clean_next(self) -> bool:
        """Compacts one log if one needs it; says whether one did."""
        found = self.next_job()
        if found is None:
            return False
        topic_partition, job = found
        log = self._manager.logs[topic_partition]
        log_dir = log.directory.parent
        loop = asyncio.get_running_loop()
        try:
            cleaned = await loop.run_in_executor(self._executor, clean, job, self._memory_bytes)
        except OSError as error:
            limit = exhausted_limit(error)
            if limit is not None:
                _log.error("Compaction of %s in %s is put off: %s", topic_partition, log_dir, limit)
                return False
            self._manager.fail(log_dir, f"Failed to clean up log for {topic_partition}: {error}")
            return False
        except (CorruptRecord, InvalidRecord) as error:
            _log.warning("Marking %s in %s as uncleanable: %s", topic_partition, log_dir, error)
            self._uncleanable.add(topic_partition)
            return True
        if self._manager.logs.get(topic_partition) is not log:
            discard(cleaned.replacements)  # it was deleted, or moved away, meanwhile
            return True
        try:
            if not log.replace_segments(cleaned.replacements):
                discard(cleaned.replacements)
                return True
            await self._note(log_dir, topic_partition, cleaned.end_offset)
        except KafkaStorage:
            return False
        _log.info("Cleaned %s up to offset %d", topic_partition, cleaned.end_offset)
        return True

    async def _note(self, log_dir: Path, topic_partition: TopicPartition, offset: int) -> None:
        known = self.checkpoint(log_dir)
        known[topic_partition] = offset
        live = {tp: end for tp, end in known.items() if tp in self._manager.logs}
        self._cleaned[log_dir] = live
        write = CheckpointWrite(log_dir, checkpoints.CLEANER_FILE, dict(live))
        try:
            await asyncio.get_running_loop().run_in_executor(self._executor, write.run)
        except OSError as error:
            limit = exhausted_limit(error)
            if limit is not None:
                # The next compaction writes it; until then a restart repeats this one.
                _log.error("%s in %s is not written: %s", checkpoints.CLEANER_FILE, log_dir, limit)
                return
            self._manager.fail(log_dir, f"Error while writing {checkpoints.CLEANER_FILE}: {error}")


def _urgency(job: CleaningJob) -> tuple[bool, float]:
    return job.needs_compaction_now, job.dirty_ratio
