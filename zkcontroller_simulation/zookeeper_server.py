"""A ZooKeeper server in memory: the tree, its versions and watches, and sessions that end.

The scenarios and the simulation run the production core against this server, so it must behave as a
real one does.  ``tests/contract`` runs the same tests against it, through its client in
:mod:`.zookeeper`, and against a real ZooKeeper.  It has no ACLs, quotas, ``jute.maxbuffer`` or
observers.

Everything is synchronous and repeatable.  ``now_ms`` returns the time; nothing here sleeps.
Children are listed in creation order (a real server promises none).

Source: ZooKeeper 3.9 ``PrepRequestProcessor`` (which error comes first), ``DataTree`` (which watch
fires), ``ZooKeeperServer`` (sessions).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, NamedTuple

from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Check,
    Create,
    Delete,
    SetData,
    Stat,
    WatchFired,
    WatchKind,
    Write,
    Written,
    ZkCode,
    Znode,
)

NO_OWNER: Final = 0
FIRST_SESSION_ID: Final = 0x1000000000000

OnWatch = Callable[[WatchFired], None]


class WatchOn(Enum):
    """The kind of a watch in the client's list."""

    DATA = "data"
    ABSENCE = "absence"  # an exists-watch where nothing existed
    CHILDREN = "children"


class Watch(NamedTuple):
    """One armed watch."""

    on: WatchOn
    path: str


class ZnodeChange(NamedTuple):
    """The change of one znode; ``before`` None: created, ``after`` None: deleted."""

    path: str
    before: Znode | None
    after: Znode | None


class Commit(NamedTuple):
    """One committed transaction."""

    zxid: int
    session_id: int
    changes: tuple[ZnodeChange, ...]


@dataclass(slots=True)
class _Node:
    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    pzxid: int
    owner: int = NO_OWNER
    version: int = 0
    creates: int = 0  # children ever created: the number a sequential child gets
    children: dict[str, None] = field(default_factory=dict)

    def znode(self) -> Znode:
        return Znode(self.data or b"", self.version, self.czxid, self.owner)

    def stat(self) -> Stat:
        return Stat(
            czxid=self.czxid,
            mzxid=self.mzxid,
            ctime_ms=self.ctime_ms,
            mtime_ms=self.mtime_ms,
            zk_version=self.version,
            # As ZooKeeper's DataNode.copyStat: creations plus deletions of children.
            cversion=self.creates * 2 - len(self.children),
            aversion=0,
            ephemeral_owner=self.owner,
            data_length=len(self.data or b""),
            num_children=len(self.children),
            pzxid=self.pzxid,
        )


@dataclass(slots=True)
class _Session:
    session_id: int
    timeout_ms: int
    last_received_ms: int
    on_watch: OnWatch
    ephemerals: dict[str, None] = field(default_factory=dict)


class RefusedError(Exception):
    """An operation the server refuses; inside a transaction ``index`` tells which."""

    def __init__(self, code: ZkCode, index: int = 0) -> None:
        super().__init__(f"{code.name} at operation {index}")
        self.code = code
        self.index = index


class SimulatedZooKeeper:
    """The server: one tree, many sessions.

    The listeners in ``on_commit`` are called for every transaction after its commit and before its
    watches fire.  A call with the id of an ended session raises RefusedError (SESSION_EXPIRED).
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: 0) -> None:
        self._now_ms = now_ms
        self._nodes: dict[str, _Node] = {"/": _Node(None, 0, 0, 0, 0, 0)}
        self._sessions: dict[int, _Session] = {}
        self._next_session_id = FIRST_SESSION_ID
        self._data_watches: dict[str, dict[int, None]] = {}  # exists watches too, as on the server
        self._child_watches: dict[str, dict[int, None]] = {}
        self._left_behind: list[str] = []
        self.zxid = 0
        self.on_commit: list[Callable[[Commit], None]] = []

    # Sessions

    def open_session(self, timeout_ms: int, on_watch: OnWatch) -> int:
        """Opens a session and returns its id; this is a transaction, as closing is."""
        self.zxid += 1
        session_id = self._next_session_id
        self._next_session_id += 1
        self._sessions[session_id] = _Session(session_id, timeout_ms, self._now_ms(), on_watch)
        return session_id

    def is_alive(self, session_id: int) -> bool:
        """Whether the server still knows the session."""
        return session_id in self._sessions

    def receive_from(self, session_id: int) -> None:
        """Handles a ping or any request: restarts the session's timeout."""
        self._session(session_id).last_received_ms = self._now_ms()

    def deadline_ms(self, session_id: int) -> int:
        """The time at which the session expires if no ping or request arrives before."""
        session = self._session(session_id)
        return session.last_received_ms + session.timeout_ms

    def expire_overdue(self) -> list[int]:
        """Ends every session whose timeout is over and returns their ids."""
        overdue = [s for s in self._sessions if self.deadline_ms(s) <= self._now_ms()]
        for session_id in overdue:
            self.end_session(session_id)
        return overdue

    def end_session(self, session_id: int) -> None:
        """Ends a session: drops its watches, and deletes its ephemerals in one transaction."""
        session = self._session(session_id)
        self.drop_watches(session_id)
        del self._sessions[session_id]
        for path in self._left_behind:
            session.ephemerals.pop(path, None)
        self._commit(session_id, [Delete(path) for path in session.ephemerals])

    def leave_behind(self, path: str) -> None:
        """Makes the ephemeral at ``path`` outlive its session, as in ZOOKEEPER-2985."""
        self._left_behind.append(path)

    def drop_watches(self, session_id: int) -> None:
        """Removes the session's watches, because its connection broke."""
        for watches in (self._data_watches, self._child_watches):
            for path in [p for p, watchers in watches.items() if session_id in watchers]:
                del watches[path][session_id]
                if not watches[path]:
                    del watches[path]

    def set_watches(self, session_id: int, seen_zxid: int, watches: Iterable[Watch]) -> None:
        """Sets a reconnected client's watches, or fires those that changed after ``seen_zxid``.

        Source: ``DataTree.setWatches``.  It compares states, not histories: a znode that was
        deleted and created again reads as changed, and one that came and went as if nothing had
        been.
        """
        session = self._session(session_id)
        for kind, path in watches:
            missed = self._missed(kind, path, seen_zxid)
            if missed is not None:
                session.on_watch(WatchFired(missed, path))
            else:
                table = self._child_watches if kind is WatchOn.CHILDREN else self._data_watches
                table.setdefault(path, {})[session_id] = None

    def _missed(self, kind: WatchOn, path: str, seen_zxid: int) -> WatchKind | None:
        node = self._nodes.get(path)
        match kind:
            case WatchOn.ABSENCE:
                return None if node is None else WatchKind.NODE_CREATED
            case _ if node is None:
                return WatchKind.NODE_DELETED
            case WatchOn.DATA:
                return WatchKind.NODE_DATA_CHANGED if node.mzxid > seen_zxid else None
            case WatchOn.CHILDREN:
                return WatchKind.NODE_CHILDREN_CHANGED if node.pzxid > seen_zxid else None

    # Reads

    def read(self, session_id: int, path: str, *, watch: bool = False) -> Znode | ZkCode:
        """The data and versions of a znode; sets the watch only if the znode exists."""
        self.receive_from(session_id)
        node = self._nodes.get(path)
        if node is None:
            return ZkCode.NO_NODE
        if watch:
            self._data_watches.setdefault(path, {})[session_id] = None
        return node.znode()

    def children(self, session_id: int, path: str, *, watch: bool = False) -> list[str] | ZkCode:
        """The names of a znode's children; sets the watch only if the znode exists."""
        self.receive_from(session_id)
        node = self._nodes.get(path)
        if node is None:
            return ZkCode.NO_NODE
        if watch:
            self._child_watches.setdefault(path, {})[session_id] = None
        return list(node.children)

    def exists(self, session_id: int, path: str, *, watch: bool = False) -> Stat | ZkCode:
        """The stat of a znode; sets the watch also if the znode is missing."""
        self.receive_from(session_id)
        if watch:
            self._data_watches.setdefault(path, {})[session_id] = None
        node = self._nodes.get(path)
        return ZkCode.NO_NODE if node is None else node.stat()

    def peek(self, path: str) -> Znode | None:
        """The znode, read without a session and without a watch; None if it is missing."""
        node = self._nodes.get(path)
        return None if node is None else node.znode()

    def peek_children(self, path: str) -> list[str]:
        """The children's names, read without a session; empty if the znode is missing."""
        node = self._nodes.get(path)
        return [] if node is None else list(node.children)

    # Writes

    def transact(self, session_id: int, operations: Sequence[Write | Check]) -> list[Written]:
        """All operations or none; raises :class:`RefusedError` with the first one that fails."""
        self.receive_from(session_id)
        return self._commit(session_id, operations)

    def _commit(self, session_id: int, operations: Iterable[Write | Check]) -> list[Written]:
        self.zxid += 1
        transaction = _Transaction(self._nodes, self._sessions, self.zxid, self._now_ms())
        written = []
        for index, operation in enumerate(operations):
            try:
                written.append(transaction.apply(session_id, operation))
            except RefusedError as refusal:
                transaction.roll_back()
                raise RefusedError(refusal.code, index) from None
        commit = Commit(self.zxid, session_id, tuple(transaction.changes))
        for listener in self.on_commit:
            listener(commit)
        for change in commit.changes:
            self._fire(change)
        return written

    def _fire(self, change: ZnodeChange) -> None:
        path = change.path
        if change.before is not None and change.after is not None:
            self._tell(WatchKind.NODE_DATA_CHANGED, path, self._data_watches.pop(path, {}))
            return
        if change.after is not None:
            self._tell(WatchKind.NODE_CREATED, path, self._data_watches.pop(path, {}))
        else:
            # A session with both watches on a deleted znode gets one event (DataTree.deleteNode).
            watchers = self._data_watches.pop(path, {}) | self._child_watches.pop(path, {})
            self._tell(WatchKind.NODE_DELETED, path, watchers)
        parent = parent_of(path)
        watchers = self._child_watches.pop(parent, {})
        self._tell(WatchKind.NODE_CHILDREN_CHANGED, parent, watchers)

    def _tell(self, kind: WatchKind, path: str, watchers: Iterable[int]) -> None:
        for session_id in watchers:
            session = self._sessions.get(session_id)
            if session is not None:
                session.on_watch(WatchFired(kind, path))

    def _session(self, session_id: int) -> _Session:
        session = self._sessions.get(session_id)
        if session is None:
            raise RefusedError(ZkCode.SESSION_EXPIRED)
        return session


class _Transaction:
    """Applies operations to the tree one by one and can undo all of them."""

    def __init__(
        self, nodes: dict[str, _Node], sessions: dict[int, _Session], zxid: int, now_ms: int
    ) -> None:
        self._nodes = nodes
        self._sessions = sessions
        self._zxid = zxid
        self._now_ms = now_ms
        self._undo: list[Callable[[], None]] = []
        self.changes: list[ZnodeChange] = []

    def roll_back(self) -> None:
        for undo in reversed(self._undo):
            undo()

    def apply(self, session_id: int, operation: Write | Check) -> Written:
        match operation:
            case Create():
                return self._create(session_id, operation)
            case SetData():
                return self._set_data(operation)
            case Delete():
                return self._delete(operation)
            case Check():
                self._at_version(operation.path, operation.zk_version)
                return Written(operation.path, operation.zk_version, -1)

    def _create(self, session_id: int, operation: Create) -> Written:
        parent_path = parent_of(operation.path)
        parent = self._existing(parent_path)
        path = operation.path
        if operation.sequential:
            path = f"{path}{parent.creates:010d}"
        if path in self._nodes:
            raise RefusedError(ZkCode.NODE_EXISTS)
        if parent.owner != NO_OWNER:
            raise RefusedError(ZkCode.NO_CHILDREN_FOR_EPHEMERALS)
        owner = session_id if operation.ephemeral else NO_OWNER
        zxid, now_ms = self._zxid, self._now_ms
        node = _Node(operation.data, zxid, zxid, now_ms, now_ms, zxid, owner)
        self._link(path, node, parent)
        parent.creates += 1
        self._undo.append(lambda: _uncount(parent))
        self.changes.append(ZnodeChange(path, None, node.znode()))
        return Written(path, 0, -1)

    def _set_data(self, operation: SetData) -> Written:
        node = self._at_version(operation.path, operation.zk_version)
        before = node.znode()
        old = (node.data, node.version, node.mzxid, node.mtime_ms)
        self._undo.append(lambda: _restore(node, old))
        node.data, node.mzxid, node.mtime_ms = operation.data, self._zxid, self._now_ms
        node.version += 1
        self.changes.append(ZnodeChange(operation.path, before, node.znode()))
        return Written(operation.path, node.version, node.czxid)

    def _delete(self, operation: Delete) -> Written:
        if operation.path == "/":
            raise RefusedError(ZkCode.BAD_ARGUMENTS)
        node = self._at_version(operation.path, operation.zk_version)
        if node.children:
            raise RefusedError(ZkCode.NOT_EMPTY)
        self._unlink(operation.path, node, self._existing(parent_of(operation.path)))
        self.changes.append(ZnodeChange(operation.path, node.znode(), None))
        return Written(operation.path, -1, -1)  # the reply to a delete carries nothing

    def _existing(self, path: str) -> _Node:
        node = self._nodes.get(path)
        if node is None:
            raise RefusedError(ZkCode.NO_NODE)
        return node

    def _at_version(self, path: str, zk_version: int) -> _Node:
        node = self._existing(path)
        if zk_version not in (ANY_VERSION, node.version):
            raise RefusedError(ZkCode.BAD_VERSION)
        return node

    def _link(self, path: str, node: _Node, parent: _Node) -> None:
        old_pzxid = parent.pzxid
        self._undo.append(lambda: self._take_out(path, node, parent, old_pzxid))
        self._put_in(path, node, parent, self._zxid)

    def _unlink(self, path: str, node: _Node, parent: _Node) -> None:
        old_pzxid = parent.pzxid
        self._undo.append(lambda: self._put_in(path, node, parent, old_pzxid))
        self._take_out(path, node, parent, self._zxid)

    def _put_in(self, path: str, node: _Node, parent: _Node, pzxid: int) -> None:
        self._nodes[path] = node
        parent.children[name_of(path)] = None
        parent.pzxid = pzxid
        if node.owner in self._sessions:
            self._sessions[node.owner].ephemerals[path] = None

    def _take_out(self, path: str, node: _Node, parent: _Node, pzxid: int) -> None:
        del self._nodes[path]
        del parent.children[name_of(path)]
        parent.pzxid = pzxid
        if node.owner in self._sessions:
            self._sessions[node.owner].ephemerals.pop(path, None)


def parent_of(path: str) -> str:
    """The parent's path: ``/a`` for ``/a/b``, ``/`` for ``/a``."""
    return path.rpartition("/")[0] or "/"


def name_of(path: str) -> str:
    """The last name of a path: ``b`` for ``/a/b``."""
    return path.rpartition("/")[2]


def _uncount(parent: _Node) -> None:
    parent.creates -= 1


def _restore(node: _Node, old: tuple[bytes | None, int, int, int]) -> None:
    node.data, node.version, node.mzxid, node.mtime_ms = old
