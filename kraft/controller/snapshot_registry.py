"""In-memory snapshots: the state as it was at an offset of the metadata log.

The active controller acts on records that the quorum has not committed yet.  Readers must not see
those, and a controller that loses its leadership must forget them.  So the state is kept in
*timeline* structures (:mod:`kraft.controller.timeline`), and the registry holds, for
a few offsets, what it takes to get back to them.

A snapshot is an undo log.  Nothing is copied when it is made; the first write to an element
afterwards leaves there what stood before.  A write costs the same however large the structure is,
and a snapshot as much memory as was changed after it.  What the state was at an offset is the
current state with the undo logs from that offset on laid over it, the oldest last.

Source: Kafka ``SnapshotRegistry``, ``RegistrySnapshot``, ``SnapshottableHashTable``.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

from kafka_common.errors import IllegalState

# What stood under a key when the snapshot was made: ABSENT if nothing did.
Delta: TypeAlias = dict[Any, Any]

# Older than every snapshot.
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
        """Restores the values in the delta; no snapshot records this."""

    @abstractmethod
    def reset(self) -> None:
        """Removes all contents; the registry has no snapshots at that time."""


class RegistrySnapshot:
    """The undo log of the writes between this epoch and the next snapshot."""

    __slots__ = ("deltas", "epoch")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        # A structure without other references lives as long as its deltas.
        self.deltas: dict[Revertable, Delta] = {}

    def merge_from(self, later: RegistrySnapshot) -> None:
        """Takes over the undo log of the next snapshot, which is being deleted."""
        for structure, delta in later.deltas.items():
            mine = self.deltas.setdefault(structure, delta)
            if mine is not delta:
                for key, before in delta.items():
                    mine.setdefault(key, before)


class SnapshotRegistry:
    """The snapshots of one set of structures, by epoch (an offset of the log).

    A structure is held weakly: those of a deleted topic go once no snapshot needs them.
    """

    def __init__(self) -> None:
        self._snapshots: dict[int, RegistrySnapshot] = {}  # in ascending order of epochs
        self._structures: weakref.WeakSet[Revertable] = weakref.WeakSet()
        self._held: set[int] = set()
        self.newest: RegistrySnapshot | None = None

    def register(self, structure: Revertable) -> None:
        """Adds a structure that :meth:`reset` empties."""
        self._structures.add(structure)

    def epochs(self) -> list[int]:
        """The readable epochs, ascending."""
        return list(self._snapshots)

    def latest_epoch(self) -> int:
        """The epoch of the newest snapshot; ``NO_EPOCH`` if there is none."""
        return self.newest.epoch if self.newest is not None else NO_EPOCH

    def has_snapshot(self, epoch: int) -> bool:
        """Whether the state at that epoch can be read."""
        return epoch in self._snapshots

    def get_snapshot(self, epoch: int) -> RegistrySnapshot:
        """The snapshot of exactly that epoch; :class:`IllegalState` if there is none."""
        snapshot = self._snapshots.get(epoch)
        if snapshot is None:
            raise IllegalState(f"no in-memory snapshot at {epoch}; there are {self.epochs()}")
        return snapshot

    def get_or_create_snapshot(self, epoch: int) -> RegistrySnapshot:
        """A snapshot of the state as it is now; :class:`IllegalState` if a later one exists."""
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
        """Deletes the snapshots below that epoch, except held ones."""
        kept = None
        for old in [epoch_ for epoch_ in self._snapshots if epoch_ < epoch]:
            if old in self._held:
                kept = self._snapshots[old]
                continue
            gone = self._snapshots.pop(old)
            if kept is not None:
                kept.merge_from(gone)
            if gone is self.newest:
                self.newest = kept

    def hold(self, epoch: int) -> None:
        """Keeps that snapshot while it is read; :class:`IllegalState` if it does not exist.

        The hold ends with :meth:`release`, or with :meth:`reset`.
        """
        self.get_snapshot(epoch)
        self._held.add(epoch)

    def is_held(self, epoch: int) -> bool:
        """Whether that snapshot is kept until it is released."""
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
