"""What operators did, and what the controller did on its own: topics, elections, configurations.

These acts are no faults, but they cause most changes of leaders and in-sync replicas in a healthy
cluster. So each act is a finding. A change that an act explains is not counted as the effect of a
broker that stopped about the same time.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.reassignments import (
    CANCELLED,
    COMPLETED,
    REORDERED,
    UNCHANGED,
    Reassignment,
)
from kafka_history.rules.tenures import GRACE_MS, Tenure
from kafka_history.rules.texts import names
from kafka_history.rules.topic_deletions import DeletedTopic

CREATED, GROWN, DELETED = "topic created", "partitions added", "topic deleted"
PREFERRED, UNCLEAN, BALANCED = "preferred election", "unclean election", "leaders balanced"
CONFIGURED, MOVED = "configuration changed", "reassignment"
"""The values of ``act``; the controller starts only ``leaders balanced`` on its own."""
CHECKS: Final = frozenset({"elect-auto", "elect-auto-check", "elect-not-preferred"})
ELECTIONS: Final = CHECKS | {"elect-start"}
KINDS: Final = ELECTIONS | {
    "topics-changed", "partitions-added", "config-updated", "config-applied", "server-life",
}  # fmt: skip
ELECTION_MS: Final = 10_000
"""The controller writes the results of an announced election within this time."""
AFTER_MS: Final = 5_000
"""The last changes of a deletion or a reassignment may be logged this long after its end."""
START_MS: Final = 2_000
"""For this long after its start, a broker may still log old configuration changes again."""
ONE_ORDER_MS: Final = 1_000
"""Reassignments of a topic that begin within this time of the one before are one order."""
REPEAT_MS: Final = 10_000
"""All brokers log a configuration change within this time."""
CHECK_MS: Final = 2_000
"""An election at most this long after a check of the leader balance was ordered by that check."""
CONFIG_MAX: Final = 300
"""Longest text of a configuration that is shown, in characters."""
_EVER: Final = 2**62
_ENDS: Final = {
    COMPLETED: "began, and was completed",
    CANCELLED: "began, and was cancelled",
    REORDERED: "changed the order of the replicas only",
    UNCHANGED: "changed nothing: the replicas were the same",
    None: "began, and did not end",
}


class OperatorAct(NamedTuple):
    """One order of an operator, or one balancing of leaders by the controller."""

    at_ms: int
    to_ms: int | None
    """End of a deletion or reassignment; None: not ended, or an act without a duration."""
    act: str
    topic: str | None
    """None: the act does not concern a single topic."""
    partitions: int | None
    """Number of partitions; None: not known."""
    outcome: str | None
    """How a reassignment ended; None: it has not ended, or the act is no reassignment."""
    says: str
    file: str
    line: int


class Effect(NamedTuple):
    """The partitions that an act may change, and the time in which it may change them."""

    topic: str
    partition: int | None
    """None: all partitions of the topic."""
    from_ms: int
    to_ms: int


def acts(
    events: Sequence[Event],
    held: Sequence[Tenure],
    gone: Iterable[DeletedTopic],
    moves: Iterable[Reassignment],
) -> Iterator[OperatorAct]:
    """All acts; ``events`` must be in order and hold at least those of ``KINDS``."""
    deleted = list(gone)
    yield from _creations(events)
    yield from _growth(events)
    for each in deleted:
        end = "" if each.to_ms is not None else ", which did not end"
        says = f"Topic {each.topic} was deleted{end}"
        yield OperatorAct(
            each.from_ms, each.to_ms, DELETED, each.topic, None, None, says, each.file, each.line
        )
    yield from _elections(_orders(events, held))
    yield from _configurations(events, deleted)
    yield from _reassignments(moves)


def effects(
    events: Sequence[Event],
    held: Sequence[Tenure],
    gone: Iterable[DeletedTopic],
    moves: Iterable[Reassignment],
) -> Iterator[Effect]:
    """The partitions that acts may change; ``events``: in order, at least ``ELECTIONS``."""
    for each in gone:
        yield Effect(each.topic, None, each.from_ms, _end_ms(each.to_ms))
    for move in moves:
        yield Effect(move.topic, move.partition, move.from_ms, _end_ms(move.to_ms))
    for order in _orders(events, held):
        for name in order.partitions:
            if (partition := re.fullmatch(r"(.+)-([0-9]+)", name)) is not None:
                at_ms = order.event.time_ms
                yield Effect(partition[1], int(partition[2]), at_ms, at_ms + ELECTION_MS)


def _end_ms(to_ms: int | None) -> int:
    return _EVER if to_ms is None else to_ms + AFTER_MS


def _creations(events: Iterable[Event]) -> Iterator[OperatorAct]:
    for event in events:
        if event.kind == "topics-changed":
            inside = re.search(r"\((.*)\)", event.value("added") or "")
            for topic in () if inside is None else names(inside[1]):
                yield _act(event, CREATED, f"Topic {topic} was created", topic)


def _growth(events: Iterable[Event]) -> Iterator[OperatorAct]:
    for event in events:
        if event.kind == "partitions-added":
            listed = re.findall(r"([\w.-]+)-(\d+) ->", event.value("assignment") or "", re.ASCII)
            new: defaultdict[str, set[str]] = defaultdict(set)
            for topic, partition in listed:
                new[topic].add(partition)
            for topic, added in new.items():
                says = f"Topic {topic} got {len(added)} more partitions"
                yield _act(event, GROWN, says, topic, len(added))


def _act(
    event: Event, act: str, says: str, topic: str | None = None, partitions: int | None = None
) -> OperatorAct:
    return OperatorAct(
        event.time_ms, None, act, topic, partitions, None, says, event.file, event.line
    )


class _Order(NamedTuple):
    """An election that a line announces."""

    event: Event
    partitions: Sequence[str]
    is_auto: bool


def _orders(events: Iterable[Event], held: Sequence[Tenure]) -> Iterator[_Order]:
    """Elections of at least one partition, each with what ordered it."""
    checked_ms: dict[int | None, int] = {}
    for event in events:
        if event.kind in CHECKS:
            checked_ms[event.broker_id] = event.time_ms
        # 0.11 writes [a,0],[b,1].
        listed = re.sub(r"\[([^,\]]+),(\d+)\]", r"\1-\2", event.value("partitions") or "")
        if event.kind != "elect-start" or not listed.strip(" ") or _is_deposed(event, held):
            continue
        trigger = event.value("trigger")
        if trigger is None:
            # Before 2.4 the line does not say what ordered the election. A check of the leader
            # balance just before it shows that the controller did.
            is_auto = event.time_ms - checked_ms.get(event.broker_id, -_EVER) <= CHECK_MS
        else:
            is_auto = trigger == "AutoTriggered"
        yield _Order(event, names(listed), is_auto)


def _is_deposed(event: Event, held: Iterable[Tenure]) -> bool:
    """Whether another broker was controller then; a deposed controller's orders have no effect."""
    return event.broker_id is not None and any(
        tenure.broker is not None
        and tenure.broker != event.broker_id
        and tenure.from_ms + GRACE_MS <= event.time_ms
        and event.time_ms <= (_EVER if tenure.to_ms is None else tenure.to_ms)
        for tenure in held
    )


def _elections(orders: Iterable[_Order]) -> Iterator[OperatorAct]:
    # In 0.11 to 2.3 the controller logs one election for each partition, so sum those of a second.
    together: defaultdict[tuple[int | None, int, bool, bool], list[_Order]] = defaultdict(list)
    for order in orders:
        event, is_unclean = order.event, order.event.value("type") == "UNCLEAN"
        key = event.broker_id, event.time_ms // 1000, is_unclean, order.is_auto
        together[key].append(order)
    for (_, _, is_unclean, is_auto), alike in together.items():
        number = sum(len(order.partitions) for order in alike)
        many = "1 partition" if number == 1 else f"{number} partitions"
        act, says = PREFERRED, f"An election of preferred leaders was ordered for {many}"
        if is_auto:
            act = BALANCED
            says = f"The controller balanced leaders: the preferred leaders of {many}"
        elif is_unclean:
            act, says = UNCLEAN, f"An unclean election was ordered for {many}"
        yield _act(alike[0].event, act, says, None, number)


def _configurations(events: Iterable[Event], gone: Sequence[DeletedTopic]) -> Iterator[OperatorAct]:
    """One act for each change of a configuration, however many brokers log it.

    A broker that starts logs recent changes again, with their current values.
    """
    ordered: list[Event] = []
    repeats_until_ms: defaultdict[int | None, int] = defaultdict(int)
    last: dict[tuple[str, int], str | None] = {}
    changed_ms: defaultdict[str, list[int]] = defaultdict(list)
    for event in events:
        if event.kind == "server-life":
            is_starting = event.ends_with("starting")
            repeats_until_ms[event.broker_id] = _EVER if is_starting else event.time_ms + START_MS
        elif event.kind == "config-updated":
            ordered.append(event)
        elif event.kind == "config-applied":
            if event.time_ms <= repeats_until_ms[event.broker_id]:
                continue
            entity = _entity(event)
            # A deleted topic of the same name had its own configuration: compare only within one.
            ended = sum(
                f"topics/{each.topic}" == entity and (each.to_ms or _EVER) <= event.time_ms
                for each in gone
            )
            if last.get((entity, ended)) != _config(event):
                last[entity, ended] = _config(event)
                changed_ms[entity].append(event.time_ms)
                yield _configured(event)
    for event in ordered:
        known_ms = changed_ms[_entity(event)]
        # Skip a ``config-updated`` whose change a broker also logged as ``config-applied``.
        if not any(abs(at_ms - event.time_ms) <= REPEAT_MS for at_ms in known_ms):
            yield _configured(event)


def _configured(event: Event) -> OperatorAct:
    entity, config = _entity(event), _config(event)
    topic = entity.rpartition("/")[2] if entity.startswith("topics/") else None
    says = f"The configuration of {entity} became {'null' if config is None else config}"
    return _act(event, CONFIGURED, says, topic)


def _entity(event: Event) -> str:
    """The configured entity, such as ``topics/orders`` or ``brokers/1``."""
    path, kind, entity = (event.value(name) for name in ("path", "entity_type", "entity"))
    if path is not None:
        return path
    if kind is not None and entity is not None:
        return f"{kind}/{entity}"
    if event.topic is not None:
        return f"topics/{event.topic}"
    return "brokers/<default>" if event.peer is None else f"brokers/{event.peer}"


def _config(event: Event) -> str | None:
    config = event.value("config")
    if config is None:
        return None
    return re.sub(r"^\w*\((.*)\)$", r"\1", config, flags=re.ASCII)[:CONFIG_MAX]


def _reassignments(moves: Iterable[Reassignment]) -> Iterator[OperatorAct]:
    """One act for all partitions of a topic that one order reassigned."""
    together: defaultdict[tuple[str, str | None], list[list[Reassignment]]] = defaultdict(list)
    for move in sorted(moves, key=lambda each: each.from_ms):
        orders = together[move.topic, move.outcome]
        if not orders or move.from_ms - orders[-1][-1].from_ms >= ONE_ORDER_MS:
            orders.append([])
        orders[-1].append(move)
    for (topic, outcome), orders in together.items():
        for alike in orders:
            yield _reassigned(topic, outcome, alike)


def _reassigned(topic: str, outcome: str | None, alike: Sequence[Reassignment]) -> OperatorAct:
    first = min(alike, key=lambda move: (move.from_ms, move.file, move.line))
    number = len(alike)
    which = f"{topic}-{first.partition}" if number == 1 else f"{number} partitions of {topic}"
    return OperatorAct(
        at_ms=first.from_ms,
        to_ms=max((move.to_ms for move in alike if move.to_ms is not None), default=None),
        act=MOVED,
        topic=topic,
        partitions=number,
        outcome=outcome,
        says=f"A reassignment of {which} {_ENDS[outcome]}",
        file=first.file,
        line=first.line,
    )
