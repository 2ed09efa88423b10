"""``leader-epoch-checkpoint``: the leader epochs of one log on disk.

Source: Kafka ``LeaderEpochCheckpointFile``; ``LeaderEpochFileCache`` says when it is written.
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
    """The file of ``epochs``, in the folder of ``local``."""

    def __init__(self, local: LocalLog, epochs: LeaderEpochFileCache) -> None:
        self._local = local
        self._epochs = epochs
        self._is_write_planned = False
        # Held while the file is replaced: two threads would share its temporary file.
        self._lock = threading.Lock()

    def write_later(self) -> None:
        """Leaves a write of the changed epochs to a thread; for the event loop.

        One write takes along everything that changes until then.
        """
        if self._epochs.is_dirty and not self._is_write_planned:
            self._is_write_planned = True
            self._local.later("flush-leader-epochs-file", self.write)

    def write(self) -> None:
        """Writes the epochs if they have changed.  Blocks until they are on disk.

        The entries are one value, so a thread sees all of a change or nothing.  A flush and the
        write left by a change may come here at the same time, in two threads.
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
        # Recovery finds the epochs of unflushed batches again; the others were in this file.
        _log.warning("%s; the leader epochs before the recovery point are lost", malformed)
        return []
