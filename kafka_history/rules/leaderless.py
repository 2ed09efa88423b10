"""Windows in which partitions had no leader: begin, end and cause.

A window begins with the death or the pause of the leader (:mod:`.dead_leaders`). The controller
notices it later, when it writes the next state. If the leader did not die, a window begins when the
state of the partition has leader -1, or when the controller failed to move the partition from
OfflinePartition to OnlinePartition. A logged *Online to Offline* begins a window too, but every
version logs it at TRACE only. Each loss of a leader passes through OfflinePartition: if an election
follows at once, this is no window unless the state znode had leader -1. A window ends with the next
leader or with the deletion of the topic. A time that a deletion began is no window.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, zip_longest
from operator import attrgetter
from typing import Final, NamedTuple

from kafka_history.rules.dead_leaders import EVER, LEADER_KIND, Window, dead_leaders, in_words
from kafka_history.rules.departures import Departure
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import NO_LEADER, State, incarnations

CAUSE_MS: Final = 180_000
"""A departure longer than this before a window is not its cause."""
SLACK_MS: Final = 2_000
"""A cause may be stamped this much after the window, because the brokers' clocks differ."""
TRANSIENT_MS: Final = 1_000
"""Offline for less than this is part of an election, unless the state znode has leader -1."""
DELETION_KINDS: Final = ("delete-starting", "delete-restarted")
KINDS: Final = ("partition-failed", "partition-state", LEADER_KIND)
COLUMNS: Final = (
    "topic", "partition", "time_ms", "file", "line", "kind", "broker_id", "from_state", "to_state",
)  # fmt: skip
"""The columns of an event that this module needs."""


def deletions_begun(events: Iterable[Event]) -> dict[str, list[int]]:
    """When the deletions of each topic began, given events of ``DELETION_KINDS``."""
    begun: defaultdict[str, list[int]] = defaultdict(list)
    for event in events:
        asked = re.split(r"\s*,\s*", (event.values or {}).get("topics") or "")
        for topic in {*asked, event.topic or ""} - {""}:
            begun[topic].append(event.time_ms)
    return dict(begun)


def leaderless(
    states: Sequence[State],
    events: Sequence[Event],
    gone: Sequence[Departure],
    begun: Mapping[str, Collection[int]],
) -> Iterator[Window]:
    """The windows of one partition in which it had no leader.

    ``events``: those of ``KINDS`` about this partition; ``begun``: see :func:`deletions_begun`.
    """
    marks = [*map(_of_state, states), *(mark for event in events if (mark := _of_event(event)))]
    born = [its[0].time_ms for _, its in incarnations(states)]
    written = [
        window
        for span in _written(marks)
        for window in (_caused(span, gone),)
        if not _is_deletion(span, window, begun, born)
    ]
    return _merged(written, dead_leaders(states, events, gone))


class _Mark(NamedTuple):
    """A state or a line that shows whether a partition has a leader.

    ``is_off``: it has none.  ``lost``: the broker whose leadership was lost; None: unknown.
    """

    topic: str
    partition: int
    at_ms: int
    is_deleted: bool
    file: str | None
    line: int | None
    is_off: bool
    is_proof: bool
    """True: a state with leader -1 or a failed election, which prove that there is no leader."""
    incarnation: int | None = None
    lost: int | None = None
    leader: int | None = None
    leader_epoch: int | None = None


class _Span(NamedTuple):
    """Successive marks without a leader, and the first mark after them (None: the logs end)."""

    first: _Mark
    next: _Mark | None
    incarnation: int | None
    from_ms: int
    lost: int | None


def _of_state(state: State) -> _Mark:
    is_off, before = state.leader == NO_LEADER, state.previous_leader
    lost = before if before is not None and before >= 0 else state.lost_replica
    return _Mark(
        state.topic, state.partition, state.time_ms, state.is_deleted, state.file, state.line,
        is_off, is_off, state.incarnation, lost if is_off else None, state.leader,
        state.leader_epoch,
    )  # fmt: skip


def _of_event(event: Event) -> _Mark | None:
    step = event.kind, event.from_state, event.to_state
    is_failed = step == ("partition-failed", "OfflinePartition", "OnlinePartition")
    is_state = event.kind == "partition-state"
    # Old controllers move a deleted partition to OfflinePartition, then to NonExistentPartition.
    is_gone = is_state and event.to_state == "NonExistentPartition"
    if not (is_failed or is_gone or (is_state and event.to_state == "OfflinePartition")):
        return None
    assert event.topic is not None
    assert event.partition is not None
    return _Mark(
        event.topic, event.partition, event.time_ms, is_gone, event.file, event.line, not is_gone,
        is_failed,
    )  # fmt: skip


def _written(marks: Iterable[_Mark]) -> Iterator[_Span]:
    """The times without a leader that a mark proves, or that last at least ``TRANSIENT_MS``."""
    ordered = sorted(
        marks, key=lambda each: (each.at_ms, each.is_deleted, each.file or "", each.line or 0)
    )
    runs = [list(run) for _, run in groupby(ordered, key=attrgetter("is_off"))]
    led_by = None
    for run, following in zip_longest(runs, runs[1:]):
        led = [mark.leader for mark in run if mark.leader is not None and mark.leader >= 0]
        led_by = led[-1] if led else led_by
        first, end = run[0], following[0] if following else None
        is_long = end is None or end.at_ms - first.at_ms >= TRANSIENT_MS
        if first.is_off and (is_long or any(mark.is_proof for mark in run)):
            known = [mark.incarnation for mark in run if mark.incarnation is not None]
            lost = (led_by if mark.lost is None else mark.lost for mark in run)
            yield _Span(
                first=first,
                next=end,
                incarnation=max(known, default=None),
                from_ms=first.at_ms,
                lost=next((broker for broker in lost if broker is not None), None),
            )


def _is_deletion(
    span: _Span, window: Window, begun: Mapping[str, Collection[int]], born: Iterable[int]
) -> bool:
    """Whether the deletion of the topic opened the window; the deletion need not be completed.

    A deletion before the partition was ``born`` belongs to an older topic of the same name.
    """
    born_ms = max((ms for ms in born if ms <= span.from_ms), default=0)
    # If a departure explains the window, a deletion stamped after it is not the cause.
    slack_ms = SLACK_MS if window.cause_ms is None else 0
    return (span.next is None or span.next.is_deleted) and any(
        born_ms <= ms <= span.from_ms + slack_ms for ms in begun.get(span.first.topic, ())
    )


def _caused(span: _Span, gone: Iterable[Departure]) -> Window:
    causes = [
        each
        for each in gone
        if each.broker == span.lost
        and span.from_ms - CAUSE_MS <= each.begun_ms <= span.from_ms + SLACK_MS
        # A process that started after the window began cannot be its cause.
        and (each.since_ms or 0) <= span.from_ms
    ]
    # Prefer the nearest departure before the window; one stamped after it only if there is none.
    nearest = min(
        causes,
        key=lambda each: (each.begun_ms > span.from_ms, abs(span.from_ms - each.begun_ms)),
        default=None,
    )
    fallback = "unknown" if span.lost is None else f"broker {span.lost} left, unknown how"
    end = span.next
    return Window(
        topic=span.first.topic,
        partition=span.first.partition,
        incarnation=span.incarnation,
        from_ms=span.from_ms,
        noticed_ms=span.from_ms,
        cause=(nearest and in_words(nearest.broker, nearest.how)) or fallback,
        cause_broker=span.lost,
        cause_ms=nearest and nearest.begun_ms,
        next_leader=end and end.leader,
        next_epoch=end and end.leader_epoch,
        end_file=end and end.file,
        end_line=end and end.line,
        file=span.first.file,
        line=span.first.line,
        to_ms=end and end.at_ms,
    )


def _merged(written: Iterable[Window], dead: Iterable[Window]) -> Iterator[Window]:
    """Merges overlapping windows from states (``written``) and from dead leaders (``dead``)."""
    pieces = [_Piece(each, 0) for each in written] + [_Piece(each, 1) for each in dead]
    touching: list[_Piece] = []
    for piece in sorted(
        pieces, key=lambda each: (*each.span, each.it.file or "", each.it.line or 0)
    ):
        if touching and piece.it.from_ms > max(each.span[1] for each in touching):
            yield _whole(touching)
            touching = []
        touching.append(piece)
    if touching:
        yield _whole(touching)


class _Piece(NamedTuple):
    """A window to merge; ``rank`` is 0 if states show it, 1 if a dead leader shows it."""

    it: Window
    rank: int

    @property
    def span(self) -> tuple[int, int]:
        return self.it.from_ms, EVER if self.it.to_ms is None else self.it.to_ms


def _whole(pieces: Sequence[_Piece]) -> Window:
    windows = [piece.it for piece in pieces]
    named = [piece for piece in pieces if piece.it.cause_broker is not None]
    cause = min(named or pieces, key=lambda piece: (*piece.span, piece.rank)).it
    last = max(pieces, key=lambda piece: (piece.span[1], -piece.rank)).it
    # A line about the partition itself is better evidence than the death of its leader.
    best = min(pieces, key=lambda piece: (piece.rank, piece.it.from_ms)).it
    noticed = [each.noticed_ms for each in windows if each.noticed_ms is not None]
    known = [each.incarnation for each in windows if each.incarnation is not None]
    return best._replace(
        incarnation=max(known, default=None),
        from_ms=windows[0].from_ms,
        noticed_ms=min(noticed, default=None),
        cause=cause.cause,
        cause_broker=cause.cause_broker,
        cause_ms=cause.cause_ms,
        next_leader=last.next_leader,
        next_epoch=last.next_epoch,
        end_file=last.end_file,
        end_line=last.end_line,
        to_ms=last.to_ms,
    )
