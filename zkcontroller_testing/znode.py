"""A handle of one znode for tests: read, overwrite, delete, watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zkcontroller.zookeeper.requests import ANY_VERSION, Create, Delete, SetData, ZkCode, Znode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_testing.waiting import PATIENCE_S, until

NOT_JSON: Final = b"{this is no JSON"


class ZnodeHandle:
    """A handle of one znode; its path is below the cluster's chroot."""

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        self.path = path
        self._session = session

    def get(self) -> bytes | None:
        """The data; None if there is no such znode."""
        found = self._session.read(self.path)
        return found.data if isinstance(found, Znode) else None

    @property
    def version(self) -> int | None:
        """How often the data was set; None if there is no such znode."""
        found = self._session.read(self.path)
        return found.zk_version if isinstance(found, Znode) else None

    def set(self, data: bytes) -> None:
        """Overwrites the data, whatever its version; creates the znode if it is missing."""
        if self._session.write(SetData(self.path, data, ANY_VERSION)) is ZkCode.NO_NODE:
            self._session.create_missing([self.path.rpartition("/")[0] or "/"])
            self._session.write(Create(self.path, data))

    def corrupt(self, data: bytes = NOT_JSON) -> bytes | None:
        """Overwrites the data with invalid JSON; returns the data before (None: no znode)."""
        before = self.get()
        self.set(data)
        return before

    @contextmanager
    def corrupted(self, data: bytes = NOT_JSON) -> Iterator[bytes | None]:
        """Corrupts the data for a ``with`` block, then restores it or deletes the znode again."""
        before = self.corrupt(data)
        try:
            yield before
        finally:
            if before is None:
                self.delete()
            else:
                self.set(before)

    def delete(self) -> bool:
        """Deletes the znode; False if it did not exist or could not be deleted."""
        return not isinstance(self._session.write(Delete(self.path, ANY_VERSION)), ZkCode)

    def watch(self) -> ZnodeWatch:
        """A watch for changes after this moment."""
        return ZnodeWatch(self._session, self.path)


class ZnodeWatch:
    """A watch for changes of a znode, which compares with its last seen state."""

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        self._session = session
        self.path = path
        self._before = self._look()

    def wait(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        """Waits for the next change; returns the data after it (None: deleted), or NotInTime.

        Several quick changes may be seen as one, as with ZooKeeper's own watches.
        """

        def changed() -> tuple[Znode | None] | None:
            now = self._look()
            is_same = (now and (now.czxid, now.zk_version)) == (
                self._before and (self._before.czxid, self._before.zk_version)
            )
            return None if is_same else (now,)

        (found,) = until(changed, lambda: f"{self.path} changes", timeout_s)
        self._before = found
        return found.data if found else None

    @property
    def version(self) -> int | None:
        """How often the data had been set at the last change seen; None if there was no znode."""
        return None if self._before is None else self._before.zk_version

    def _look(self) -> Znode | None:
        found = self._session.read(self.path)
        return found if isinstance(found, Znode) else None
