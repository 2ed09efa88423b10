"""Numbered notes in ZooKeeper by which brokers tell each other of a change.

Whoever changes something leaves a sequential znode; every broker reads the notes that are newer
than the last one it has seen, and removes those that are older than a quarter of an hour.  Blocks.

Source: Kafka ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from zkcontroller.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    CheckExists,
    Create,
    Delete,
    ReadZnodes,
    UnfencedBatch,
    ZkCode,
)
from zkcontroller.zookeeper.session import ZooKeeperSession

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
_LONGEST_NUMBER: Final = 10


class ChangeNotes:
    """The notes below one path."""

    def __init__(self, session: ZooKeeperSession, root: str, prefix: str) -> None:
        self._session = session
        self._root = root
        self._prefix = prefix
        self._last = -1
        self._looked_at: Sequence[str] = ()

    def skip(self) -> None:
        """Takes every note for seen, and leaves a watch for the next."""
        self._last = max(map(self._number, self._names()), default=-1)

    def unseen(self) -> list[tuple[str, bytes]]:
        """Paths and data of the notes not seen yet, oldest first; leaves a watch for the next."""
        self._looked_at = names = self._names()
        paths = [f"{self._root}/{name}" for name in names if self._number(name) > self._last]
        found = zip(paths, self._session.perform(ReadZnodes(paths)), strict=True)
        # One that is gone was so old that another broker has removed it.
        return [(path, znode.data) for path, znode in found if not isinstance(znode, ZkCode)]

    def acted(self) -> None:
        """What :meth:`unseen` gave has been acted on; notes that are old are removed."""
        self._last = max(map(self._number, self._looked_at), default=self._last)
        self._purge(self._looked_at)

    def leave(self, path: str, data: bytes) -> None:
        """Tells every broker of a change; ``path`` gets a number."""
        created = self._session.write(Create(path, data, sequential=True))
        if isinstance(created, ZkCode):
            raise ZooKeeperRefused(path, created.name)

    def _names(self) -> list[str]:
        """Oldest first; leaves a watch."""
        names = self._session.children(self._root, watch=True)
        if isinstance(names, ZkCode):
            raise ZooKeeperRefused(self._root, names.name)
        return sorted((name for name in names if self._number(name) >= 0), key=self._number)

    def _number(self, name: str) -> int:
        """The sequence number of a note; -1 for a name without one."""
        digits = name.removeprefix(self._prefix)
        is_number = digits != name and digits.isascii() and digits.isdigit()
        return int(digits) if is_number and len(digits) <= _LONGEST_NUMBER else -1

    def _purge(self, names: Sequence[str]) -> None:
        paths = [f"{self._root}/{name}" for name in names]
        now_ms = time.time_ns() // 1_000_000
        old = [
            path
            for path, stat in zip(paths, self._session.perform(CheckExists(paths)), strict=True)
            if not isinstance(stat, ZkCode) and now_ms - stat.ctime_ms > CHANGE_EXPIRATION_MS
        ]
        # Other brokers purge too: one that is gone already is as good.
        self._session.perform(UnfencedBatch([Delete(path, ANY_VERSION) for path in old]))
