"""The incarnations of brokers: when each process started, when and how it ended, lost sessions.

A life is one process of a broker. It begins with *starting* in ``server.log``. If there is only
``controller.log``, it begins with the start of the controller's event thread. If the broker has no
log at all, it begins with the controller's *Newly added brokers*. A clean end is logged as
*shutting down*. A killed process logs nothing: it died between its last line and the moment when
the controller noticed that it was missing. The first *disconnected* of a peer in between is the
best estimate, unless the session expired too soon after it: then the peer did not use its
connection when it broke, and noticed that later.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event
from kafka_history.rules.texts import ids

CLEAN, KILLED, LOST, OPEN = "clean_shutdown", "killed", "lost", "open"
FAILED_START: Final = "failed_start"
"""The values of ``ended_by``.  ``lost``: only the controller logged it, the broker's own log is
missing.  ``failed_start``: the broker stopped before it registered, so it never joined."""
NOTICE_MS: Final = 120_000
"""The session of a dead broker expires, and the controller notices it, within this time."""
RUMOUR_MS: Final = 1_000
"""Because clocks differ, peers may log a disconnect this much before a dead broker's last line."""
STARTUP_MS: Final = 10_000
"""Lines at most this long before *starting* belong to the same start."""
ONE_LOSS_MS: Final = 5_000
"""The ZooKeeper client and Kafka both log a lost session; lines within this time are one loss."""

VIEWS: Final = frozenset({"ctl-brokers-changed", "ctl-brokers-active"})
MARKS: Final = VIEWS | {
    "server-life", "ctl-thread", "broker-registered", "shutdown-request", "net-disconnected",
    "net-connect-failed", "fetch-session-error", "zk-session",
}  # fmt: skip
"""Kinds of lines that say something about the life of a broker."""
REGISTERED: Final = "broker-registered"
EXPIRIES: Final = frozenset({"zkc-session", "zk-timeout", "zk-state"})
SERVER_CLIENT: Final = "Kafka server"
"""The name of the ZooKeeper client that holds the broker's registration."""
DUMP: Final = "config-dump"
PRELUDE: Final = ("Registered kafka:type=", "Registered signal handlers", "Setting -D jdk.tls")
"""Lines of a new process before *starting*: no signs of life of the process before it.

The dump of the configuration (``DUMP``) is not a sign of life either.
"""

UNHEARD_SHARE: Final = 2 / 3
"""A ZooKeeper client that gets no response for this share of its session timeout gives its
connection up; so the server had a message of a live client since."""
ONE_TRY_MS: Final = 50
"""A *disconnected* this close before a failed connect means that no connection had existed."""
NO_SESSION: Final = "epoch=INITIAL)"
"""Text of a fetch without a fetch session: perhaps the connection was never established."""

_EVER: Final = 2**62
_NODE: Final = re.compile(r"[Nn]ode (-?[0-9]+)")
_TIMEOUT: Final = re.compile(r"negotiated timeout = ([0-9]+)")
_STARTS: Final = ("starting", "thread", "added")
"""Marks of the beginning of a life, the most precise first."""


class SignOfLife(NamedTuple):
    """A moment at which a line shows that a broker was alive, and that line."""

    at_ms: int
    file: str
    line: int


class BrokerLife(NamedTuple):
    """One process of a broker."""

    broker: int
    from_ms: int
    to_ms: int | None
    """None: the process still runs when the logs end."""
    ended_by: str
    stopping_ms: int | None
    """When a controlled shutdown began; None: there was none."""
    last_ms: int | None
    """Time of the broker's last line; a killed process died between this and ``missed_ms``."""
    missed_ms: int | None
    """When the controller noticed that the broker was missing; None: it did not."""
    broker_epoch: int | None
    is_started: bool
    """False: the logs begin in the middle of this life."""
    file: str
    line: int
    end_file: str | None
    end_line: int | None


class SessionExpiry(NamedTuple):
    """The loss of the ZooKeeper session of a running broker."""

    broker: int
    at_ms: int
    """When the broker learnt that its session had expired."""
    file: str
    line: int
    gone_ms: int | None
    """When the controller noticed that the broker was missing; None: it did not."""
    back_ms: int | None
    """When the broker was registered again; None: not within ``NOTICE_MS``."""
    paused_ms: int | None = None
    """When the pause of the process began that cost the session; None: there was none."""


def signs_of_life(events: Iterable[Event]) -> Iterator[tuple[int, SignOfLife]]:
    """The last line of each second in which a broker wrote; ``events``: all, in order.

    If a process starts in the second in which the one before died, each has its own last line.
    """
    last: dict[tuple[int, int, int], Event] = {}
    begun: Counter[int] = Counter()
    for event in events:
        broker = event.broker_id
        if broker is None or event.text is None:
            continue
        begun[broker] += any(mark in _STARTS and about == broker for mark, about in _marks(event))
        if event.kind != DUMP and not event.says(*PRELUDE):
            last[broker, begun[broker], event.time_ms // 1000] = event
    for (broker, _, _), event in last.items():
        yield broker, _sign(event)


def starts(events: Iterable[Event]) -> Iterator[tuple[int, int]]:
    """Each broker and the time in ms at which a line says that a life of it begins."""
    for event in events:
        for mark, about in _marks(event):
            if mark in _STARTS:
                yield about, event.time_ms


def broker_lives(
    events: Sequence[Event], signs: Iterable[tuple[int, SignOfLife]]
) -> Iterator[BrokerLife]:
    """Every life, by broker and beginning.

    ``events`` must be in order and hold at least those of ``MARKS``.  ``signs`` must hold at least
    the first and the last :func:`signs_of_life` of each broker between two of its :func:`starts`.
    """
    marks_of: defaultdict[int, list[_Mark]] = defaultdict(list)
    for event in events:
        for mark, about in _marks(event):
            marks_of[about].append((mark, _sign(event), _number(event)))
    for about, sign in signs:
        marks_of[about].append(("own", sign, None))
    views = list(_views(events))
    for broker, marks in sorted(marks_of.items()):
        marks.sort(key=lambda each: each[1])
        spans = _spans(marks)
        for span, following in pairwise([*spans, None]):
            assert span is not None
            until_ms = None if following is None else following.sign.at_ms
            yield _life(broker, span, until_ms, marks, views)


def session_expiries(events: Sequence[Event]) -> Iterator[SessionExpiry]:
    """Every lost session.

    ``events``, in order: at least those of ``EXPIRIES``, ``VIEWS`` and ``REGISTERED``.
    """
    views = list(_views(events))
    returns = [event for event in events if event.kind == REGISTERED]
    before: dict[int, int] = {}
    for event, is_expiry in zip(events, say_expiry(events), strict=True):
        broker, at_ms = event.broker_id, event.time_ms
        if broker is not None and event.kind == REGISTERED:
            before.pop(broker, None)  # a loss right after this one is of the new session
        if broker is None or not is_expiry:
            continue
        is_repeated = broker in before and at_ms - before[broker] <= ONE_LOSS_MS
        before[broker] = at_ms
        if is_repeated:
            continue
        near = [view for view in views if -NOTICE_MS <= view.sign.at_ms - at_ms <= RUMOUR_MS]
        present_ms = max(
            (v.sign.at_ms for v in near if broker in v.live and v.sign.at_ms < at_ms), default=0
        )
        absent = (v.sign.at_ms for v in near if broker not in v.live)
        back = (
            each.time_ms
            for each in returns
            if each.broker_id == broker and 0 <= each.time_ms - at_ms <= NOTICE_MS
        )
        yield SessionExpiry(
            broker=broker,
            at_ms=at_ms,
            file=event.file,
            line=event.line,
            gone_ms=min((each for each in absent if each > present_ms), default=None),
            back_ms=min(back, default=None),
        )


def say_expiry(events: Sequence[Event]) -> list[bool]:
    """Of each event, whether the broker logs that the session of its registration is lost.

    Kafka's ``AclAuthorizer`` has a ZooKeeper client of its own, and the broker lives on when that
    client's session is lost.  The lines of the ZooKeeper library do not name the client; Kafka's
    line about the same loss, which follows, does.
    """
    found = []
    next_line: dict[int | None, Event] = {}
    for event in reversed(events):
        match event.kind:
            case "zkc-session" if event.says("Session expired"):
                next_line[event.broker_id] = event
                found.append(_is_of_server(event))
            case "zk-timeout" if event.says("has expired"):
                kafkas = next_line.get(event.broker_id)
                is_of_other = (
                    kafkas is not None
                    and kafkas.time_ms - event.time_ms <= ONE_LOSS_MS
                    and not _is_of_server(kafkas)
                )
                found.append(not is_of_other)
            case "zk-state":
                found.append(event.says("Expired"))
            case _:
                found.append(False)
    return found[::-1]


def _is_of_server(event: Event) -> bool:
    """Whether a line is of the client that holds the registration; old versions do not say."""
    return event.value("client") in (None, "", SERVER_CLIENT)


_Mark: TypeAlias = tuple[str, SignOfLife, int | None]
"""The mark of a line about a broker, its time and place, and the number it names.

That is the broker epoch, or the session's timeout in ms.
"""


class _Span(NamedTuple):
    """The beginning of a life; ``is_started`` False: the real start is not in the logs."""

    sign: SignOfLife
    is_started: bool


class _View(NamedTuple):
    """The live brokers that a controller logged, at a change of brokers or a failover."""

    sign: SignOfLife
    live: Sequence[int]
    bounced: Sequence[int]
    """Brokers that registered again before the controller noticed that they were missing."""

    def misses(self, broker: int) -> bool:
        return broker not in self.live or broker in self.bounced


def _sign(event: Event) -> SignOfLife:
    return SignOfLife(event.time_ms, event.file, event.line)


def session_timeout_ms(event: Event) -> int | None:
    """The timeout in ms of the session that a broker's line says to be established; else None."""
    negotiated = _TIMEOUT.search(event.text or "")
    return None if negotiated is None else int(negotiated[1])


def _number(event: Event) -> int | None:
    if event.kind == "zk-session":
        return session_timeout_ms(event)
    epoch = event.value("broker_epoch")
    return int(epoch) if epoch is not None and epoch.isdecimal() else None


def _views(events: Iterable[Event]) -> Iterator[_View]:
    return (
        _View(_sign(event), _live(event), ids(event.value("bounced")))
        for event in events
        if event.kind in VIEWS
    )


def _live(event: Event) -> Sequence[int]:
    if event.kind == "ctl-brokers-active":
        return event.peers or ()
    return ids(event.value("live"))


def _marks(event: Event) -> Iterator[tuple[str, int]]:
    """The marks that a line gives, each with the id of the broker it is about."""
    own = event.broker_id
    about = -1 if own is None else own
    found: list[tuple[str, int]] = []
    match event.kind:
        case "server-life":
            found += [("starting", about)] * event.ends_with("starting")
            found += [("stopping", about)] * event.says("shutting down")
            found += [("stopped", about)] * event.says("shut down completed")
        case "ctl-thread":
            found += [("thread", about)] * event.says("Starting")
            found += [("stopping", about)] * event.says("Shutting down")
            found += [("stopped", about)] * event.says("Shutdown completed")
        case "broker-registered":
            found.append(("registered", about))
        case "zk-session":
            found.append(("session", about))
        case "shutdown-request" if event.peer is not None:
            found.append(("announced", event.peer))
        case "ctl-brokers-changed" | "ctl-brokers-active":
            added = ids(event.value("added")) + ids(event.value("bounced"))
            if event.kind == "ctl-brokers-changed":
                found += [("added", broker) for broker in added]
            found += [("live", broker) for broker in _live(event)]
        case "net-disconnected" | "fetch-session-error" | "net-connect-failed":
            mark = _connection(event)
            node = _NODE.search(event.text or "") if mark else None
            found += [] if node is None else [(mark, int(node[1]))]
        case _:
            pass
    return ((mark, broker) for mark, broker in found if broker >= 0)


def _connection(event: Event) -> str:
    """The mark of a client's line about its connection to a broker; empty: proves no death."""
    if event.kind == "net-connect-failed":
        return "unreachable"
    if event.says("Error sending fetch"):
        return "" if event.says(NO_SESSION) else "parted"
    return "parted" if event.says("disconnected.") else ""


def _partings(marks: Sequence[_Mark]) -> Iterator[int]:
    """The times in ms at which established connections to a broker broke."""
    failed: dict[str, int] = {}
    for mark, sign, _ in reversed(marks):
        if mark == "unreachable":
            failed[sign.file] = sign.at_ms
        elif mark == "parted" and failed.get(sign.file, _EVER) - sign.at_ms > ONE_TRY_MS:
            yield sign.at_ms


def _spans(marks: Sequence[_Mark]) -> list[_Span]:
    """The beginnings of a broker's lives, given all its marks, in order."""
    kinds = {mark for mark, _, _ in marks}
    # If the broker's own log is here, a controller's *added* is not used as a start.
    usable = _STARTS[:2] if "own" in kinds else _STARTS
    best = next((mark for mark in usable if mark in kinds), None)
    found: dict[int, _Span] = {}
    for mark, sign, _ in marks:
        if mark == best:
            # Several lines about a start in one millisecond are one start.
            found.setdefault(sign.at_ms, _Span(sign, True))
    first = next((sign for mark, sign, _ in marks if mark in ("own", "live")), None)
    begun_ms = min(found, default=_EVER)
    if first is not None and first.at_ms < begun_ms - STARTUP_MS:
        return [_Span(first, False), *found.values()]
    return list(found.values())


def _life(
    broker: int,
    span: _Span,
    until_ms: int | None,
    marks: Sequence[_Mark],
    views: Sequence[_View],
) -> BrokerLife:
    from_ms, next_ms = span.sign.at_ms, _EVER if until_ms is None else until_ms
    last: dict[str, SignOfLife] = {}
    stopping_ms, registered, timeout_ms = None, [], None
    for mark, sign, number in marks:
        if from_ms <= sign.at_ms < next_ms:
            last[mark] = sign
            if mark in ("stopping", "announced") and stopping_ms is None:
                stopping_ms = sign.at_ms
            if mark == "registered":
                registered.append(number)
            if mark == "session" and number is not None:
                timeout_ms = number
    own = last.get("own")
    missed = _missed(broker, from_ms if own is None else own.at_ms - RUMOUR_MS, next_ms, views)
    if missed is None:
        # The old session may expire after the next process has started. Until then the next
        # process cannot register.
        later = (at.at_ms for mark, at, _ in marks if mark == "registered" and at.at_ms >= next_ms)
        back_ms = min(later, default=next_ms) + RUMOUR_MS
        signs = [view.sign for view in views if view.misses(broker)]
        missed = min((at for at in signs if next_ms <= at.at_ms < back_ms), default=None)
    ended_by = _reason(last, is_restarted=until_ms is not None, is_missed=missed is not None)
    has_joined = "added" in last or bool(registered)
    knows_registrations = any(mark == "registered" for mark, _, _ in marks)
    if ended_by == CLEAN and span.is_started and knows_registrations and not has_joined:
        ended_by = FAILED_START
    to_ms = until_ms if missed is None else missed.at_ms
    end = missed or own
    if ended_by in (CLEAN, FAILED_START):
        end = next(last[mark] for mark in ("stopped", "stopping", "announced") if mark in last)
        to_ms = end.at_ms
    elif ended_by == KILLED and own is not None and to_ms is not None:
        upper_ms = min(to_ms, next_ms)
        if missed is not None and timeout_ms is not None:
            expired_ms = missed.at_ms - int(timeout_ms * (1 - UNHEARD_SHARE))
            upper_ms = max(own.at_ms, min(upper_ms, expired_ms))
        to_ms = _died_ms(own.at_ms, upper_ms, _partings(marks))
    elif ended_by == OPEN:
        end = None
    return BrokerLife(
        broker=broker,
        from_ms=from_ms,
        to_ms=to_ms,
        ended_by=ended_by,
        stopping_ms=stopping_ms,
        last_ms=own and own.at_ms,
        missed_ms=missed and missed.at_ms,
        broker_epoch=registered[0] if registered else None,
        is_started=span.is_started,
        file=span.sign.file,
        line=span.sign.line,
        end_file=end and end.file,
        end_line=end and end.line,
    )


def _missed(broker: int, after_ms: int, until_ms: int, views: Iterable[_View]) -> SignOfLife | None:
    """The controller's first view without the broker in the given time; None: there is none.

    Views before the last one with the broker are ignored: they belong to an earlier lost session.
    """
    seen = [view for view in views if after_ms < view.sign.at_ms < until_ms]
    present_ms = max((view.sign.at_ms for view in seen if broker in view.live), default=0)
    absent = (v.sign for v in seen if broker not in v.live and v.sign.at_ms >= present_ms)
    return min(absent, default=None)


def _reason(last: Mapping[str, SignOfLife], *, is_restarted: bool, is_missed: bool) -> str:
    """How a life ended; the most certain marks are checked first."""
    is_over = is_restarted or is_missed
    if "stopped" in last or ("stopping" in last and not is_restarted):
        return CLEAN
    if not is_over:
        return OPEN
    if "own" in last:
        return KILLED
    return CLEAN if "announced" in last else LOST


def _died_ms(last_ms: int, upper_ms: int, parted: Iterable[int]) -> int:
    """Estimates when a broker died, between its last line and ``upper_ms``."""
    behind = (each for each in parted if max(last_ms, upper_ms - NOTICE_MS) <= each <= upper_ms)
    return min(behind, default=last_ms if upper_ms - last_ms <= NOTICE_MS else upper_ms)
