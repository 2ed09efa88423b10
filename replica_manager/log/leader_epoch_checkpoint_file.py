"""``leader-epoch-checkpoint``: the leader epochs of one log on disk.

The file is written after each change of the cache.  Source: Kafka ``LeaderEpochCheckpointFile``,
``LeaderEpochFileCache``.
"""

from __future__ import annotations

import logging
import threading
from pathlib import Path

from replica_manager.log import leader_epoch_file_cache
from replica_manager.log.checkpoints import CheckpointMalformed, read_epochs, write_epochs
from replica_manager.log.leader_epoch_file_cache import EpochEntry, LeaderEpochFileCache
from replica_manager.log.local_log import LocalLog

_log = logging.getLogger("kafka.log.UnifiedLog")


class LeaderEpochCheckpointFile:
    """The checkpoint file of the leader epoch cache ``epochs``, in the folder of ``local``."""

    def __init__(self, local: LocalLog, epochs: LeaderEpochFileCache) -> None:
        self._local = local
        self._epochs = epochs
        self._is_write_planned = False
        # Held while the file is replaced: two threads would write to the same temporary file.
        self._lock = threading.Lock()

    def write_later(self) -> None:
        """Defers a write of changed epochs to a thread; for the event loop.

        Changes before that write runs are part of it.
        """
        if self._epochs.is_dirty and not self._is_write_planned:
            self._is_write_planned = True
            self._local.later("flush-leader-epochs-file", self.write)

    def write(self) -> None:
        """Writes the epochs if they have changed.  Blocks until they are on disk.

        The cache's entries are one immutable tuple, so a thread never sees half a change.  A flush
        and a deferred write may run this at the same time, in two threads.
        """
        with self._lock:
            self._is_write_planned = False
            if self._epochs.is_dirty:
                self._epochs.is_dirty = False
                path = self._local.directory / leader_epoch_file_cache.FILE_NAME
                try:
                    write_epochs(path, self._epochs.entries)
                except OSError:
                    self._epochs.is_dirty = True
                    raise


def read_epoch_file(directory: Path) -> list[EpochEntry]:
    path = directory / leader_epoch_file_cache.FILE_NAME
    try:
        return read_epochs(path)
    except CheckpointMalformed as malformed:
        # Recovery reads the epochs of unflushed batches from the log; older ones were only here.
        _log.warning("%s; the leader epochs before the recovery point are lost", malformed)
        return []
