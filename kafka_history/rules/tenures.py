"""Controller tenures: begin, end, reason, and the steps of each failover.

A tenure is one controller epoch of one broker.  It begins with *successfully elected* in that
broker's log.  If that log is missing, it begins with the first line of any broker that names the
controller and the epoch.  It ends when the next epoch begins or when the controller resigned,
whichever is earlier: a killed or paused controller logs nothing, and a deposed one logs *Resigned*
after its successor's election.  *Resigned* alone proves nothing, because brokers that never were
controller log it too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.broker_lives import say_expiry
from kafka_history.rules.event import Event, in_order

_EVER: Final = 2**62
GRACE_MS: Final = 2_000
"""A resignation more than this after the successor's election proves a zombie controller.

A normal handover takes some 10 ms.
"""
TOLD_MS: Final = 2_000
"""A first UpdateMetadata later than this after the failover does not count as part of it."""
PHASE_SPAN_MS: Final = 600_000
"""Steps later than this after the election are not steps of the failover."""

ELECTIONS: Final = frozenset({"ctl-elected", "ctl-epoch-incremented"})
UPDATED: Final = "um-applied"
WITNESS_KINDS: Final = frozenset({UPDATED, "lisr-received", "um-cached", "stop-received"})
"""Lines of brokers that name the controller and its epoch."""
WITNESS_COLUMNS: Final = (
    "file", "line", "time_ms", "kind", "logger", "component", "broker_id", "controller_id",
    "controller_epoch",
)  # fmt: skip
"""The columns of an event that :func:`witnessed` and :func:`is_controllers` need."""
MARKS: Final = frozenset({
    "ctl-resigned", "zkc-session", "zk-timeout", "zk-state", "server-life", "ctl-thread",
    "ctl-elect-error", "ctl-ready", "ctl-brokers-active",
})  # fmt: skip
"""Lines that may show how a tenure ended, or when its failover was complete."""

CLEAN, KILLED, EXPIRED = "clean_shutdown", "killed", "session_expired"
MOVED, FAILED, OPEN = "controller_moved", "election_failed", "open"
UNKNOWN: Final = "unknown"
"""The values of ``ended_by``.  ``controller_moved``: /controller was deleted or taken over.
``unknown``: the controller's own logs are missing."""

PHASES: Final = (
    ("ctl-phase-handlers", "", "registered watches"),
    ("ctl-phase-logdir-notifications", "", "deleted log directory notifications"),
    ("ctl-phase-isr-notifications", "", "deleted ISR notifications"),
    ("ctl-phase-context", "", "began to read brokers, topics and states"),
    ("ctl-brokers-active", "", "read brokers, topics and states"),
    ("ctl-phase-deletions", "", "looked for deletions"),
    ("ctl-phase-deletion-manager", "", "prepared deletions"),
    ("ctl-phase-update-metadata", "", "told brokers who is alive"),
    ("rsm-phase", "Initializing", "began replica states"),
    ("rsm-started", "", "replica states ready"),
    ("psm-phase", "Initializing", "began partition states"),
    ("psm-phase", "Triggering", "began elections"),
    ("psm-started", "", "partition states ready"),
    ("ctl-ready", "", "ready"),
    ("ctl-scheduler-start", "", "scheduler started"),
)
"""Kind of line, text that the line must contain, and name of the step it completes."""
PHASE_KINDS: Final = frozenset(kind for kind, _, _ in PHASES)


class Tenure(NamedTuple):
    """One controller epoch of one broker."""

    broker: int | None
    controller_epoch: int
    from_ms: int
    ready_ms: int | None
    to_ms: int | None
    """None: not ended when the logs end."""
    ended_by: str
    resigned_ms: int | None
    overlap_ms: int | None
    """How long after the successor's election it resigned; None: it was no zombie."""
    is_elected: bool
    """False: its own *successfully elected* is missing, only other lines name it."""
    file: str
    line: int
    end_file: str | None
    end_line: int | None


class Phase(NamedTuple):
    """One step of a failover."""

    controller_epoch: int
    broker: int | None
    step: int
    phase: str
    at_ms: int
    file: str
    line: int
    took_ms: int
    """Time since the step before, in ms; for the first step since the election."""


class LastWords(NamedTuple):
    """The time of a broker's last line, and whether its controller.log is among the files."""

    last_ms: int
    has_controller_log: bool


def last_words(events: Iterable[Event]) -> dict[int | None, LastWords]:
    """The last words of each broker; ``events``: all events."""
    last_ms: dict[int | None, int] = {}
    loggers: defaultdict[int | None, set[str]] = defaultdict(set)
    for event in events:
        broker = event.broker_id
        last_ms[broker] = max(event.time_ms, last_ms.get(broker, event.time_ms))
        loggers[broker].add(event.logger or "")
    return {
        broker: LastWords(
            at_ms, any(each.startswith("kafka.controller") for each in loggers[broker])
        )
        for broker, at_ms in last_ms.items()
    }


def is_controllers(event: Event) -> bool:
    """Whether the line is a controller's own state-change line with a controller epoch."""
    is_own = event.component == "controller" and event.logger == "state.change.logger"
    return is_own and event.controller_epoch is not None


def witnessed(event: Event) -> Iterator[tuple[int | None, int]]:
    """The controllers and epochs that a line names: its writer, or the sender of a request."""
    epoch = event.controller_epoch
    if epoch is None:
        return
    if is_controllers(event):
        yield event.broker_id, epoch
    sender = event.controller_id
    if event.kind in WITNESS_KINDS and sender is not None and sender >= 0 and epoch > 0:
        yield sender, epoch


def tenures(
    events: Sequence[Event], last_words: Mapping[int | None, LastWords]
) -> Iterator[Tenure]:
    """Every tenure, by epoch and beginning.

    ``events`` must be in order and hold at least those of ``ELECTIONS`` and ``MARKS``, and the
    first line with :func:`witnessed` of each controller and epoch.
    """
    spans = _begun(events)
    marks = _marks(events)
    seen: list[dict[str, Event]] = []
    for at, span in enumerate(spans):
        own_next = next((each for each in spans[at + 1 :] if each.broker == span.broker), None)
        its: dict[str, Event] = {}
        for mark, event in marks[span.broker]:
            is_before = own_next is None or event.time_ms < own_next.from_ms
            if span.from_ms <= event.time_ms and is_before:
                its.setdefault(mark, event)
        seen.append(its)
    for at, (span, its) in enumerate(zip(spans, seen, strict=True)):
        following = spans[at + 1] if at + 1 < len(spans) else None
        active = None if following is None else seen[at + 1].get("active")
        yield _ended(span, following, its, active, last_words.get(span.broker))


def phases(events: Sequence[Event], held: Sequence[Tenure]) -> Iterator[Phase]:
    """The steps of each failover, by epoch and time.

    The last step is complete when the last running broker has applied the new controller's first
    UpdateMetadata request.  ``events`` must be in order and hold at least those of ``PHASE_KINDS``
    and the first ``um-applied`` of each broker and epoch.
    """
    first: dict[tuple[int, int | None, int, str], tuple[int, int, str, int, int]] = {}

    def note(tenure: Tenure, step: int, phase: str, event: Event) -> None:
        key = tenure.controller_epoch, tenure.broker, step, phase
        at = event.time_ms, step, event.file, event.line, tenure.from_ms
        first[key] = min(at, first.get(key, at))

    steps = [(event, found) for event in events if (found := _step(event)) is not None]
    updates: dict[tuple[int | None, int | None], Event] = {}
    for event in events:
        if event.kind == UPDATED:
            updates.setdefault((event.controller_epoch, event.broker_id), event)
    for tenure in held:
        for event, (step, phase) in steps:
            is_within = event.time_ms >= tenure.from_ms and (
                tenure.to_ms is None or event.time_ms <= tenure.to_ms
            )
            is_near = event.time_ms - tenure.from_ms < PHASE_SPAN_MS
            if event.broker_id == tenure.broker and is_within and is_near:
                note(tenure, step, phase, event)
        # Leave out brokers that came back later: their late update is not due to the failover.
        latest_ms = (tenure.from_ms if tenure.ready_ms is None else tenure.ready_ms) + TOLD_MS
        updated = [
            event
            for (epoch, _), event in updates.items()
            if epoch == tenure.controller_epoch and event.time_ms <= latest_ms
        ]
        if updated:
            note(tenure, len(PHASES), "brokers told", in_order(updated)[-1])
    before: dict[tuple[int, int | None], int] = {}
    for (epoch, broker, step, phase), (at_ms, _, file, line, from_ms) in sorted(
        first.items(), key=lambda each: (each[0][0], each[1])
    ):
        took_ms = at_ms - before.get((epoch, broker), from_ms)
        before[epoch, broker] = at_ms
        yield Phase(epoch, broker, step, phase, at_ms, file, line, took_ms)


class _Span(NamedTuple):
    """The beginning of a tenure."""

    controller_epoch: int
    from_ms: int
    broker: int | None
    is_elected: bool
    file: str
    line: int


def _begun(events: Sequence[Event]) -> list[_Span]:
    first: dict[tuple[int | None, int], tuple[bool, int, str, int]] = {}

    def note(broker: int | None, epoch: int, event: Event, *, is_elected: bool) -> None:
        at = (not is_elected, event.time_ms, event.file, event.line)
        first[broker, epoch] = min(at, first.get((broker, epoch), at))

    said: defaultdict[int | None, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind in ELECTIONS:
            said[event.broker_id].append(event)
        for broker, epoch in witnessed(event):
            note(broker, epoch, event, is_elected=False)
    for broker, lines in said.items():
        # Up to 2.0 the epoch is in a line of its own, right after (0.11: before) the election.
        epochs = [None, *(line.controller_epoch for line in lines), None]
        for event, before, own, after in zip(lines, epochs, epochs[1:], epochs[2:], strict=False):
            known = next((each for each in (own, after, before) if each is not None), None)
            if event.kind == "ctl-elected" and known is not None:
                note(broker, known, event, is_elected=True)
    return sorted(
        _Span(epoch, at_ms, broker, not is_witnessed, file, line)
        for (broker, epoch), (is_witnessed, at_ms, file, line) in first.items()
    )


def _marks(events: Sequence[Event]) -> defaultdict[int | None, list[tuple[str, Event]]]:
    """The marks of each broker, in order, such as ``resigned`` or ``stopping``."""
    found: defaultdict[int | None, list[tuple[str, Event]]] = defaultdict(list)
    for event, is_expiry in zip(events, say_expiry(events), strict=True):
        mark = "expired" if is_expiry else _mark(event)
        if mark is not None:
            found[event.broker_id].append((mark, event))
    return found


def _mark(event: Event) -> str | None:
    match event.kind:
        case "ctl-resigned":
            return "resigned"
        case "server-life" if event.says("shutting down", "shut down completed"):
            return "stopping"
        case "ctl-thread" if event.says("Shutting down", "Shutdown completed"):
            return "stopping"
        case "server-life" if event.text is not None and event.text.endswith("starting"):
            return "started"
        case "ctl-thread" if event.says("Starting"):
            return "started"
        case "ctl-elect-error":
            return "failed"
        case "ctl-ready":
            return "ready"
        case "ctl-brokers-active":
            return "active"
        case _:
            return None


def _step(event: Event) -> tuple[int, str] | None:
    """The number and name of the failover step that a line completes; None: no step."""
    found = None
    for step, (kind, text, phase) in enumerate(PHASES):
        if event.kind == kind and (not text or event.says(text)):
            found = step, phase
    return found


def _ended(
    span: _Span,
    following: _Span | None,
    seen: Mapping[str, Event],
    active: Event | None,
    last: LastWords | None,
) -> Tenure:
    """``active``: the line with the brokers that the successor found registered."""
    started_ms = seen["started"].time_ms if "started" in seen else None

    def at(mark: str) -> int | None:
        """The time of a mark; None if it is missing or came after the process was restarted."""
        event = seen.get(mark)
        is_in_life = event is not None and (started_ms is None or event.time_ms <= started_ms)
        return event.time_ms if event is not None and is_in_life else None

    resigned_ms, next_ms = at("resigned"), None if following is None else following.from_ms
    is_late = resigned_ms is not None and next_ms is not None and resigned_ms > next_ms + GRACE_MS
    is_own_end = resigned_ms is not None and (next_ms is None or resigned_ms <= next_ms)
    ends = [each for each in (next_ms, resigned_ms) if each is not None]
    to_ms = min(ends, default=started_ms)
    end_file, end_line = None, None
    if is_own_end or is_late:
        end_file, end_line = seen["resigned"].file, seen["resigned"].line
    elif following is not None:
        end_file, end_line = following.file, following.line
    return Tenure(
        broker=span.broker,
        controller_epoch=span.controller_epoch,
        from_ms=span.from_ms,
        ready_ms=at("ready"),
        to_ms=to_ms,
        ended_by=_reason(
            at,
            next_ms,
            started_ms,
            last,
            is_late=is_late,
            had_session=_had_session(span, seen, active),
        ),
        resigned_ms=resigned_ms,
        overlap_ms=resigned_ms - next_ms if is_late and resigned_ms and next_ms else None,
        is_elected=span.is_elected,
        file=span.file,
        line=span.line,
        end_file=end_file,
        end_line=end_line,
    )


def _had_session(span: _Span, seen: Mapping[str, Event], active: Event | None) -> bool:
    """Whether the controller's ZooKeeper session stood when its successor read the brokers.

    Death ends the session, and with it both ``/controller`` and the registration.
    """
    if active is None or span.broker not in (active.peers or ()):
        return False
    started = seen.get("started")
    return started is None or started.time_ms > active.time_ms


def _reason(
    at: Callable[[str], int | None],
    next_ms: int | None,
    started_ms: int | None,
    last: LastWords | None,
    *,
    is_late: bool,
    had_session: bool,
) -> str:
    """Why a tenure ended; the most certain marks are checked first."""
    resigned_ms = at("resigned")
    has_log = last is not None and last.has_controller_log

    def came(mark: str, by_ms: int | None) -> bool:
        at_ms = at(mark)
        return at_ms is not None and by_ms is not None and at_ms <= by_ms

    is_silent = next_ms is not None and (
        started_ms is not None or (last is not None and last.last_ms < next_ms + GRACE_MS)
    )
    if came(
        "failed", min((each for each in (next_ms, resigned_ms) if each is not None), default=_EVER)
    ):
        return FAILED
    # A shutdown is logged before the resignation that it causes.
    by_ms = resigned_ms if resigned_ms is not None or next_ms is None else next_ms + GRACE_MS
    if came("stopping", by_ms):
        return CLEAN
    if came("expired", _EVER if resigned_ms is None else resigned_ms) or is_late:
        return EXPIRED
    if resigned_ms is not None:
        return MOVED
    if has_log and is_silent:
        return MOVED if had_session else KILLED
    if next_ms is None:
        return OPEN if started_ms is None else KILLED
    return MOVED if has_log else UNKNOWN
