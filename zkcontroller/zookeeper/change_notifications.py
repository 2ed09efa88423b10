"""Sequential znodes with which brokers notify each other of a change.

The broker that changes something creates a sequential znode.  Every broker reads the notifications
that are newer than the last one it has processed, and deletes those older than 15 minutes.  All
methods block.

Source: Kafka ``ZkNodeChangeNotificationListener``.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Final

from kafka_common.wall_time import wall_time_ms
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    CheckExists,
    Create,
    Delete,
    ReadZnodes,
    UnfencedBatch,
    ZkCode,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
_LONGEST_NUMBER: Final = 10
_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")


class ZkNodeChangeNotificationListener:
    """The notifications below ``root`` whose names begin with ``prefix``.

    Methods raise ZooKeeperRefused if ZooKeeper returns an error code.  The next :meth:`unseen` then
    returns the notifications that were not processed.
    """

    def __init__(self, session: ZooKeeperSession, root: str, prefix: str) -> None:
        self._session = session
        self._root = root
        self._prefix = prefix
        self._last_processed = -1
        self._listed: Sequence[str] = ()

    def skip(self) -> None:
        """Counts every notification as processed, and sets the watch for the next."""
        self._last_processed = max(map(self._number, self._names()), default=-1)

    def unseen(self) -> list[tuple[str, bytes]]:
        """Paths and data of notifications not processed yet, oldest first; sets the watch.

        A notification that another broker has just deleted is left out, with a warning.
        """
        self._listed = names = self._names()
        if names:
            _log.info("Processing notification(s) to %s", self._root)
        new = [name for name in names if self._number(name) > self._last_processed]
        paths = [f"{self._root}/{name}" for name in new]
        found: list[tuple[str, bytes]] = []
        for path, result in zip(paths, self._session.perform(ReadZnodes(paths)), strict=True):
            znode = optional(path, result)
            if znode is None:
                _log.warning("read null data from %s", path)
            else:
                found.append((path, znode.data))
        return found

    def processed(self) -> None:
        """Counts what :meth:`unseen` listed as processed, and deletes old notifications."""
        self._last_processed = max(map(self._number, self._listed), default=self._last_processed)
        self._purge(self._listed)

    def create(self, path: str, data: bytes) -> None:
        """Creates a notification; ZooKeeper appends the number to ``path``."""
        required(path, self._session.write(Create(path, data, sequential=True)))

    def _names(self) -> list[str]:
        """The names of the notifications, oldest first; sets the watch."""
        names = required(self._root, self._session.children(self._root, watch=True))
        return sorted((name for name in names if self._number(name) >= 0), key=self._number)

    def _number(self, name: str) -> int:
        """The sequence number of a notification; -1 for a name without one."""
        digits = name.removeprefix(self._prefix)
        is_number = digits != name and digits.isascii() and digits.isdigit()
        return int(digits) if is_number and len(digits) <= _LONGEST_NUMBER else -1

    def _purge(self, names: Sequence[str]) -> None:
        paths = [f"{self._root}/{name}" for name in names]
        now_ms = wall_time_ms()
        old = [
            path
            for path, stat in zip(paths, self._session.perform(CheckExists(paths)), strict=True)
            # A znode whose stat cannot be read now is checked with the next notification.
            if not isinstance(stat, ZkCode) and now_ms - stat.ctime_ms > CHANGE_EXPIRATION_MS
        ]
        # Another broker may have deleted one of them.
        self._session.perform(UnfencedBatch([Delete(path, ANY_VERSION) for path in old]))
