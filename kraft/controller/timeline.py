"""Maps, sets and values that can be read as they were at an earlier offset of the log.

Without an ``epoch``, the current state is read and written.  Reads accept an ``epoch``: the log
offset of one of the registry's snapshots.  Values must be immutable: a value that is changed in
place also changes in the snapshots.

Source: Kafka ``TimelineHashMap``, ``TimelineHashSet``, ``TimelineObject``.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar, overload

from typing_extensions import override

from kraft.controller.snapshot_registry import (
    ABSENT,
    Delta,
    Revertable,
    SnapshotRegistry,
)

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")


class TimelineDict(Revertable, Generic[K, V]):
    """A map with earlier versions, in insertion order like ``dict``.

    The map must not be changed in a loop over its current state, but it may be in a loop over an
    earlier one.
    """

    __slots__ = ("_current", "_registry")

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._current: dict[K, V] = {}
        registry.register(self)

    # ------------------------------------------------------------------ reads

    @overload
    def get(self, key: K, default: None = None, *, epoch: int | None = None) -> V | None: ...
    @overload
    def get(self, key: K, default: T, *, epoch: int | None = None) -> V | T: ...
    def get(self, key: K, default: T | None = None, *, epoch: int | None = None) -> V | T | None:
        """The key's value, now or at offset ``epoch``; ``default`` if it has none."""
        if epoch is not None:
            for delta in self._registry.deltas_since(self, epoch):
                if key in delta:
                    before = delta[key]
                    return default if before is ABSENT else before
        return self._current.get(key, default)

    def at(self, epoch: int) -> dict[K, V]:
        """A copy of the whole map as it was at offset ``epoch``."""
        copy = dict(self._current)
        for delta in reversed(list(self._registry.deltas_since(self, epoch))):
            _apply_delta(copy, delta)
        return copy

    def size(self, *, epoch: int | None = None) -> int:
        """The number of keys, now or at offset ``epoch``."""
        return len(self._view(epoch))

    def keys(self, *, epoch: int | None = None) -> Iterator[K]:
        """The keys, now or at offset ``epoch``."""
        return iter(self._view(epoch))

    def values(self, *, epoch: int | None = None) -> Iterator[V]:
        """The values, now or at offset ``epoch``."""
        return iter(self._view(epoch).values())

    def items(self, *, epoch: int | None = None) -> Iterator[tuple[K, V]]:
        """The keys with their values, now or at offset ``epoch``."""
        return iter(self._view(epoch).items())

    def __getitem__(self, key: K) -> V:
        return self._current[key]

    def __contains__(self, key: object) -> bool:
        return key in self._current

    def __len__(self) -> int:
        return len(self._current)

    def __iter__(self) -> Iterator[K]:
        return iter(self._current)

    def _view(self, epoch: int | None) -> dict[K, V]:
        return self._current if epoch is None else self.at(epoch)

    # ------------------------------------------------------------------ writes

    def __setitem__(self, key: K, value: V) -> None:
        assert key is not None
        assert value is not None
        self._remember(key)
        self._current[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self._current:
            raise KeyError(key)
        self._remember(key)
        del self._current[key]

    def pop(self, key: K, default: V | None = None) -> V | None:
        """Removes the key and returns its value; ``default`` if it has none."""
        if key not in self._current:
            return default
        self._remember(key)
        return self._current.pop(key)

    def setdefault(self, key: K, value: V) -> V:
        """The key's value, after setting it to ``value`` if it had none."""
        if key not in self._current:
            self[key] = value
        return self._current[key]

    def clear(self) -> None:
        """Removes every key."""
        for key in self._current:
            self._remember(key)
        self._current = {}

    def _remember(self, key: K) -> None:
        newest = self._registry.newest
        if newest is not None:
            delta = newest.deltas.get(self)
            if delta is None:
                delta = newest.deltas[self] = {}
            # Only one look-up in each map: hashing a key may cost more than all the rest.
            delta.setdefault(key, self._current.get(key, ABSENT))

    @override
    def undo(self, delta: Delta) -> None:
        _apply_delta(self._current, delta)

    @override
    def reset(self) -> None:
        self._current = {}


class TimelineSet(Generic[T]):
    """A set with earlier versions, in insertion order so that loops are repeatable."""

    __slots__ = ("_members",)

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._members: TimelineDict[T, bool] = TimelineDict(registry)

    def members(self, *, epoch: int | None = None) -> Iterator[T]:
        """The members, now or at offset ``epoch``."""
        return self._members.keys(epoch=epoch)

    def size(self, *, epoch: int | None = None) -> int:
        """The number of members, now or at offset ``epoch``."""
        return self._members.size(epoch=epoch)

    def __contains__(self, member: object) -> bool:
        return member in self._members

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[T]:
        return iter(self._members)

    def add(self, member: T) -> bool:
        """Adds the member; False if it was there already."""
        if member in self._members:
            return False
        self._members[member] = True
        return True

    def discard(self, member: T) -> bool:
        """Removes the member; False if it was not there."""
        return self._members.pop(member) is not None

    def clear(self) -> None:
        """Removes every member."""
        self._members.clear()


class TimelineValue(Revertable, Generic[T]):
    """One value with its earlier versions; Kafka's ``TimelineObject``, ``TimelineInteger``."""

    __slots__ = ("_current", "_initial", "_registry")

    def __init__(self, registry: SnapshotRegistry, initial: T) -> None:
        self._registry = registry
        self._initial = initial
        self._current = initial
        registry.register(self)

    def get(self, *, epoch: int | None = None) -> T:
        """The value, now or at offset ``epoch``."""
        if epoch is not None:
            for delta in self._registry.deltas_since(self, epoch):
                before: T = delta[None]
                return before
        return self._current

    def set(self, value: T) -> None:
        """Replaces the value."""
        newest = self._registry.newest
        if newest is not None and self not in newest.deltas:
            newest.deltas[self] = {None: self._current}
        self._current = value

    @override
    def undo(self, delta: Delta) -> None:
        self._current = delta[None]

    @override
    def reset(self) -> None:
        self._current = self._initial


def _apply_delta(current: dict[K, V], delta: Delta) -> None:
    for key, before in delta.items():
        if before is ABSENT:
            current.pop(key, None)
        else:
            current[key] = before
