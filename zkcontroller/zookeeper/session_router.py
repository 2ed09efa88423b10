"""Passes watches and state changes of a ZooKeeper session to the parts of a process.

A session has one callback for each kind of event, and many parts of the process need these events.
Each part adds a *route*, its own callback.  A fired watch goes to the part that follows its path; a
watch of any other path goes to the controller, whose paths change with brokers and topics.  A
change of the session's state goes to every part that follows states, in the order in which they
were added.

A route is added before the request that sets its watch.  Callbacks run in the connection's thread,
so they must neither block nor send requests to ZooKeeper.

Source: Kafka ``ZooKeeperClient`` (``registerZNodeChangeHandler``, ``registerStateChangeHandler``).
"""

from __future__ import annotations

from collections.abc import Callable

from zkcontroller.zookeeper.requests import WatchFired
from zkcontroller.zookeeper.session import OnState, OnWatch, SessionState, ignore


class SessionRouter:
    """The routes of one session.

    :meth:`fired`, :meth:`entered` and :meth:`took` are the session's callbacks.  Any thread may
    call; an event without a route is dropped.
    """

    def __init__(self) -> None:
        self._by_path: dict[str, OnWatch] = {}
        self._other_paths: OnWatch = ignore
        self._states: tuple[OnState, ...] = ()
        self._latency: Callable[[float], None] = ignore

    def follow_path(self, path: str, on_watch: OnWatch) -> None:
        """Calls ``on_watch`` for each fired watch of exactly that path; one route per path."""
        assert path not in self._by_path, f"{path} has a route"
        self._by_path[path] = on_watch

    def follow_other_paths(self, on_watch: OnWatch) -> None:
        """Calls ``on_watch`` for each watch of a path without a route of its own."""
        self._other_paths = on_watch

    def follow_states(self, on_state: OnState) -> None:
        """Calls ``on_state`` for each change of the session's state."""
        self._states = (*self._states, on_state)

    def follow_latency(self, on_latency_ms: Callable[[float], None]) -> None:
        """Calls ``on_latency_ms`` with the milliseconds that each request took."""
        self._latency = on_latency_ms

    def fired(self, fired: WatchFired) -> None:
        """Passes a fired watch of the session to the route of its path."""
        self._by_path.get(fired.path, self._other_paths)(fired)

    def entered(self, state: SessionState) -> None:
        """Passes a new state of the session to all that follow it."""
        for on_state in self._states:
            on_state(state)

    def took(self, latency_ms: float) -> None:
        """Passes on that ZooKeeper has replied to a request after ``latency_ms``."""
        self._latency(latency_ms)
