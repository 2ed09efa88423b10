"""The contents of the state znode of partitions after each write, from any log.

The same write is logged by the controller that made it, by the leader that asked for it and by the
brokers that received it.  Lines with the same version of the state znode are one write.  Old Kafka
versions do not print it: there, lines with the same leader, leader epoch and ISR are one write.
States are in the order of the writes, not of the clocks.

A topic that was deleted and created again starts with leader epoch 0 and version 0.  This is
another ``incarnation``; the lines that log a new partition count it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event
from kafka_history.rules.tenures import Tenure

FROM_CONTROLLER: Final = (
    "partition-online",
    "partition-shrunk-offline",
    "ctl-isr-updated",
    "ctl-isr-new",
    "reassign-sent-lisr",
    "leader-epoch-updated",
)
"""Lines of the controller that made the write."""
FROM_LEADER: Final = ("isr-updated", "leader-starts", "isr-shrinking", "isr-expanding")
FROM_WITNESS: Final = ("send-lisr-partition", "lisr-received", "um-cached", "send-um-partition")
BIRTHS: Final = ("partition-new",)
TOPIC_END: Final = "delete-completed"
DEATHS: Final = ("um-deleted", "partition-state", TOPIC_END)
_BIRTH, _DEATH = 0, 4
_SOURCES: Final = {
    kind: source
    for source, kinds in enumerate((BIRTHS, FROM_CONTROLLER, FROM_LEADER, FROM_WITNESS, DEATHS))
    for kind in kinds
}
"""The rank of each kind of line; the smaller, the more reliable."""
STATE_KINDS: Final = tuple(_SOURCES)
COLUMNS: Final = (
    "topic", "partition", "time_ms", "file", "line", "kind", "component", "broker_id", "leader",
    "leader_epoch", "isr", "zk_version", "leader_recovery_state", "replicas", "controller_epoch",
    "state_controller_epoch", "replica", "from_state", "to_state", "text",
)  # fmt: skip
"""The columns of an event that this module needs."""

NO_LEADER, DELETING = -1, -2
GRACE_MS: Final = 2_000
"""Lines that a controller wrote more than this after the end of its tenure are ignored."""
_COMPLETED: Final = (
    "leader", "leader_epoch", "isr", "zk_version", "replicas", "controller_epoch", "lost_replica",
)  # fmt: skip
"""Fields that may be taken from other lines of the same write."""
_FILLED: Final = ("leader", "isr", "controller_epoch", "replicas")
"""Fields that a write without them takes from the state before it."""
_INCARNATION: Final = attrgetter("topic", "partition", "incarnation")
_NUMBER: Final = attrgetter("topic", "partition", "incarnation", "number")
_SHRUNK_TO: Final = re.compile(r" to ([\d,]+)")


class State(NamedTuple):
    """What a partition's state znode held from one write to the next."""

    topic: str
    partition: int
    incarnation: int
    number: int
    """Number of the state in its incarnation, from 1."""
    time_ms: int
    leader: int | None
    """-1: no leader; None: not known."""
    leader_epoch: int | None
    isr: Sequence[int] | None
    zk_version: int | None
    recovering: bool | None
    replicas: Sequence[int] | None
    controller_epoch: int | None
    lost_replica: int | None
    """The replica that the controller removed from the ISR; None: not known."""
    kind: str | None
    broker_id: int | None
    """The broker that wrote the line."""
    is_deleted: bool
    """True: the partition was deleted; this is the last state of the incarnation."""
    is_epoch_told: bool
    """False: ``leader_epoch`` was taken from an earlier line, because this one lacks it."""
    is_isr_sent: bool
    """Whether lines of this write contain both the leader and the ISR."""
    file: str | None
    line: int | None
    previous_leader: int | None
    previous_epoch: int | None
    previous_isr: Sequence[int] | None
    previous_version: int | None


Deposed: TypeAlias = Mapping[tuple[int | None, int | None], int]
"""The end in ms of each ended tenure, by broker id and controller epoch."""


def deposed(held: Iterable[Tenure]) -> Deposed:
    """The ends of those tenures that have ended."""
    ends: dict[tuple[int | None, int | None], int] = {}
    for tenure in held:
        if tenure.to_ms is not None:
            key = tenure.broker, tenure.controller_epoch
            ends[key] = max(tenure.to_ms, ends.get(key, tenure.to_ms))
    return ends


def topic_ends(events: Iterable[Event], ends: Deposed) -> dict[str, list[int]]:
    """When the deletions of each topic were completed."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for event in events:
        topic = event.topic or (event.values or {}).get("topic")
        if event.kind == TOPIC_END and topic is not None and _is_believed(event, ends):
            found[topic].append(event.time_ms)
    return dict(found)


def partition_states(
    events: Iterable[Event], ends: Deposed, gone: Mapping[str, Collection[int]]
) -> Iterator[State]:
    """The states of one partition in order.

    ``events``: those of ``STATE_KINDS`` about this partition.  Lines that a controller wrote after
    the end of its tenure (``ends``) are ignored.  ``gone``: see :func:`topic_ends`.
    """
    believed = [event for event in events if _is_believed(event, ends)]
    for incarnation, lines in _incarnations(believed):
        alive = [_state(line, incarnation) for line in lines if _source(line.kind) != _DEATH]
        deaths = [_death(line, incarnation) for line in lines if _is_death(line)]
        for end_ms in gone.get(lines[0].topic or "", ()):
            if alive and end_ms > alive[0].time_ms:
                end = Event(time_ms=end_ms, kind=TOPIC_END, topic=lines[0].topic,
                            partition=lines[0].partition)  # fmt: skip
                deaths.append(_death(end, incarnation)._replace(file=None, line=None))
        states = _placed(_writes(state for state in alive if _source(state.kind) != _BIRTH))
        if deaths:
            # While a topic is being deleted, its ISRs still shrink: put the deletion last.
            death = min(deaths, key=_evidence)
            states = list(_dated_by_deletion(states, death.time_ms))
            last_ms = max((state.time_ms for state in states), default=0)
            states.append(death._replace(time_ms=max(death.time_ms, last_ms)))
        yield from _filled(states)


def incarnations(
    states: Iterable[State],
) -> Iterator[tuple[tuple[str, int, int], list[State]]]:
    """The states of each incarnation of each partition, in order."""
    ordered = sorted(states, key=_NUMBER)
    return ((key, list(its)) for key, its in groupby(ordered, key=_INCARNATION))


def _is_believed(event: Event, ends: Deposed) -> bool:
    end_ms = ends.get((event.broker_id, event.controller_epoch))
    return event.component != "controller" or end_ms is None or event.time_ms <= end_ms + GRACE_MS


def _source(kind: str | None) -> int:
    return _SOURCES[kind or ""]


def _is_death(event: Event) -> bool:
    is_gone = event.kind != "partition-state" or event.to_state == "NonExistentPartition"
    return _source(event.kind) == _DEATH and is_gone


def _evidence(state: State) -> tuple[int, str, int, str, int]:
    """Sort key of deletions: the earliest one is used."""
    broker = -1 if state.broker_id is None else state.broker_id
    return state.time_ms, state.kind or "", broker, state.file or "", state.line or 0


def _incarnations(believed: Iterable[Event]) -> Iterator[tuple[int, list[Event]]]:
    """Each incarnation's number and lines, by time; number 0 began before the logs."""
    lines = [
        event
        for event in believed
        if _source(event.kind) == _DEATH or event.kind in FROM_LEADER or event.leader != DELETING
    ]
    lines.sort(key=lambda each: (each.time_ms, _source(each.kind), each.file, each.line))
    knows_births = any(event.kind in BIRTHS for event in lines)
    found: defaultdict[int, list[Event]] = defaultdict(list)
    number = 0
    for event in lines:
        number += event.kind in BIRTHS if knows_births else event.from_state == "NewPartition"
        found[number].append(event)
    yield from found.items()


def _death(event: Event, incarnation: int) -> State:
    """The state for a deleted partition: only time, place and ``is_deleted`` are set."""
    return _state(event, incarnation)._replace(
        leader=None, leader_epoch=None, isr=None, zk_version=None, recovering=None, replicas=None,
        controller_epoch=None, lost_replica=None, is_deleted=True,
    )  # fmt: skip


def _state(event: Event, incarnation: int) -> State:
    """The state that one line contains, before other lines of the same write complete it."""
    assert event.topic is not None
    assert event.partition is not None
    recovery, controller_epoch = event.leader_recovery_state, event.state_controller_epoch
    return State(
        topic=event.topic,
        partition=event.partition,
        incarnation=incarnation,
        number=0,
        time_ms=event.time_ms,
        leader=event.broker_id if event.kind in FROM_LEADER else event.leader,
        leader_epoch=event.leader_epoch,
        isr=_isr(event),
        zk_version=event.zk_version,
        recovering=None if recovery is None else recovery == 1,
        replicas=event.replicas,
        controller_epoch=event.controller_epoch if controller_epoch is None else controller_epoch,
        lost_replica=event.replica if event.kind == "partition-shrunk-offline" else None,
        kind=event.kind,
        broker_id=event.broker_id,
        is_deleted=False,
        is_epoch_told=False,
        is_isr_sent=False,
        file=event.file,
        line=event.line,
        previous_leader=None,
        previous_epoch=None,
        previous_isr=None,
        previous_version=None,
    )


def _dated_by_deletion(states: Sequence[State], begun_ms: int) -> Iterator[State]:
    """The states; those of a topic's deletion at its beginning, if only later requests have them.

    Old controllers do not log the ISRs that they shrink while they delete a topic.  The next
    controller sends them, if the deletion is not over by then.  A topic that was created again
    has lower leader epochs.
    """
    epoch = max(
        (state.leader_epoch or 0 for state in states if state.time_ms <= begun_ms), default=0
    )
    for state in states:
        is_sent_later = state.kind in FROM_WITNESS and state.time_ms > begun_ms
        is_of_deletion = is_sent_later and (state.leader_epoch or 0) > epoch
        yield state._replace(time_ms=begun_ms) if is_of_deletion else state


def _isr(event: Event) -> Sequence[int] | None:
    """The ISR of a line; a leader's ISR change is read from the text if no column has it."""
    if event.isr is not None or event.kind not in {"isr-shrinking", "isr-expanding"}:
        return event.isr
    words = _SHRUNK_TO.search(event.text or "")
    return [int(broker) for broker in words[1].split(",") if broker] if words else []


def _writes(believed: Iterable[State]) -> Iterator[State]:
    """One state per write: the state of its most reliable log line, completed from its others."""
    found: defaultdict[Hashable, list[State]] = defaultdict(list)
    for state in believed:
        isr = None if state.isr is None else tuple(state.isr)
        key = state.leader_epoch, state.leader, isr
        found[key if state.zk_version is None else state.zk_version].append(state)
    for lines in found.values():
        lines.sort(key=lambda each: (_source(each.kind), each.time_ms, each.file, each.line))
        columns: dict[str, Any] = {
            name: next((v for v in map(attrgetter(name), lines) if v is not None), None)
            for name in _COMPLETED
        }
        recovering = [line.recovering for line in lines if line.recovering is not None]
        yield lines[0]._replace(**columns, recovering=max(recovering, default=None))


def _placed(writes: Iterable[State]) -> list[State]:
    """The writes in the order of their versions.

    One without a version is placed by its time, but not after the last version of its leader epoch:
    a broker may log that it leads when the controller has written the next epoch already.
    """
    in_time = sorted(writes, key=lambda each: (each.time_ms, each.file, each.line))
    last_of_epoch: dict[int | None, int] = {}
    for write in in_time:
        if write.zk_version is not None and write.leader_epoch is not None:
            known = last_of_epoch.get(write.leader_epoch, write.zk_version)
            last_of_epoch[write.leader_epoch] = max(known, write.zk_version)
    placed: list[tuple[int, State]] = []
    version = -1
    for write in in_time:
        if write.zk_version is not None:
            at = version = write.zk_version
        else:
            at = min(version, last_of_epoch.get(write.leader_epoch, version))
        placed.append((at, write))
    return [write for _, write in sorted(placed, key=itemgetter(0))]


def _filled(writes: Iterable[State]) -> Iterator[State]:
    """The states, completed from earlier ones; what changes nothing may tell a state's version."""
    known = dated = before = None
    for write in writes:
        state = write._replace(
            is_epoch_told=write.leader_epoch is not None,
            is_isr_sent=write.isr is not None and write.leader is not None,
        )
        if known is not None and not write.is_deleted:
            state = state._replace(**{
                name: getattr(known if getattr(write, name) is None else write, name)
                for name in _FILLED
            })  # fmt: skip
        known = state
        # Take over the last known leader epoch only if the leader is still the same.
        dated = state if state.is_epoch_told else dated
        is_same = dated is not None and dated.leader == state.leader and not state.is_deleted
        state = state._replace(leader_epoch=dated.leader_epoch if dated and is_same else None)
        if before is None:
            before = state._replace(number=1)
        elif state.is_deleted or _said(state) != _said(before):
            yield before
            before = state._replace(
                number=before.number + 1,
                previous_leader=before.leader,
                previous_epoch=before.leader_epoch,
                previous_isr=before.isr,
                previous_version=before.zk_version,
            )
        elif before.zk_version is None:
            before = before._replace(zk_version=state.zk_version)
    if before is not None:
        yield before


def _said(state: State) -> tuple[int | None, int | None, Sequence[int] | None]:
    return state.leader, state.leader_epoch, state.isr
