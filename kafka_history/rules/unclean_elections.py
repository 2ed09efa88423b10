"""Unclean elections: a leader that was not in sync, and the records that went with it.

From 1.1 on no line says it outright.  Three proofs are accepted: the state says ``RECOVERING`` (3.2
and newer); an old line says it (0.11 to 1.0); or a leader was written that the state before it did
not have among its in-sync replicas, and that stands alone in its own.  Between the two no replica
may have joined: leaders take replicas in without a new epoch, and what a controller writes raises
it, so the epoch must have risen as often as the version.  Any other gap proves nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event, in_order
from kafka_history.rules.partition_states import State

LOSS_MS: Final = 86_400_000
"""A replica that returns later than this after the election is not looked for."""
SLACK_MS: Final = 1_000
"""Brokers' clocks differ by this much."""
SAME_MS: Final = 60_000
"""A line so near to a state that proves the election is about the same one."""

SAID_KINDS: Final = ("election-unclean", "leader-recovered")
CUT_KINDS: Final = ("truncating-epoch", "log-truncating", "truncating-below-hw")
END_KINDS: Final = ("follower-starts", "log-load-completed")
LEADER_KIND: Final = "leader-starts"
KINDS: Final = (*SAID_KINDS, *CUT_KINDS, *END_KINDS, LEADER_KIND)
COLUMNS: Final = (
    "time_ms", "file", "line", "kind", "broker_id", "leader", "offset", "values", "text",
)  # fmt: skip
"""What of an event is needed beside its partition."""
LOADED: Final = r"topic=([^,]+), partition=([0-9]+)"
"""So a line says which log was loaded."""
_LOADED_END: Final = re.compile(r"(?:logEndOffset=|log-end-offset |end offset )(\d+)")


class UncleanElection(NamedTuple):
    """A leader that was not in sync, and what it cost."""

    topic: str
    partition: int
    incarnation: int | None
    at_ms: int
    leader: int | None
    leader_epoch: int | None
    last_isr: Sequence[int] | None
    """Who was in sync."""
    proof: str
    file: str | None
    line: int | None
    leader_offset: int | None = None
    """Where the new leader's log ended."""
    lost_records: int | None = None
    """What a returning replica had to throw away; None: unknown."""
    lost_from: int | None = None
    lost_to: int | None = None
    truncated_by: int | None = None


def unclean_elections(
    states: Iterable[State], events: Iterable[Event]
) -> Iterator[UncleanElection]:
    """Those of one partition, given its states and its events of ``KINDS``."""
    ordered = in_order(events)
    by_state = [
        UncleanElection(
            topic=state.topic,
            partition=state.partition,
            incarnation=state.incarnation,
            at_ms=state.time_ms,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            last_isr=state.previous_isr,
            proof="RECOVERING" if state.recovering else "leader was not in sync",
            file=state.file,
            line=state.line,
        )
        for state in states
        if _is_proof(state)
    ]
    said = [_said(event) for event in ordered if event.kind in SAID_KINDS]
    alone = [
        each
        for each in said
        # What a state has proven already needs no second proof.
        if not any(
            each.leader == known.leader and abs(each.at_ms - known.at_ms) <= SAME_MS
            for known in by_state
        )
    ]
    return (_with_losses(each, ordered) for each in by_state + alone)


def with_partition(event: Event) -> Event:
    """The event, of the partition that its words name where it has no other."""
    if event.topic is not None or (named := re.search(LOADED, event.text or "")) is None:
        return event
    return event._replace(topic=named[1], partition=int(named[2]))


def _is_proof(state: State) -> bool:
    leader, before = state.leader, state.previous_isr
    if state.is_deleted or leader is None or leader < 0:
        return False
    if state.recovering:
        return before is None or leader not in before
    if not before or leader in before or list(state.isr or ()) != [leader]:
        return False
    if state.zk_version is None or state.previous_version is None:
        return False
    writes = state.zk_version - state.previous_version
    epoch, epoch_before = state.leader_epoch, state.previous_epoch
    if writes == 1 or epoch is None or epoch_before is None:
        return writes == 1
    return writes > 1 and writes == epoch - epoch_before


def _said(event: Event) -> UncleanElection:
    assert event.topic is not None
    assert event.partition is not None
    return UncleanElection(
        topic=event.topic,
        partition=event.partition,
        incarnation=None,
        at_ms=event.time_ms,
        leader=event.broker_id if event.leader is None else event.leader,
        leader_epoch=None,
        last_isr=None,
        proof="the log says so",
        file=event.file,
        line=event.line,
    )


def _with_losses(found: UncleanElection, events: Iterable[Event]) -> UncleanElection:
    """Adds what the logs tell of lost records.

    A follower says where its log ends when it starts (3.3 and newer) or when it was loaded, and
    then to which offset it truncates: what lies between is lost.
    """
    first: dict[tuple[str, int | None], Event] = {}
    for event in events:
        if found.at_ms - SLACK_MS <= event.time_ms <= found.at_ms + LOSS_MS:
            first.setdefault((_WHAT.get(event.kind or "", ""), event.broker_id), event)
    began = first.get((LEADER_KIND, found.leader))
    if began is not None:
        found = found._replace(leader_offset=_offset(began))
    most = -1
    for (what, broker), cut in first.items():
        end = first.get(("end", broker))
        if what != "cut" or end is None or None in (broker, found.leader):
            continue
        if broker != found.leader and end.time_ms <= cut.time_ms:
            lost_from, lost_to = _offset(cut), _offset(end)
            lost = 0
            if lost_from is not None and lost_to is not None:
                lost = max(lost_to - lost_from, 0)
            if lost > most:
                most = lost
                found = found._replace(
                    lost_records=lost, lost_from=lost_from, lost_to=lost_to, truncated_by=broker
                )
    return found


_WHAT: Final = {
    LEADER_KIND: LEADER_KIND,
    **dict.fromkeys(CUT_KINDS, "cut"),
    **dict.fromkeys(END_KINDS, "end"),
}


def _offset(event: Event) -> int | None:
    """Where a log begins or ends, in the line's own words or in a column."""
    if event.kind == "log-load-completed" and (end := _LOADED_END.search(event.text or "")):
        return int(end[1])
    word = (event.values or {}).get("offset", "")
    return int(word) if event.offset is None and word.isdecimal() else event.offset
