"""The current ZooKeeper session, its requests in flight, and its end.

Each session of a client has a number, its *generation*.  A request has the generation of the
session in which its call began.  The connection drops requests of an earlier generation instead of
sending them, so a request that begins in one session is never done in the next.  A call that waits
for a reply fails at once when its session ends.

Source: Kafka 3.9 ``ZooKeeperClient`` (``connectionState``, ``StateChangeHandler``).
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Final, TypeVar

from kafka_common.errors import AuthenticationFailed, SessionExpired
from zkcontroller.zookeeper.connect_string import ConnectString
from zkcontroller.zookeeper.connection import PendingRequest, ZooKeeperConnection
from zkcontroller.zookeeper.plans import NOT_TAKEN, Ask
from zkcontroller.zookeeper.requests import WatchFired, WatchKind
from zkcontroller.zookeeper.watch_table import WatchTable

T = TypeVar("T")

CLOSE_TIMEOUT_S: Final = 3.0
REQUEST_OVERHEAD_BYTES: Final = 1_024
"""Bytes that headers add to the operations of a bulk request, which plans do not count."""

_log = logging.getLogger("kafka.zookeeper.ZooKeeperClient")


class SessionState(Enum):
    """The state of the session; :data:`OnState` is called for every change."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"  # no connection; the session may still be resumed
    EXPIRED = "expired"  # ephemerals and watches are gone; a new session follows by itself
    AUTH_FAILED = "auth_failed"  # for good
    CLOSED = "closed"  # for good


class SessionLife:
    """The sessions of one client, one after the other.

    The connection's thread calls the three callbacks, never while it holds a lock.
    """

    def __init__(
        self,
        where: ConnectString,
        *,
        name: str,
        session_timeout_ms: int,
        auth: tuple[tuple[str, str], ...],
        tls: ssl.SSLContext | None,
        max_in_flight_requests: int,
        max_request_bytes: int,
        on_watch: Callable[[WatchFired], object],
        on_state: Callable[[SessionState], object],
        on_latency_ms: Callable[[float], object],
    ) -> None:
        self._relative = where.relative
        self._prefix = f"[ZooKeeperClient {name}] "
        self._on_watch = on_watch
        self._on_state = on_state
        self._on_latency_ms = on_latency_ms
        self._max_request_bytes = max_request_bytes + REQUEST_OVERHEAD_BYTES
        self._permits = threading.BoundedSemaphore(max_in_flight_requests)
        self._changed = threading.Condition()
        # The lock of self._changed protects the following attributes.
        self._session_id = 0
        self._past_session_ids: tuple[int, ...] = ()
        self._generation = 0
        self._watches = WatchTable()
        self._under_way: set[PendingRequest] = set()
        self._over: SessionState | None = None
        self._state_counts: Counter[SessionState] = Counter()
        self.connection = ZooKeeperConnection(
            self, where.hosts, session_timeout_ms=session_timeout_ms, auth=auth, tls=tls
        )

    @property
    def session_id(self) -> int:
        """The id of the current session, connected or not; 0 when there is none."""
        return self._session_id

    @property
    def past_session_ids(self) -> tuple[int, ...]:
        """The ids of the expired sessions."""
        return self._past_session_ids

    @property
    def state_counts(self) -> Mapping[SessionState, int]:
        """How often each state was entered."""
        with self._changed:
            return dict(self._state_counts)

    def begin(self, timeout_s: float) -> bool:
        """Starts connecting; False if it has neither succeeded nor failed after the timeout."""
        self.connection.start_async()
        self.info("Waiting until connected.")
        with self._changed:
            decided = self._changed.wait_for(lambda: self._session_id or self._over, timeout_s)
        return bool(decided)

    def end(self) -> None:
        """Closes the session; if the server does not reply, the session ends with its timeout."""
        self.info("Closing.")
        self.connection.stop_within(CLOSE_TIMEOUT_S, has_session=self.session_id != 0)
        self.closed()
        self.info("Closed.")

    def pin(self, session_id: int | None) -> PinnedSession:
        """The current session, after waiting for one if there is none.

        Raises SessionExpired if its id is not ``session_id`` (None: any session).
        """
        assert not self.connection.is_own_thread(), "on_watch and on_state must not ask"
        with self._changed:
            while True:
                self._raise_if_over()
                if session_id is not None and session_id != self._session_id:
                    raise SessionExpired(f"the ZooKeeper session 0x{session_id:x} is over")
                if self._session_id:
                    return PinnedSession(self, self._generation, self._watches)
                self._changed.wait()

    def _raise_if_over(self) -> None:
        if self._over is SessionState.AUTH_FAILED:
            raise AuthenticationFailed("ZooKeeper refused the credentials")
        if self._over is SessionState.CLOSED:
            raise SessionExpired("the ZooKeeper session was closed")

    def send(self, ask: Ask, generation: int, watches: WatchTable) -> PendingRequest:
        """Sends a plan's request, after waiting for one of ``max_in_flight_requests`` permits.

        A request that is too large for ZooKeeper is not sent: its reply is MARSHALLING_ERROR.
        """
        self._permits.acquire()
        pending = PendingRequest(ask, generation, watches, self._done)
        if len(ask.body) > self._max_request_bytes:
            _log.error(
                "%sA request (%s) of %d bytes is not sent: %d are allowed, for ZooKeeper's"
                " jute.maxbuffer",
                self._prefix,
                ask.opcode.name,
                len(ask.body),
                self._max_request_bytes,
            )
            pending.complete(NOT_TAKEN)
            return pending
        with self._changed:
            is_current = generation == self._generation
            if is_current:
                self._under_way.add(pending)
        if is_current:
            self.connection.send(pending)
        else:
            pending.fail(SessionExpired("the ZooKeeper session in which the call began is over"))
        return pending

    def _done(self, pending: PendingRequest, elapsed_ms: float | None) -> None:
        with self._changed:
            self._under_way.discard(pending)
        self._permits.release()
        if elapsed_ms is not None:
            self._tell(self._on_latency_ms, elapsed_ms)

    # Called by the connection, in its thread

    @property
    def generation(self) -> int:
        """The number of the current session."""
        return self._generation

    @property
    def watches(self) -> WatchTable:
        """The watches of the current session."""
        return self._watches

    def connected(self, session_id: int) -> None:
        """A session was opened or resumed."""
        with self._changed:
            if self._over is not None:
                return
            self._session_id = session_id
        self._enter(SessionState.CONNECTED)

    def suspended(self) -> None:
        """The connection is lost; the session may be resumed."""
        self._enter(SessionState.SUSPENDED)

    def expired(self) -> None:
        """The session has expired; the next one will follow."""
        self.info("Session expired.")
        with self._changed:
            if self._session_id:
                self._past_session_ids += (self._session_id,)
            stranded = self._end_session()
        self._strand(stranded, SessionExpired("the ZooKeeper session expired"))
        self._enter(SessionState.EXPIRED)

    def login_refused(self) -> None:
        """The credentials were refused after earlier ones were not; another connection follows.

        Kafka ends the session at once and opens a new one every second; here it goes on if another
        server, or this one, accepts them before it expires.
        """
        self._log_refusal(is_first=False)
        self.info("Reinitializing due to auth failure.")

    def _log_refusal(self, *, is_first: bool) -> None:
        _log.error(
            "%sAuth failed, initialized=%s connectionState=AUTH_FAILED",
            self._prefix,
            "false" if is_first else "true",
        )

    def authentication_failed(self) -> None:
        """The credentials were refused; no further connection is tried."""
        self._log_refusal(is_first=not self._session_id)
        self._finish(SessionState.AUTH_FAILED, AuthenticationFailed)

    def closed(self) -> None:
        """The session was closed; no other one follows."""
        self._finish(SessionState.CLOSED, SessionExpired)

    def fired(self, kind: int, path: str) -> None:
        """A notification arrived; it is dropped as a repetition if the table has no entry."""
        watch_kind = WatchKind(kind)
        if not self._watches.fired(watch_kind, path):
            return
        self._tell(self._on_watch, WatchFired(watch_kind, self._relative(path)))

    def _finish(
        self, state: SessionState, error: type[SessionExpired | AuthenticationFailed]
    ) -> None:
        with self._changed:
            if self._over is not None:
                return
            self._over = state
            stranded = self._end_session()
        self._strand(stranded, error("the ZooKeeper session is over"))
        self._enter(state)

    def _end_session(self) -> list[PendingRequest]:
        self._session_id = 0
        self._generation += 1
        self._watches = WatchTable()
        return list(self._under_way)

    def _strand(self, pending: Iterable[PendingRequest], error: Exception) -> None:
        # kazoo may lose requests that are queued while the session expires.
        for each in pending:
            each.fail(error)

    def _enter(self, state: SessionState) -> None:
        with self._changed:
            self._state_counts[state] += 1
            self._changed.notify_all()
        self._tell(self._on_state, state)

    def _tell(self, callback: Callable[[T], object], value: T) -> None:
        try:
            callback(value)
        except Exception:  # noqa: BLE001 - a bug in the callback must not end the connection
            _log.exception("%sUncaught error in handler of %s", self._prefix, value)

    def info(self, message: str) -> None:
        """Logs as Kafka's client does."""
        _log.info("%s%s", self._prefix, message)


class PinnedSession:
    """The session in which a call began; the call's requests are sent in no other session."""

    def __init__(self, life: SessionLife, generation: int, watches: WatchTable) -> None:
        self._life = life
        self._generation = generation
        self.watches = watches

    def ask(self, ask: Ask) -> PendingRequest:
        """Sends a request."""
        return self._life.send(ask, self._generation, self.watches)
