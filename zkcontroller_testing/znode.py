"""One znode in a test's hands: read, overwrite, delete, watch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from zkcontroller.zookeeper.requests import ANY_VERSION, Create, Delete, SetData, ZkCode, Znode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller_testing.waiting import PATIENCE_S, until

NOT_JSON: Final = b"{this is no JSON"


class ZnodeHandle:
    """A path below the cluster's chroot."""

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
        """Overwrites the data with what no reader understands; returns what was there."""
        before = self.get()
        self.set(data)
        return before

    @contextmanager
    def corrupted(self, data: bytes = NOT_JSON) -> Iterator[bytes | None]:
        """Corrupt while a ``with`` block runs; then it has its data again, or is gone again."""
        before = self.corrupt(data)
        try:
            yield before
        finally:
            if before is None:
                self.delete()
            else:
                self.set(before)

    def delete(self) -> bool:
        """Whether it was there, and is no more."""
        return not isinstance(self._session.write(Delete(self.path, ANY_VERSION)), ZkCode)

    def watch(self) -> ZnodeWatch:
        """What comes after this moment."""
        return ZnodeWatch(self._session, self.path)


class ZnodeWatch:
    """The state of a znode at a moment, to be compared with what comes."""

    def __init__(self, session: ZooKeeperSession, path: str) -> None:
        self._session = session
        self.path = path
        self._before = self._look()

    def wait(self, timeout_s: float = PATIENCE_S) -> bytes | None:
        """The data after the next change (None: it was deleted); NotInTime if nothing changes.

        Several changes that come at once may be seen as one, as ZooKeeper's own watches do.
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
