"""The leader epoch cache: start offsets of epochs, by which replicas find where logs diverge.

Pure: :mod:`.leader_epoch_checkpoint_file` writes the entries to disk.

Source: Kafka ``LeaderEpochFileCache``, ``LeaderEpochCheckpointFile``; KIP-101, KIP-279.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final, NamedTuple

from kafka_common.errors import IllegalState

FILE_NAME: Final = "leader-epoch-checkpoint"
UNDEFINED_EPOCH: Final = -1
UNDEFINED_EPOCH_OFFSET: Final = -1


class EpochEntry(NamedTuple):
    """A leader epoch, and the offset of the first record that its leader appended."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The largest known epoch up to the requested one, and its end offset; both -1 if unknown."""

    epoch: int
    end_offset: int


UNDEFINED: Final = EpochEndOffset(UNDEFINED_EPOCH, UNDEFINED_EPOCH_OFFSET)


class LeaderEpochFileCache:
    """The leader epochs of one log; epochs and start offsets both rise."""

    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        self._entries: tuple[EpochEntry, ...] = ()
        self.is_dirty = False
        """Whether the entries have changed since they were last written to the file."""
        for entry in entries:
            self.assign(*entry)
        self.is_dirty = False

    @property
    def entries(self) -> tuple[EpochEntry, ...]:
        return self._entries

    @property
    def latest_epoch(self) -> int | None:
        return self._entries[-1].epoch if self._entries else None

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Records that ``epoch`` begins at ``start_offset``; returns whether the entries changed.

        Removes entries with the same or a later epoch, or the same or a later start offset: they
        contradict what is appended now.
        """
        if epoch < 0 or start_offset < 0:
            raise IllegalState(f"Leader epoch {epoch} cannot start at offset {start_offset}")
        entries = self._entries
        if entries:
            latest = entries[-1]
            if epoch == latest.epoch and start_offset >= latest.start_offset:
                return False
            while entries and (
                entries[-1].epoch >= epoch or entries[-1].start_offset >= start_offset
            ):
                entries = entries[:-1]
        self._set((*entries, EpochEntry(epoch, start_offset)))
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset:
        """The end offset of ``epoch`` in this log, or of the largest earlier epoch.

        The latest epoch ends at the log end offset.  An epoch newer than all known ones gives
        UNDEFINED.  An epoch older than all known ones ends where the first known one begins.
        """
        if epoch == UNDEFINED_EPOCH or not self._entries:
            return UNDEFINED
        if epoch == self._entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        place = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if place == len(self._entries):
            return UNDEFINED
        higher = self._entries[place]
        found = self._entries[place - 1].epoch if place else epoch
        return EpochEndOffset(found, higher.start_offset)

    def epoch_for_offset(self, offset: int) -> int | None:
        """The epoch whose leader appended the record at ``offset``, None if unknown."""
        place = bisect_right(self._entries, offset, key=lambda entry: entry.start_offset)
        return self._entries[place - 1].epoch if place else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Removes the epochs that begin at or past ``end_offset``."""
        if end_offset >= 0 and self._entries and self._entries[-1].start_offset >= end_offset:
            self._set(tuple(e for e in self._entries if e.start_offset < end_offset))

    def truncate_from_start(self, start_offset: int) -> None:
        """Removes the epochs before ``start_offset``; the one that contains it begins there now."""
        kept = tuple(entry for entry in self._entries if entry.start_offset > start_offset)
        dropped = len(self._entries) - len(kept)
        if dropped:
            holder = EpochEntry(self._entries[dropped - 1].epoch, start_offset)
            if (holder, *kept) != self._entries:
                self._set((holder, *kept))

    def clear(self) -> None:
        """Removes every epoch."""
        if self._entries:
            self._set(())

    def _set(self, entries: tuple[EpochEntry, ...]) -> None:
        self._entries = entries
        self.is_dirty = True
