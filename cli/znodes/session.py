"""ZooKeeper as the verbs use it: bulk reads below the chroot, in one short session.

The session does not know the chroot: it is put in front of each path.  So reading never creates a
chroot, and a mistyped one is an error, not a new empty cluster.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from ssl import SSLContext
from typing import Final, ParamSpec, TypeVar

from kafka_common.errors import ConfigInvalid, SessionExpired, ZnodeCorrupt
from zkcontroller.zookeeper.connect_string import ConnectString, parse_connect, parse_credentials
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Committed,
    ListChildren,
    ReadZnodes,
    RolledBack,
    Stat,
    WatchFired,
    ZkCode,
    ZkTransaction,
    Znode,
)
from zkcontroller.zookeeper.results import required
from zkcontroller.zookeeper.session import SessionState, ZooKeeperConfig, ZooKeeperSession
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import ZOOKEEPER_AUTH, BadUsage, CannotConnect, Refused
from zkcontroller_cli.console.options import Origin, Settings, say

T = TypeVar("T")
P = ParamSpec("P")

_CONNECTION_TIMEOUT_S: Final = 10.0
_PROBE_S: Final = 1.0
_SESSION_TIMEOUT_MS: Final = 10_000


def ignore(_fired: WatchFired) -> None:
    """Do nothing: the default callback for a session without watches."""


class ZooKeeper:
    """One session; every path is relative to the chroot.  Raises what the session raises."""

    def __init__(self, session: ZooKeeperSession, where: ConnectString) -> None:
        self._session = session
        self._where = where
        self.is_lost = False
        """True after the connection was lost for so long that the session was closed."""

    def read(self, paths: Sequence[str], *, watch: bool = False) -> list[Znode | ZkCode]:
        """The data of every path; NO_NODE where there is no znode."""
        return self._session.perform(ReadZnodes(self._full(paths), watch))

    def children(self, paths: Sequence[str]) -> list[list[str] | ZkCode]:
        """The names of the children of every path, sorted."""
        results = self._session.perform(ListChildren(self._full(paths)))
        return [result if isinstance(result, ZkCode) else sorted(result) for result in results]

    def stats(self, paths: Sequence[str], *, watch: bool = False) -> list[Stat | ZkCode]:
        """The stat of every path; ``watch`` also sets watches where no znode exists."""
        return self._session.perform(CheckExists(self._full(paths), watch))

    def transaction(self, request: ZkTransaction) -> Committed | RolledBack:
        """Carry out all operations, or none."""
        operations = [op._replace(path=self.full(op.path)) for op in request.operations]
        return self._session.perform(ZkTransaction(operations))

    def create_missing(self, paths: Sequence[str]) -> None:
        """Create the paths and parents that do not exist; ZooKeeperRefused if that fails."""
        self._session.create_missing(self._full(paths))

    @property
    def servers(self) -> Sequence[tuple[str, int]]:
        """Every server of the connect string."""
        return self._where.servers

    def full(self, path: str) -> str:
        """The path with the chroot, as the server knows it."""
        return self._where.absolute(path)

    def _full(self, paths: Sequence[str]) -> Sequence[str]:
        return [self.full(path) for path in paths] if self._where.chroot else paths


@contextmanager
def open_zookeeper(
    settings: Settings,
    on_watch: Callable[[WatchFired], None] = ignore,
    *,
    connect: str | None = None,
    tls: SSLContext | None = None,
    is_new: bool = False,
    is_for_creating: bool = False,
) -> Iterator[ZooKeeper]:
    """A session with the ZooKeeper of the settings; ZooKeeperUnavailable if it does not answer.

    ``connect`` and ``tls`` replace those of the settings, for a broker's own file.  ``is_new``: the
    cluster is being started, so ZooKeeper may not run yet and the chroot may be missing.  Otherwise
    a missing chroot is Refused, and it is CannotConnect at once if all servers refuse connections.
    ``is_for_creating``: created znodes get the ACLs that a broker would set; the chroot must exist.

    If the connection is lost for longer than connecting may take, the session is closed and the
    verb ends with CannotConnect.
    """
    text = connect or settings.zookeeper()
    where = parse_connect(text)
    if not settings.debug:
        quiet("kafka.zookeeper", "org.apache.zookeeper")
    timeout_s = min(_CONNECTION_TIMEOUT_S, settings.deadline_s)
    tls = settings.zookeeper_tls if connect is None else tls
    credentials = _credentials()
    if not is_new and (reason := refused_by_all(where.servers, timeout_s)):
        raise CannotConnect(
            f"no ZooKeeper at {where.hosts}: {reason}{_stopped_hint(settings, connect)}"
        )
    # The ACL of a created znode depends on its path below the chroot, so the session then needs
    # the chroot.
    below = where.chroot if is_for_creating else ""
    session = ZooKeeperSession(
        ZooKeeperConfig(
            connect=where.hosts + below,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            connection_timeout_ms=round(timeout_s * 1000),
            auth=credentials,
            tls=tls,
            set_acl=is_for_creating and (bool(credentials) or settings.shows_zookeeper_certificate),
            name="zkctl",
        ),
        on_watch=on_watch,
        on_state=(watchdog := _Watchdog(timeout_s)).on_state,
    )
    session.start()
    zookeeper = ZooKeeper(session, where._replace(chroot="") if is_for_creating else where)

    def give_up() -> None:
        zookeeper.is_lost = True
        session.close()

    watchdog.on_lost = give_up
    try:
        is_checked = bool(where.chroot) and not is_new and not is_for_creating
        if is_checked and isinstance(zookeeper.stats(["/"])[0], ZkCode):
            raise Refused(f"{where.hosts} has no {where.chroot}: is the chroot in {text} right?")
        yield zookeeper
    except SessionExpired as error:
        raise CannotConnect(
            f"lost the connection to ZooKeeper at {where.hosts}; call it again when it answers"
        ) from error
    finally:
        watchdog.disarm()
        session.close()


@contextmanager
def open_broker_session(settings: Settings, *, set_acl: bool | None) -> Iterator[ZooKeeperSession]:
    """A session as a broker opens it, for code of brokers; its paths are below the chroot.

    It creates a missing chroot, so the caller first uses :func:`open_zookeeper`, which refuses one.
    ``set_acl`` is the brokers' ``zookeeper.set.acl``; None: true if there are credentials.
    """
    connect = settings.zookeeper()
    credentials = _credentials()
    session = ZooKeeperSession(
        ZooKeeperConfig(
            connect=connect,
            session_timeout_ms=_SESSION_TIMEOUT_MS,
            connection_timeout_ms=round(min(_CONNECTION_TIMEOUT_S, settings.deadline_s) * 1000),
            set_acl=bool(credentials) if set_acl is None else set_acl,
            auth=credentials,
            tls=settings.zookeeper_tls,
            name="zkctl",
        )
    )
    session.start()
    try:
        yield session
    except SessionExpired as error:
        raise CannotConnect(f"lost the connection to ZooKeeper at {connect}") from error
    finally:
        session.close()


def refused_by_all(servers: Sequence[tuple[str, int]], timeout_s: float) -> str | None:
    """Why no server can be reached, if all refuse a connection at once; None if one may answer.

    Without this check a session would retry until its timeout, too long for a mistyped port.
    """
    reasons = []
    for server in servers:
        try:
            with socket.create_connection(server, timeout=min(_PROBE_S, timeout_s)):
                return None
        except (ConnectionRefusedError, socket.gaierror) as error:
            reasons.append(error.strerror or str(error))
        except OSError:
            return None  # no answer yet: the session may still connect
    return "; ".join(dict.fromkeys(reasons))


def _stopped_hint(settings: Settings, connect: str | None) -> str:
    named = settings.find_zookeeper()
    if connect is not None or named is None or named.origin is not Origin.CLUSTER_FILE:
        return ""
    start = command_line("cluster start", options=("--dir", settings.directory))
    return f"; the cluster in {settings.directory} does not run: {start} starts it"


class _Watchdog:
    """Calls ``on_lost`` when the connection has been lost for ``patience_s`` seconds."""

    def __init__(self, patience_s: float) -> None:
        self.on_lost: Callable[[], None] = lambda: None
        self._patience_s = patience_s
        self._timer: threading.Timer | None = None

    def on_state(self, state: SessionState) -> None:
        """Start or stop the timer after a change of the connection; called by kazoo's thread."""
        self.disarm()
        if state is SessionState.SUSPENDED:
            self._timer = threading.Timer(self._patience_s, lambda: self.on_lost())
            self._timer.daemon = True
            self._timer.start()

    def disarm(self) -> None:
        """Stop the timer, as the connection is back or the verb has ended."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def existing(path: str, result: T | ZkCode) -> T:
    """The result, if it is no error; Refused if the znode is missing, else ZooKeeperRefused."""
    if result is ZkCode.NO_NODE:
        parent = path.rpartition("/")[0] or "/"
        look = command_line("znode ls", parent)
        raise Refused(f"there is no znode {path}; {look} shows what is there")
    return required(path, result)


def _warn_on_stderr(text: str) -> None:
    say(f"warning: {text}")


_warn: ContextVar[Callable[[str], None]] = ContextVar("_warn", default=_warn_on_stderr)


@contextmanager
def warnings_to(take: Callable[[str], None]) -> Iterator[None]:
    """In a ``with`` block, pass the warnings of :func:`decoded` to ``take`` instead of stderr."""
    token = _warn.set(take)
    try:
        yield
    finally:
        _warn.reset(token)


def decoded(decode: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> T | None:
    """The decoded znode; None, after a warning, if the znode is corrupt."""
    try:
        return decode(*arguments, **keywords)
    except ZnodeCorrupt as error:
        _warn.get()(str(error))
        return None


def quiet(*loggers: str) -> None:
    """Keep the logs of libraries off stderr."""
    for logger in map(logging.getLogger, loggers):
        logger.addHandler(logging.NullHandler())
        logger.propagate = False


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def _credentials() -> tuple[tuple[str, str], ...]:
    try:
        return parse_credentials(ZOOKEEPER_AUTH, os.environ.get(ZOOKEEPER_AUTH, ""))
    except ConfigInvalid as invalid:
        raise BadUsage(str(invalid)) from invalid
