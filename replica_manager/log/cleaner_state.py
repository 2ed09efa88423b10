"""The state of compaction: clean offsets, uncleanable logs, the log being cleaned.

When a log is deleted, moved or truncated, its cleaning is aborted, and its entry in
``cleaner-offset-checkpoint`` is removed, moved or lowered.  If the entry were too high, compaction
could remove a tombstone and keep the record that the tombstone deletes.

Source: Kafka ``LogCleanerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from kafka_common.model import TopicPartition
from replica_manager.log import checkpoints
from replica_manager.log.checkpoints import CheckpointFile, CheckpointWrite
from replica_manager.log.log_cleaner import AbortSwitch

_log = logging.getLogger("kafka.log.LogCleanerManager")


class CleanerState:
    """The compaction state of a log manager's logs.  For the event loop, except :meth:`load`."""

    def __init__(self) -> None:
        self._files: dict[Path, CheckpointFile] = {}
        self._cleaned: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable: set[TopicPartition] = set()
        self._in_progress: dict[TopicPartition, AbortSwitch] = {}

    def load(self, log_dir: Path, offsets: Mapping[TopicPartition, int]) -> None:
        """Sets the clean offsets that were read from the directory's checkpoint file."""
        self._files[log_dir] = CheckpointFile(log_dir, checkpoints.CLEANER_FILE)
        self._cleaned[log_dir] = dict(offsets)

    # Clean offsets.

    def checkpoint(self, log_dir: Path) -> Mapping[TopicPartition, int]:
        """The offset up to which each log of a directory is clean."""
        return self._cleaned.get(log_dir, {})

    def cleaned(self, log_dir: Path, topic_partition: TopicPartition, end_offset: int) -> None:
        """Records that a log is clean up to ``end_offset``."""
        self._cleaned.setdefault(log_dir, {})[topic_partition] = end_offset

    def write(self, log_dir: Path) -> CheckpointWrite:
        """A write of the directory's checkpoint file, to be run in an executor."""
        file = self._files.get(log_dir)
        if file is None:
            file = self._files[log_dir] = CheckpointFile(log_dir, checkpoints.CLEANER_FILE)
        return file.plan(dict(self.checkpoint(log_dir)))

    # Deleted, moved and truncated logs.

    def deleted(self, log_dir: Path, topic_partition: TopicPartition) -> None:
        """Forgets a deleted log: a new log of the same name has no clean offset."""
        self.abort(topic_partition)
        self._uncleanable.discard(topic_partition)
        self._cleaned.get(log_dir, {}).pop(topic_partition, None)

    def moved(self, topic_partition: TopicPartition, source: Path, destination: Path) -> None:
        """Gives the clean offset of a replaced log to the future log that replaced it."""
        self.abort(topic_partition)
        offset = self._cleaned.get(source, {}).pop(topic_partition, None)
        self._cleaned.setdefault(destination, {}).pop(topic_partition, None)
        if offset is not None:
            self._cleaned[destination][topic_partition] = offset

    def truncated(
        self, log_dir: Path, topic_partition: TopicPartition, active_base_offset: int
    ) -> bool:
        """Lowers a truncated log's clean offset; returns whether the checkpoint must be written.

        The active segment has never been cleaned, so everything from its base offset on is dirty.
        """
        offsets = self._cleaned.get(log_dir, {})
        if offsets.get(topic_partition, 0) <= active_base_offset:
            return False
        offsets[topic_partition] = active_base_offset
        return True

    # Logs being cleaned.

    def begin(self, topic_partition: TopicPartition) -> AbortSwitch:
        """Marks a log as being cleaned; returns the switch that aborts it."""
        assert topic_partition not in self._in_progress, topic_partition
        switch = self._in_progress[topic_partition] = AbortSwitch()
        return switch

    def end(self, topic_partition: TopicPartition, switch: AbortSwitch) -> None:
        """Marks the log as not being cleaned any more, after success or failure."""
        if self._in_progress.get(topic_partition) is switch:
            del self._in_progress[topic_partition]

    def abort(self, topic_partition: TopicPartition) -> None:
        """Aborts the cleaning of a log, if there is one."""
        switch = self._in_progress.pop(topic_partition, None)
        if switch is not None:
            switch.abort()
            _log.info("The cleaning for partition %s is aborted", topic_partition)

    # Logs that cannot be cleaned.

    @property
    def uncleanable(self) -> Collection[TopicPartition]:
        """Logs whose compaction failed; skipped until they are deleted or the broker restarts."""
        return frozenset(self._uncleanable)

    def mark_uncleanable(self, topic_partition: TopicPartition) -> None:
        self._uncleanable.add(topic_partition)

    def is_uncleanable(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._uncleanable
