"""In-memory snapshots: the state as it was at an offset of the metadata log.

The active controller acts on records that the quorum has not committed yet.  Readers must not see
them, and a controller that loses its leadership must undo them.  So the state is kept in
*timeline* structures (:mod:`kraft.controller.timeline`), and the registry holds undo logs for a few
offsets.

A snapshot is an undo log.  Nothing is copied when it is made; the first write to a key after it
stores the old value there.  So the cost of a write does not depend on the size of the structure,
and a snapshot needs memory only for the keys changed after it.  To get the state at an offset, the
undo logs from that offset on are applied to the current state, the newest first.

Source: Kafka ``SnapshotRegistry``, ``RegistrySnapshot``, ``SnapshottableHashTable``.
"""

from __future__ import annotations

import logging
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from kafka_common.errors import IllegalState
from kafka_common.observability.prefixed_log import PrefixedLog

# The value of each changed key when the snapshot was made; ABSENT if the key did not exist.
Delta: TypeAlias = dict[Any, Any]

CONTROLLER_PACKAGE: Final = "org.apache.kafka.controller"
# An epoch lower than that of every snapshot.
NO_EPOCH: Final = -(1 << 63)


class Absent:
    """Marks, in a delta, a key that had no value."""

    __slots__ = ()


ABSENT: Final = Absent()


class Revertable(ABC):
    """A structure whose writes can be reverted."""

    __slots__ = ("__weakref__",)

    @abstractmethod
    def undo(self, delta: Delta) -> None:
        """Restores the values in the delta, without recording this in a snapshot."""

    @abstractmethod
    def reset(self) -> None:
        """Removes all contents; the registry has no snapshots at that time."""


class RegistrySnapshot:
    """The undo log of the writes between this epoch and the next snapshot."""

    __slots__ = ("deltas", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # Keeps a structure alive, even one without other references, as long as its deltas.
        self.deltas: dict[Revertable, Delta] = {}

    def merge_from(self, later: RegistrySnapshot) -> None:
        """Adds the undo log of the next snapshot, which is being deleted, to this one."""
        for structure, delta in later.deltas.items():
            mine = self.deltas.setdefault(structure, delta)
            if mine is not delta:
                for key, before in delta.items():
                    mine.setdefault(key, before)


class SnapshotRegistry:
    """The snapshots of one set of structures, by epoch (an offset of the log).

    All managers of a controller share it, and get their loggers from it.  It has only weak
    references to structures: those of a deleted topic are freed when no snapshot needs them.
    """

    def __init__(self, log_prefix: str = "") -> None:
        """``log_prefix``: how each log line of the managers begins."""
        self._log_prefix = log_prefix
        self._snapshots: dict[int, RegistrySnapshot] = {}  # in ascending order of epochs
        self._structures: weakref.WeakSet[Revertable] = weakref.WeakSet()
        self._held: set[int] = set()
        self.newest: RegistrySnapshot | None = None

    def logger(self, class_name: str, package: str = CONTROLLER_PACKAGE) -> PrefixedLog:
        """The logger of a class of Kafka's controller."""
        logger = logging.getLogger(f"{package}.{class_name}")
        return PrefixedLog(logger, self._log_prefix)

    def register(self, structure: Revertable) -> None:
        """Adds a structure, so that :meth:`reset` empties it too."""
        self._structures.add(structure)

    def epochs(self) -> list[int]:
        """The epochs that have a snapshot, ascending."""
        return list(self._snapshots)

    def latest_epoch(self) -> int:
        """The epoch of the newest snapshot; ``NO_EPOCH`` if there is none."""
        return self.newest.epoch if self.newest is not None else NO_EPOCH

    def has_snapshot(self, epoch: int) -> bool:
        """Whether there is a snapshot of that epoch, so that its state can be read."""
        return epoch in self._snapshots

    def get_snapshot(self, epoch: int) -> RegistrySnapshot:
        """The snapshot of exactly that epoch; :class:`IllegalState` if there is none."""
        snapshot = self._snapshots.get(epoch)
        if snapshot is None:
            raise IllegalState(f"no in-memory snapshot at {epoch}; there are {self.epochs()}")
        return snapshot

    def get_or_create_snapshot(self, epoch: int) -> RegistrySnapshot:
        """The snapshot of that epoch, made from the current state if it does not exist.

        :class:`IllegalState` if a later one exists.
        """
        latest = self.latest_epoch()
        if epoch < latest:
            raise IllegalState(f"no in-memory snapshot can be made at {epoch}: one is at {latest}")
        if self.newest is None or epoch > latest:
            self.newest = self._snapshots[epoch] = RegistrySnapshot(epoch)
        return self.newest

    def revert_to_snapshot(self, epoch: int) -> None:
        """Restores the state of that epoch; keeps its snapshot and deletes later ones."""
        target = self.get_snapshot(epoch)
        for later in [epoch_ for epoch_ in self._snapshots if epoch_ > epoch]:
            target.merge_from(self._snapshots.pop(later))
        self.newest = target
        deltas, target.deltas = target.deltas, {}
        for structure, delta in deltas.items():
            structure.undo(delta)

    def delete_snapshots_up_to(self, epoch: int) -> None:
        """Deletes the snapshots below that epoch, except those that are held."""
        kept = None
        for old in [epoch_ for epoch_ in self._snapshots if epoch_ < epoch]:
            if old in self._held:
                kept = self._snapshots[old]
                continue
            deleted = self._snapshots.pop(old)
            if kept is not None:
                kept.merge_from(deleted)
            if deleted is self.newest:
                self.newest = kept

    def hold(self, epoch: int) -> None:
        """Keeps that snapshot while it is read; :class:`IllegalState` if it does not exist.

        The hold ends with :meth:`release`, or with :meth:`reset`.
        """
        self.get_snapshot(epoch)
        self._held.add(epoch)

    def is_held(self, epoch: int) -> bool:
        """Whether :meth:`hold` keeps the snapshot of that epoch."""
        return epoch in self._held

    def release(self, epoch: int) -> None:
        """Lets that snapshot be deleted again; does nothing if it is not held."""
        self._held.discard(epoch)

    def reset(self) -> None:
        """Deletes every snapshot, held ones too, and empties every structure."""
        self._held.clear()
        self._snapshots.clear()
        self.newest = None
        for structure in self._structures:
            structure.reset()

    def deltas_since(self, structure: Revertable, epoch: int) -> Iterator[Delta]:
        """The undo logs of a structure from that epoch on, oldest first."""
        self.get_snapshot(epoch)
        for snapshot in self._snapshots.values():
            if snapshot.epoch >= epoch and structure in snapshot.deltas:
                yield snapshot.deltas[structure]
