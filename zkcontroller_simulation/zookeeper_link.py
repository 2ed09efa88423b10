"""A process's connection to ZooKeeper, whose requests, replies and watches may be late or lost.

A request travels to the server, which performs it, and the reply travels back.  A broken connection
loses all requests and replies that are on their way.  The server may have performed a request whose
reply is lost.  The client repeats it on the next connection, as Kafka's client does.  Watches
belong to the connection; the client remembers its watches and sets them again (``SetWatches``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka_common.errors import SessionExpired, ZkControllerError
from zkcontroller.zookeeper.requests import (
    CheckExists,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    Stat,
    UnfencedBatch,
    WatchFired,
    WatchKind,
    ZkCode,
    ZkRequest,
    ZkTransaction,
)
from zkcontroller_simulation.refusals import Refusal, perform_in_part
from zkcontroller_simulation.timeline import Lane, Timeline
from zkcontroller_simulation.weather import Weather
from zkcontroller_simulation.zookeeper import SimulatedSession
from zkcontroller_simulation.zookeeper_server import SimulatedZooKeeper, Watch, WatchOn

Answered = Callable[[Any], None]
Failed = Callable[[ZkControllerError], None]


@dataclass(slots=True)
class _Exchange:
    """A question in flight; its ``parts`` are sent one after the other."""

    session_id: int
    parts: Sequence[ZkRequest]
    answered: Answered
    failed: Failed
    answers: list[Any] = field(default_factory=list)
    may_be_refused: bool = False
    """Whether ZooKeeper may refuse it (:mod:`zkcontroller_simulation.refusals`)."""
    is_whole: bool = False
    """Whether the result is that of the only part (a transaction), not a list of results."""


class ZooKeeperLink:
    """The ZooKeeper client of one process.

    ``run`` runs an action inside the process: after a pause, and never if the process is dead.
    """

    def __init__(
        self,
        server: SimulatedZooKeeper,
        timeline: Timeline,
        *,
        session_timeout_ms: int,
        weather: Callable[[], Weather],
        run: Callable[[Callable[[], None]], None],
        on_fired: Callable[[WatchFired], None],
        on_watch: Callable[[WatchFired], None],
        on_expired: Callable[[], None],
        on_new_session: Callable[[], None],
        refusal: Refusal,
        name: str,
    ) -> None:
        self._server = server
        self._timeline = timeline
        self._weather = weather
        self._run = run
        self._on_fired = on_fired
        self._on_watch = on_watch
        self._on_expired = on_expired
        self._on_new_session = on_new_session
        self._refusal = refusal
        self._name = name
        self.session = SimulatedSession(
            server, session_timeout_ms=session_timeout_ms, on_watch=self._fired
        )
        self.is_connected = False
        self.is_cut_off = False
        """Whether every new connection fails."""
        self._connection = 0  # number of the connection; messages of an older one are lost
        self._to_server = Lane(timeline)
        self._to_client = Lane(timeline)
        self._replying = -1
        """Number of the connection that has a reply in flight; -1: none."""
        self._seen_zxid = 0
        self._armed: dict[Watch, None] = {}
        self._exchange: _Exchange | None = None

    @property
    def session_id(self) -> int:
        """The id of the current session; 0 while there is none."""
        return self.session.session_id

    @property
    def is_reply_under_way(self) -> bool:
        """Whether ZooKeeper performed the question and its reply has not arrived."""
        return self._replying == self._connection

    # What the process does

    def open(self) -> None:
        """Opens the first session."""
        self.session.start()
        self.is_connected = True

    def ask(
        self,
        request: ZkRequest,
        session_id: int,
        answered: Answered,
        failed: Failed,
        *,
        may_be_refused: bool = False,
    ) -> None:
        """Sends a question of a procedure that began in session ``session_id``."""
        assert self._exchange is None, "one question at a time"
        parts = self._split(request)
        whole = isinstance(request, ZkTransaction)
        self._exchange = _Exchange(
            session_id, parts, answered, failed, may_be_refused=may_be_refused, is_whole=whole
        )
        self._send()

    def close(self) -> None:
        """Closes the session as a clean shutdown does."""
        self.break_connection()
        self.session.close()
        self._exchange = None

    # What the world does to it

    def break_connection(self) -> None:
        """Breaks the connection; messages in flight in both directions are lost."""
        self._connection += 1
        if self.is_connected and self._server.is_alive(self.session_id):
            self._server.drop_watches(self.session_id)
        self.is_connected = False

    def reconnect_later(self) -> None:
        """Tries a new connection after a delay, until one succeeds."""
        delay_ms = self._timeline.within(self._weather().reconnect_ms)
        self._timeline.after(delay_ms, lambda: self._run(self._reconnect))

    def closed_by_server(self) -> None:
        """The server closed the connection; the client notices it after all earlier messages."""
        connection = self._connection
        self._to_client.send(
            self._timeline.within(self._weather().zookeeper_delay_ms),
            lambda: self._run(lambda: self._connection_closed(connection)),
        )

    # Connections and sessions

    def _connection_closed(self, connection: int) -> None:
        if connection == self._connection:
            self.break_connection()
            self.reconnect_later()

    def _reconnect(self) -> None:
        if self.is_connected:
            return
        if self.is_cut_off:
            self.reconnect_later()
        elif self.session_id == 0:
            self._open_new_session()
        elif self._server.is_alive(self.session_id):
            self.is_connected = True
            self._timeline.tell(f"{self._name} is connected to ZooKeeper again")
            self._server.receive_from(self.session_id)
            self._server.set_watches(self.session_id, self._seen_zxid, list(self._armed))
            self._send()
        else:
            self._expire()

    def _expire(self) -> None:
        self._timeline.tell(f"{self._name} learns that its session is over")
        self.session.forget()
        self._armed.clear()
        self._on_expired()
        self._send()  # a question that began in the old session fails now
        self.reconnect_later()

    def _open_new_session(self) -> None:
        self.session.start()
        self.is_connected = True
        self._timeline.tell(f"{self._name} has a new session")
        self._on_new_session()

    # Questions

    def _split(self, request: ZkRequest) -> Sequence[ZkRequest]:
        size = _size(request)
        if size < 2 or not self._timeline.happens(self._weather().split_batch):
            return [request]
        cut = self._timeline.random.randint(1, size - 1)
        return [_slice(request, 0, cut), _slice(request, cut, size)]

    def _send(self) -> None:
        exchange = self._exchange
        if exchange is None:
            return
        if exchange.session_id != self.session_id or self.session_id == 0:
            error = SessionExpired(f"session 0x{exchange.session_id:x} is over")
            self._later(lambda: self._fail(exchange, error))
            return
        if self.is_connected:
            weather = self._weather()
            if self._timeline.happens(weather.lost_connection):
                self._lose_connection()
            connection = self._connection
            self._to_server.send(
                self._timeline.within(weather.zookeeper_delay_ms),
                lambda: self._arrive(exchange, connection),
            )

    def _lose_connection(self) -> None:
        """Breaks the connection at a random time, before or after the server performs a request."""
        connection = self._connection
        bound_ms = 2 * self._weather().zookeeper_delay_ms[1]

        def lose() -> None:
            if connection == self._connection and self.is_connected:
                self._timeline.tell(f"{self._name} loses its connection to ZooKeeper")
                self.break_connection()
                self.reconnect_later()

        self._timeline.after(self._timeline.within((0, bound_ms)), lambda: self._run(lose))

    def _arrive(self, exchange: _Exchange, connection: int) -> None:
        if connection != self._connection or not self._server.is_alive(exchange.session_id):
            return  # the request is lost; the client notices that the connection is closed
        part = exchange.parts[len(exchange.answers)]
        answer: object
        try:
            answer = self._perform(exchange, part)
        except ZkControllerError as error:
            answer = error
        zxid = self._server.zxid
        self._replying = connection
        self._to_client.send(
            self._timeline.within(self._weather().zookeeper_delay_ms),
            lambda: self._run(lambda: self._reply(exchange, connection, part, answer, zxid)),
        )

    def _perform(self, exchange: _Exchange, part: ZkRequest) -> object:
        if exchange.may_be_refused:
            return perform_in_part(part, self._refusal, self.session.perform)
        return self.session.perform(part)

    def _reply(
        self, exchange: _Exchange, connection: int, part: ZkRequest, answer: object, zxid: int
    ) -> None:
        if connection != self._connection:
            return  # the server performed the request, but the reply is lost
        self._replying = -1
        self._seen_zxid = zxid
        if isinstance(answer, ZkControllerError):
            self._fail(exchange, answer)
            return
        self._remember_watches(part, answer)
        exchange.answers.append(answer)
        if len(exchange.answers) < len(exchange.parts):
            self._send()
            return
        self._exchange = None
        if exchange.is_whole:
            exchange.answered(answer)
        else:
            exchange.answered([one for answers in exchange.answers for one in answers])

    def _fail(self, exchange: _Exchange, error: ZkControllerError) -> None:
        if self._exchange is exchange:
            self._exchange = None
            exchange.failed(error)

    def _later(self, action: Callable[[], None]) -> None:
        self._timeline.after(0, lambda: self._run(action), in_order=True)

    # Watches

    def _remember_watches(self, request: ZkRequest, answers: Any) -> None:
        match request:
            case ReadZnodes(paths, True):
                on = [WatchOn.DATA if not isinstance(a, ZkCode) else None for a in answers]
            case ListChildren(paths, True):
                on = [WatchOn.CHILDREN if not isinstance(a, ZkCode) else None for a in answers]
            case CheckExists(paths, True):
                on = [_watch_left_by(answer) for answer in answers]
            case _:
                return
        for path, kind in zip(paths, on, strict=True):
            if kind is not None:
                self._armed[Watch(kind, path)] = None

    def _fired(self, fired: WatchFired) -> None:
        self._on_fired(fired)
        connection = self._connection
        self._to_client.send(
            self._timeline.within(self._weather().zookeeper_delay_ms),
            lambda: self._run(lambda: self._watch_arrives(connection, fired)),
        )

    def _watch_arrives(self, connection: int, fired: WatchFired) -> None:
        if connection != self._connection:
            return  # the watch is still armed here, and will be set again
        # Only replies raise the seen zxid: of several watches that fired together some may still be
        # lost with the connection, and those must fire again.
        for on in _SPENT_BY[fired.kind]:
            self._armed.pop(Watch(on, fired.path), None)
        self._on_watch(fired)


_SPENT_BY = {
    WatchKind.NODE_CREATED: (WatchOn.ABSENCE, WatchOn.DATA),
    WatchKind.NODE_DATA_CHANGED: (WatchOn.ABSENCE, WatchOn.DATA),
    WatchKind.NODE_CHILDREN_CHANGED: (WatchOn.CHILDREN,),
    WatchKind.NODE_DELETED: (WatchOn.DATA, WatchOn.ABSENCE, WatchOn.CHILDREN),
}
"""The client's watches that each kind of event removes (``ZKWatchManager.materialize``)."""


def _watch_left_by(answer: Stat | ZkCode) -> WatchOn | None:
    """The kind of watch that ``exists`` sets, by its result; None: it sets none."""
    if answer is ZkCode.NO_NODE:
        return WatchOn.ABSENCE
    return None if isinstance(answer, ZkCode) else WatchOn.DATA


def _size(request: ZkRequest) -> int:
    """The number of parts into which the request may be split."""
    match request:
        case ZkTransaction():
            return 1
        case FencedBatch(operations) | UnfencedBatch(operations):
            return len(operations)
        case ReadZnodes(paths) | ListChildren(paths) | CheckExists(paths):
            return len(paths)


def _slice(request: ZkRequest, start: int, end: int) -> ZkRequest:
    match request:
        case FencedBatch(operations, zk_version):
            return FencedBatch(operations[start:end], zk_version)
        case UnfencedBatch(operations):
            return UnfencedBatch(operations[start:end])
        case ReadZnodes(paths, watch):
            return ReadZnodes(paths[start:end], watch)
        case ListChildren(paths, watch):
            return ListChildren(paths[start:end], watch)
        case CheckExists(paths, watch):
            return CheckExists(paths[start:end], watch)
        case ZkTransaction():
            return request
