"""The client of the simulated ZooKeeper: performs requests as the real session does.

:class:`SimulatedSession` has the interface of ``zkcontroller.zookeeper.session.ZooKeeperSession``
as far as the core's questions need it.  It never waits: the real session blocks until the
connection is back, and here the world holds the question back instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

from typing_extensions import override

from kafka_common.errors import ControllerMoved, SessionExpired, ZooKeeperRefused
from zkcontroller.zookeeper.questions import Questions
from zkcontroller.zookeeper.requests import (
    Check,
    CheckExists,
    Committed,
    Create,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    RolledBack,
    UnfencedBatch,
    WatchFired,
    Write,
    Written,
    ZkCode,
    ZkRequest,
    ZkTransaction,
)
from zkcontroller.zookeeper.session import SessionState
from zkcontroller_simulation.zookeeper_server import RefusedError, SimulatedZooKeeper

__all__ = ["SimulatedSession", "SimulatedZooKeeper"]

CONTROLLER_EPOCH_PATH = "/controller_epoch"


def _ignore(_: object) -> None:
    pass


class SimulatedSession(Questions):
    """One client of a :class:`SimulatedZooKeeper`.

    ``on_state`` gets EXPIRED before the new session can be used, and CONNECTED once the new session
    exists.  A client learns of the end of its session at its next call of the server, which
    :meth:`perform` and :meth:`reconnect` make.
    """

    def __init__(
        self,
        server: SimulatedZooKeeper,
        *,
        session_timeout_ms: int = 18_000,
        chroot: str = "",
        on_watch: Callable[[WatchFired], None] = _ignore,
        on_state: Callable[[SessionState], None] = _ignore,
    ) -> None:
        self._server = server
        self._session_timeout_ms = session_timeout_ms
        self._chroot = chroot
        self._on_watch = on_watch
        self._on_state = on_state
        self._past: list[int] = []
        self.session_id = 0

    @property
    def past_session_ids(self) -> tuple[int, ...]:
        """Ids of this client's earlier sessions, all expired."""
        return tuple(self._past)

    def start(self) -> None:
        """Connects and creates the chroot if it is missing."""
        self._open()
        missing = ""
        for name in self._chroot.split("/")[1:]:
            missing += f"/{name}"
            with suppress(RefusedError):
                self._server.transact(self.session_id, [Create(missing)])
        self._on_state(SessionState.CONNECTED)

    def close(self) -> None:
        """Ends the session and deletes its ephemeral znodes."""
        if self._server.is_alive(self.session_id):
            self._server.end_session(self.session_id)
        self.session_id = 0
        self._on_state(SessionState.CLOSED)

    def reconnect(self) -> bool:
        """Contacts the server; True if the session had expired and a new one was opened."""
        if self._server.is_alive(self.session_id):
            self._server.receive_from(self.session_id)
            return False
        self.forget()
        self._open()
        self._on_state(SessionState.CONNECTED)
        return True

    def forget(self) -> None:
        """Ends the session on the client's side, after it expired; opens no new one."""
        self._past.append(self.session_id)
        self.session_id = 0
        self._on_state(SessionState.EXPIRED)

    @override
    def _result_of(self, request: ZkRequest, session_id: int | None) -> object:
        """The result of ``request``, at once and in this thread."""
        if session_id not in (None, self.session_id):
            raise SessionExpired(f"session 0x{session_id:x} is over")
        if self.reconnect():
            raise SessionExpired(f"session 0x{self._past[-1]:x} is over")
        match request:
            case ReadZnodes(paths, watch):
                return [
                    self._server.read(self.session_id, self._full(p), watch=watch) for p in paths
                ]
            case ListChildren(paths, watch):
                return [
                    self._server.children(self.session_id, self._full(p), watch=watch)
                    for p in paths
                ]
            case CheckExists(paths, watch):
                exists = self._server.exists
                return [exists(self.session_id, self._full(path), watch=watch) for path in paths]
            case FencedBatch(operations, zk_version):
                return [self._fenced(operation, zk_version) for operation in operations]
            case UnfencedBatch(operations):
                return [self._unfenced(operation) for operation in operations]
            case ZkTransaction(operations):
                outcome = self._apply(operations)
                if isinstance(outcome, RefusedError):
                    return RolledBack(outcome.code, outcome.index)
                return Committed(tuple(outcome))

    def create_missing(self, paths: Iterable[str]) -> None:
        """Creates each path that is missing, and its parents, with null data."""
        for path in paths:
            parts = path.split("/")[1:]
            for depth in range(1, len(parts) + 1):
                self.write(Create("/" + "/".join(parts[:depth])))

    # Inside

    def _open(self) -> None:
        self.session_id = self._server.open_session(self._session_timeout_ms, self._watch_fired)

    def _watch_fired(self, fired: WatchFired) -> None:
        path = fired.path.removeprefix(self._chroot) or "/"
        self._on_watch(WatchFired(fired.kind, path))

    def _fenced(self, operation: Write, controller_epoch_zk_version: int) -> Written | ZkCode:
        fence = Check(CONTROLLER_EPOCH_PATH, controller_epoch_zk_version)
        outcome = self._apply([fence, operation])
        if not isinstance(outcome, RefusedError):
            return outcome[1]
        if outcome.index != 0:
            return outcome.code
        if outcome.code is ZkCode.BAD_VERSION:
            raise ControllerMoved(
                "Controller epoch zkVersion check fails. "
                f"Expected zkVersion = {controller_epoch_zk_version}"
            )
        raise ZooKeeperRefused(CONTROLLER_EPOCH_PATH, outcome.code.name)

    def _unfenced(self, operation: Write) -> Written | ZkCode:
        outcome = self._apply([operation])
        return outcome.code if isinstance(outcome, RefusedError) else outcome[0]

    def _apply(self, operations: Sequence[Write | Check]) -> list[Written] | RefusedError:
        placed = [operation._replace(path=self._full(operation.path)) for operation in operations]
        try:
            written = self._server.transact(self.session_id, placed)
        except RefusedError as refusal:
            return refusal
        return [done._replace(path=done.path.removeprefix(self._chroot)) for done in written]

    def _full(self, path: str) -> str:
        return self._chroot if self._chroot and path == "/" else self._chroot + path
