"""What is known of the compaction of logs: how far each is clean, which cannot be, which is now.

A log that is deleted, moved or truncated says so here.  Its cleaning is aborted, and its entry in
``cleaner-offset-checkpoint`` goes, follows it, or falls: an entry that is too high lets a tombstone
be removed while the record that it deletes stays.

Source: Kafka ``LogCleanerManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from pathlib import Path

from replica_manager.log import checkpoints
from replica_manager.log.checkpoints import CheckpointFile, CheckpointWrite
from replica_manager.log.log_cleaner import AbortSwitch
from zkcontroller.model import TopicPartition

_log = logging.getLogger("kafka.log.LogCleanerManager")


class CleanerState:
    """Belongs to a log manager.  For the event loop, but for :meth:`load`."""

    def __init__(self) -> None:
        self._files: dict[Path, CheckpointFile] = {}
        self._cleaned: dict[Path, dict[TopicPartition, int]] = {}
        self._uncleanable: set[TopicPartition] = set()
        self._in_progress: dict[TopicPartition, AbortSwitch] = {}

    def load(self, log_dir: Path, offsets: Mapping[TopicPartition, int]) -> None:
        """Takes over what the directory's file said of the logs that are there."""
        self._files[log_dir] = CheckpointFile(log_dir, checkpoints.CLEANER_FILE)
        self._cleaned[log_dir] = dict(offsets)

    # How far logs are clean.

    def checkpoint(self, log_dir: Path) -> Mapping[TopicPartition, int]:
        """How far the logs of a directory are clean."""
        return self._cleaned.get(log_dir, {})

    def cleaned(self, log_dir: Path, topic_partition: TopicPartition, end_offset: int) -> None:
        """A log is clean up to ``end_offset``."""
        self._cleaned.setdefault(log_dir, {})[topic_partition] = end_offset

    def write(self, log_dir: Path) -> CheckpointWrite:
        """What to run so that the directory's file says the same."""
        file = self._files.get(log_dir)
        if file is None:
            file = self._files[log_dir] = CheckpointFile(log_dir, checkpoints.CLEANER_FILE)
        return file.plan(dict(self.checkpoint(log_dir)))

    # What happens to logs.

    def deleted(self, log_dir: Path, topic_partition: TopicPartition) -> None:
        """The log is gone; one of the same name begins anew."""
        self.abort(topic_partition)
        self._uncleanable.discard(topic_partition)
        self._cleaned.get(log_dir, {}).pop(topic_partition, None)

    def moved(self, topic_partition: TopicPartition, source: Path, destination: Path) -> None:
        """The log's future replica, as clean as the log was, has taken its place."""
        self.abort(topic_partition)
        offset = self._cleaned.get(source, {}).pop(topic_partition, None)
        self._cleaned.setdefault(destination, {}).pop(topic_partition, None)
        if offset is not None:
            self._cleaned[destination][topic_partition] = offset

    def truncated(
        self, log_dir: Path, topic_partition: TopicPartition, active_base_offset: int
    ) -> bool:
        """The log was cut off; says whether its checkpoint has fallen and must be written.

        The active segment has never been cleaned, so all from its base offset on counts as dirty.
        """
        offsets = self._cleaned.get(log_dir, {})
        if offsets.get(topic_partition, 0) <= active_base_offset:
            return False
        offsets[topic_partition] = active_base_offset
        return True

    # What is being cleaned.

    def begin(self, topic_partition: TopicPartition) -> AbortSwitch:
        """A log is being cleaned from now on; aborting it works by what this gives."""
        assert topic_partition not in self._in_progress, topic_partition
        switch = self._in_progress[topic_partition] = AbortSwitch()
        return switch

    def end(self, topic_partition: TopicPartition, switch: AbortSwitch) -> None:
        """The cleaning has ended, however it did."""
        if self._in_progress.get(topic_partition) is switch:
            del self._in_progress[topic_partition]

    def abort(self, topic_partition: TopicPartition) -> None:
        """Aborts the cleaning of a log, if there is one."""
        switch = self._in_progress.pop(topic_partition, None)
        if switch is not None:
            switch.abort()
            _log.info("The cleaning for partition %s is aborted", topic_partition)

    # What cannot be cleaned.

    @property
    def uncleanable(self) -> Collection[TopicPartition]:
        """Logs whose compaction failed; left alone until they are deleted or the broker starts."""
        return frozenset(self._uncleanable)

    def mark_uncleanable(self, topic_partition: TopicPartition) -> None:
        self._uncleanable.add(topic_partition)

    def is_uncleanable(self, topic_partition: TopicPartition) -> bool:
        return topic_partition in self._uncleanable
