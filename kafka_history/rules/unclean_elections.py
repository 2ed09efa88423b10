"""Unclean elections: a leader that was not in sync, and the records that were lost.

Kafka 1.1 and newer do not log it directly.  Three proofs are accepted.  The state has
``RECOVERING`` (3.2 and newer).  A line says it (0.11 to 1.0).  Or the new leader was not in the ISR
of the state before, and is alone in its own ISR.  For the last proof, no replica may have joined
the ISR between the two states.  A leader adds replicas without a new leader epoch, and a write of
the controller raises it.  So the epoch must have grown by as much as the znode version.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event, in_order
from kafka_history.rules.partition_states import State

LOSS_MS: Final = 86_400_000
"""Replicas that truncate their log later than this after the election are ignored."""
SLACK_MS: Final = 1_000
"""Lines at most this long before the election are used, because the brokers' clocks differ."""
SAME_MS: Final = 60_000
"""A line within this time of a state that proves the election is about the same election."""

SAID_KINDS: Final = ("election-unclean", "leader-recovered")
CUT_KINDS: Final = ("truncating-epoch", "log-truncating", "truncating-below-hw")
END_KINDS: Final = ("follower-starts", "log-load-completed")
LEADER_KIND: Final = "leader-starts"
KINDS: Final = (*SAID_KINDS, *CUT_KINDS, *END_KINDS, LEADER_KIND)
COLUMNS: Final = (
    "time_ms", "file", "line", "kind", "broker_id", "leader", "offset", "values", "text",
)  # fmt: skip
"""The columns of an event that this module needs, besides topic and partition."""
LOADED: Final = r"topic=([^,]+), partition=([0-9]+)"
"""Pattern of the topic and partition in a line about a loaded log."""
_LOADED_END: Final = re.compile(r"(?:logEndOffset=|log-end-offset |end offset )(\d+)")


class UncleanElection(NamedTuple):
    """The election of a leader that was not in sync, and the records lost by it."""

    topic: str
    partition: int
    incarnation: int | None
    at_ms: int
    leader: int | None
    leader_epoch: int | None
    last_isr: Sequence[int] | None
    """The ISR before the election; None: not known."""
    proof: str
    file: str | None
    line: int | None
    leader_offset: int | None = None
    """The log end offset of the new leader; None: not known."""
    lost_records: int | None = None
    """Most records that one returning replica truncated; None: no replica is known to have."""
    lost_from: int | None = None
    lost_to: int | None = None
    """Offset after the last lost record; ``lost_from`` is that of the first."""
    truncated_by: int | None = None
    """The broker that truncated these records."""


def unclean_elections(
    states: Iterable[State], events: Iterable[Event]
) -> Iterator[UncleanElection]:
    """The unclean elections of one partition, given its states and its events of ``KINDS``."""
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
        # Skip a line about an election that a state proves already.
        if not any(
            each.leader == known.leader and abs(each.at_ms - known.at_ms) <= SAME_MS
            for known in by_state
        )
    ]
    return (_with_losses(each, ordered) for each in by_state + alone)


def with_partition(event: Event) -> Event:
    """The event, with topic and partition taken from its text if its columns lack them."""
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
    """Adds the lost records that the logs show.

    A follower logs its log end offset when it starts to follow (3.3 and newer) or when its log was
    loaded, and then the offset to which it truncates.  The records in between are lost.
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
    """The offset that a line names, from its text or a column; None: it names none."""
    if event.kind == "log-load-completed" and (end := _LOADED_END.search(event.text or "")):
        return int(end[1])
    word = (event.values or {}).get("offset", "")
    return int(word) if event.offset is None and word.isdecimal() else event.offset
