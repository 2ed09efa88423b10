"""The one-shot watches of a session, each with the zxid from which on it watches.

For each entry one of these is true: the server has the watch, its notification is on the way, or a
setWatches that sets it is on the way.  Three rules follow:

* a read of a znode whose entry has the same or an older zxid needs no new watch;
* a notification without an entry was delivered before, and is ignored;
* after a reconnect the watches of all entries are set again.

A table lives as long as its session.

Source: ZooKeeper ``ZKWatchManager``, ``DataTree.setWatches``.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from enum import Enum
from typing import Final

from zkcontroller.zookeeper.requests import WatchKind


class WatchType(Enum):
    """The server's three lists of watches."""

    DATA = "data"  # the znode exists: fires when it changes or goes
    EXISTS = "exists"  # nothing there: fires when it is created
    CHILDREN = "children"  # fires when a child comes or goes, or the znode itself goes


# NODE_DELETED keeps an exists-watch: the notification belongs to an older data watch.
_CONSUMED_BY: Final = {
    WatchKind.NODE_CREATED: (WatchType.DATA, WatchType.EXISTS),
    WatchKind.NODE_DATA_CHANGED: (WatchType.DATA, WatchType.EXISTS),
    WatchKind.NODE_DELETED: (WatchType.DATA, WatchType.CHILDREN),
    WatchKind.NODE_CHILDREN_CHANGED: (WatchType.CHILDREN,),
}


class WatchTable:
    """The armed watches of one session; paths include the chroot.  Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._since: dict[WatchType, dict[str, int]] = {kind: {} for kind in WatchType}

    def arm(self, kind: WatchType, paths: Iterable[str], zxid: int) -> list[str]:
        """Adds watches since ``zxid``; returns the paths without an entry that old or older."""
        since = self._since[kind]
        needed: list[str] = []
        with self._lock:
            for path in paths:
                known = since.get(path)
                if known is None or known > zxid:
                    since[path] = zxid
                    needed.append(path)
        return needed

    def fired(self, kind: WatchKind, path: str) -> bool:
        """Removes the entries whose watches a notification ends; False if there are none."""
        with self._lock:
            taken = [self._since[each].pop(path, None) for each in _CONSUMED_BY[kind]]
        return any(zxid is not None for zxid in taken)

    def entries(self, kind: WatchType) -> list[str]:
        """The paths with a watch of that type."""
        with self._lock:
            return list(self._since[kind])
