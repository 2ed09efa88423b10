"""A ZooKeeper session: bulk requests, reliable watches, ordered session events.

Requests become plans (:mod:`~zkcontroller.zookeeper.read_plan`,
:mod:`~zkcontroller.zookeeper.write_plan`), whose packets this module sends over a
:class:`~zkcontroller.zookeeper.connection.ZooKeeperConnection`.

Threads: any thread except kazoo's own may call :meth:`ZooKeeperSession.perform`, which blocks.
kazoo's connection thread calls ``on_watch`` and ``on_state``; they must only pass the value on.
These calls keep the server's order: a watch fires before any reply that shows the change.

A request that begins in one session is never sent in the next
(:mod:`~zkcontroller.zookeeper.session_life`).

Source: Kafka 3.9 ``ZooKeeperClient``, ``KafkaZkClient``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from typing_extensions import override

from kafka_common.errors import (
    AuthenticationFailed,
    ZooKeeperRefused,
    ZooKeeperUnavailable,
)
from zkcontroller.zookeeper.acls import encoded_acls_for
from zkcontroller.zookeeper.connect_string import parse_connect
from zkcontroller.zookeeper.connection import SASL_SCHEME
from zkcontroller.zookeeper.plans import RequestPlan, run
from zkcontroller.zookeeper.questions import Questions
from zkcontroller.zookeeper.read_plan import ReadPlan
from zkcontroller.zookeeper.requests import (
    ANY_VERSION,
    Check,
    CheckExists,
    Create,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    UnfencedBatch,
    WatchFired,
    Write,
    ZkCode,
    ZkRequest,
    ZkTransaction,
)
from zkcontroller.zookeeper.session_life import PinnedSession, SessionLife, SessionState
from zkcontroller.zookeeper.write_plan import Encoder, TransactionPlan, WritePlan
from zkcontroller.zookeeper.znodes import ControllerEpochZnode

__all__ = ["SessionState", "ZooKeeperConfig", "ZooKeeperSession", "ignore"]


@dataclass(frozen=True, slots=True)
class ZooKeeperConfig:
    """Servers, timeouts and credentials of ZooKeeper.

    ``connect`` is ``host:port,host:port/chroot``.  ``connection_timeout_ms`` bounds
    :meth:`ZooKeeperSession.start`; None means the session timeout.  ``auth`` are pairs of scheme
    and credential, ``("digest", "user:password")``, or ``("sasl", "user:password")`` for a login by
    DIGEST-MD5.  ``tls``: the context for servers with TLS; None: no TLS.  ``max_buffer_bytes``: the
    approximate limit of replies to bulk reads.  ``server_max_buffer_bytes``: the limit of requests;
    the server drops the connection of a client that sends more than its ``jute.maxbuffer``
    (1,048,575 by default).
    """

    connect: str
    session_timeout_ms: int = 18_000
    connection_timeout_ms: int | None = None
    max_in_flight_requests: int = 10
    set_acl: bool = False
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)  # a log may show the rest
    tls: ssl.SSLContext | None = None
    max_buffer_bytes: int = 4 * 1024 * 1024
    server_max_buffer_bytes: int = 1_000_000
    name: str = "Kafka server"  # in log lines


OnWatch: TypeAlias = Callable[[WatchFired], None]
OnState: TypeAlias = Callable[[SessionState], None]


def ignore(_: object) -> None:
    """A callback that does nothing."""


class ZooKeeperSession(Questions):
    """A ZooKeeper session that outlives its connections, followed by the next when it expires.

    ``on_watch`` is called once for every fired watch, ``on_state`` for every change of state, both
    in kazoo's thread; they must not block or use the session.  EXPIRED comes before any caller can
    use the new session, CONNECTED when the new session is open.  ``on_latency_ms`` gets the
    milliseconds of each request.
    """

    def __init__(
        self,
        config: ZooKeeperConfig,
        *,
        on_watch: OnWatch = ignore,
        on_state: OnState = ignore,
        on_latency_ms: Callable[[float], None] = ignore,
    ) -> None:
        self._config = config
        self._where = parse_connect(config.connect)
        self._encoder = Encoder(self._where.absolute, self._where.relative, self._acl)
        self._multi_read = True
        self._life = SessionLife(
            self._where,
            name=config.name,
            session_timeout_ms=config.session_timeout_ms,
            auth=config.auth,
            tls=config.tls,
            max_in_flight_requests=config.max_in_flight_requests,
            max_request_bytes=config.server_max_buffer_bytes,
            on_watch=on_watch,
            on_state=on_state,
            on_latency_ms=on_latency_ms,
        )

    @property
    def logs_in_by_sasl(self) -> bool:
        """Whether every connection begins with a login by SASL."""
        return any(scheme == SASL_SCHEME for scheme, _ in self._config.auth)

    # Life

    def start(self) -> None:
        """Connects, and creates the chroot if it is missing.

        Raises:
            ZooKeeperUnavailable: no connection within ``connection_timeout_ms``.
            AuthenticationFailed: the server refuses the credentials.
        """
        config = self._config
        timeout_ms = config.connection_timeout_ms or config.session_timeout_ms
        self._life.info(f"Initializing a new session to {config.connect}.")
        if not self._life.begin(timeout_ms / 1000):
            reason = self._life.connection.last_error
            self.close()
            raise ZooKeeperUnavailable(
                f"no connection to ZooKeeper at {config.connect} within {timeout_ms} ms"
                + (f": {reason}" if reason else "")
            )
        try:
            # The server checks credentials after it has opened the session; only a reply to a
            # request shows that it accepted them.
            self._create_chroot()
        except (AuthenticationFailed, ZooKeeperRefused):
            self.close()
            raise
        self._life.info("Connected.")

    def close(self) -> None:
        """Ends the session and its ephemeral znodes; waiting calls raise SessionExpired.

        If the server does not reply, the session ends with its timeout.
        """
        self._life.end()

    @property
    def session_id(self) -> int:
        """The id of the current session, connected or not; 0 when there is none."""
        return self._life.session_id

    @property
    def past_session_ids(self) -> tuple[int, ...]:
        """Ids of this object's earlier sessions, all of which have expired."""
        return self._life.past_session_ids

    @property
    def state_counts(self) -> Mapping[SessionState, int]:
        """How often each state was entered."""
        return self._life.state_counts

    # Questions

    @override
    def _result_of(self, request: ZkRequest, session_id: int | None) -> object:
        pinned = self._life.pin(session_id)
        match request:
            case ReadZnodes() | ListChildren() | CheckExists():
                reads = self._read_plan(request, pinned, self._encoder)
                self._run(pinned, reads)
                self._multi_read &= reads.multi_read
                return reads.results
            case FencedBatch(operations, zk_version):
                writes = self._write_plan(operations, self._encoder, self._fence(zk_version))
                self._run(pinned, writes)
                return writes.results
            case UnfencedBatch(operations):
                writes = self._write_plan(operations, self._encoder, None)
                self._run(pinned, writes)
                return writes.results
            case ZkTransaction():
                transaction = TransactionPlan(
                    request,
                    self._encoder,
                    max_request_bytes=self._config.server_max_buffer_bytes,
                )
                self._run(pinned, transaction)
                return transaction.result

    def create_missing(self, paths: Iterable[str]) -> None:
        """Creates missing paths and their missing parents as persistent znodes with null data.

        Raises:
            ZooKeeperRefused: one of them cannot be created.
        """
        self._create_missing(paths, self._encoder)

    # Inside

    def _create_chroot(self) -> None:
        """Creates each level of the chroot.

        Kafka needs a second client for this, because all paths of its client are below the chroot.
        Without a chroot one read of ``/`` remains, whose reply shows that the server accepted the
        credentials.
        """
        self._create_missing((self._where.chroot or "/",), Encoder(_same, _same, self._acl))

    def _create_missing(self, paths: Iterable[str], encoder: Encoder) -> None:
        pinned = self._life.pin(None)
        wanted = list(dict.fromkeys(each for path in paths for each in _lineage(path)))
        reads = self._read_plan(CheckExists(wanted), pinned, encoder)
        self._run(pinned, reads)
        missing = [
            path for path, stat in zip(wanted, reads.results, strict=True) if stat == ZkCode.NO_NODE
        ]
        writes = self._write_plan([Create(path) for path in missing], encoder, None)
        self._run(pinned, writes)
        for path, result in zip(missing, writes.results, strict=True):
            if isinstance(result, ZkCode) and result is not ZkCode.NODE_EXISTS:
                raise ZooKeeperRefused(path, result.name)

    def _read_plan(
        self,
        request: ReadZnodes | ListChildren | CheckExists,
        pinned: PinnedSession,
        encoder: Encoder,
    ) -> ReadPlan:
        return ReadPlan(
            request,
            encoder.absolute,
            pinned.watches,
            multi_read=self._multi_read,
            max_request_bytes=self._config.server_max_buffer_bytes,
            max_reply_bytes=self._config.max_buffer_bytes,
        )

    def _write_plan(
        self, operations: Sequence[Write], encoder: Encoder, fence: Check | None
    ) -> WritePlan:
        max_bytes = self._config.server_max_buffer_bytes
        return WritePlan(operations, encoder, fence=fence, max_request_bytes=max_bytes)

    def _fence(self, zk_version: int) -> Check | None:
        assert zk_version >= ANY_VERSION, f"no such version: {zk_version}"
        if zk_version == ANY_VERSION:
            return None
        return Check(ControllerEpochZnode.PATH, zk_version)

    def _acl(self, path: str) -> bytes:
        return encoded_acls_for(path, set_acl=self._config.set_acl)

    def _run(self, pinned: PinnedSession, plan: RequestPlan) -> None:
        run(pinned, plan, self._config.max_in_flight_requests)


def _same(path: str) -> str:
    return path


def _lineage(path: str) -> list[str]:
    """``/a/b`` as ``/a`` and ``/a/b``: the path and its parents, parents first."""
    names = path.strip("/").split("/")
    return ["/" + "/".join(names[: depth + 1]) for depth in range(len(names))]
