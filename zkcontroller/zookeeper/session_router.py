"""Routes what a ZooKeeper session reports to the parts of a process that follow it.

A session has one callback for each kind of report, and many parts follow it: each part adds its own
route, so that no part passes on what concerns another one.  A fired watch goes to the one part that
follows its path, and a watch of any other path to the controller, whose paths come and go with
brokers and topics.  A change of the session's state goes to every part that follows states, in the
order in which they began to.

Routes are added before the requests that leave their watches.  Reports come in the thread of the
connection, so a callback must neither block nor ask ZooKeeper.

Source: Kafka ``ZooKeeperClient`` (``registerZNodeChangeHandler``, ``registerStateChangeHandler``).
"""

from __future__ import annotations

from collections.abc import Callable

from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import OnState, OnWatch, SessionState, ignore


class SessionRouter:
    """The routes of one session.

    :meth:`fired`, :meth:`entered` and :meth:`took` are the session's callbacks.  Any thread may
    call; a report without a route is dropped.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, OnWatch] = {}
        self._other_paths: OnWatch = ignore
        self._states: tuple[OnState, ...] = ()
        self._latency: Callable[[float], None] = ignore

    def follow_path(self, path: str, on_watch: OnWatch) -> None:
        """Calls ``on_watch`` for each watch of exactly that path, which has no route yet."""
        assert path not in self._by_path, f"{path} has a route"
        self._by_path[path] = on_watch

    def follow_other_paths(self, on_watch: OnWatch) -> None:
        """Calls ``on_watch`` for each watch of a path without a route of its own."""
        self._other_paths = on_watch

    def follow_states(self, on_state: OnState) -> None:
        """Calls ``on_state`` for each change of the session's state."""
        self._states = (*self._states, on_state)

    def follow_latency(self, on_latency_ms: Callable[[float], None]) -> None:
        """Calls ``on_latency_ms`` with how long each request took."""
        self._latency = on_latency_ms

    def fired(self, fired: WatchFired) -> None:
        """A watch of the session has fired."""
        self._by_path.get(fired.path, self._other_paths)(fired)

    def entered(self, state: SessionState) -> None:
        """The session has changed its state."""
        for on_state in self._states:
            on_state(state)

    def took(self, latency_ms: float) -> None:
        """ZooKeeper has answered a request after so long."""
        self._latency(latency_ms)
