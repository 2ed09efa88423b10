"""The conditions of ``zkctl wait``, and whether one look at the cluster fulfils them: pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.values.moves import NamedPartition, parse_partition

_FORMS: Final = "isr=full, controller, deleted=TOPIC, reassigned, broker=ID, leader=TOPIC-PARTITION"
MOST_NAMED: Final = 20
"""The most unfulfilled parts of a condition that are named; the others are counted."""


class WaitKind(StrEnum):
    """What ``zkctl wait`` can wait for."""

    ISR = "isr"
    CONTROLLER = "controller"
    DELETED = "deleted"
    REASSIGNED = "reassigned"
    BROKER = "broker"
    LEADER = "leader"


class Condition(NamedTuple):
    """One condition of ``--for``; None for the fields that its kind does not have."""

    text: str
    kind: WaitKind
    topic: str | None = None
    partition: int | None = None
    broker_id: int | None = None


class PartitionLook(NamedTuple):
    """A partition's state, and its replicas without those that a reassignment is adding."""

    leader: int
    in_sync_replicas: tuple[int, ...]
    wanted_replicas: tuple[int, ...]
    is_moving: bool


class ClusterLook(NamedTuple):
    """The values that one look has read; only those that the conditions need, else empty."""

    controller_id: int | None
    live_brokers: Collection[int]
    partitions: Mapping[NamedPartition, PartitionLook] = {}
    topics_there: Collection[str] = ()
    """The topics of ``deleted`` conditions that still exist."""


def parse_condition(text: str) -> Condition:
    """Parse one ``--for``; BadUsage if it has none of the known forms."""
    name, equals, value = text.partition("=")
    match name, value:
        case ("isr", "full"):
            return Condition(text, WaitKind.ISR)
        case ("controller" | "reassigned", "") if not equals:
            return Condition(text, WaitKind(name))
        case ("deleted", topic) if topic:
            return Condition(text, WaitKind.DELETED, topic=topic)
        case ("broker", number) if number.isascii() and number.isdecimal() and len(number) <= 10:
            return Condition(text, WaitKind.BROKER, broker_id=int(number))
        case ("leader", partition) if partition:
            return Condition(text, WaitKind.LEADER, *parse_partition(partition))
        case _:
            raise BadUsage(f"{text!r} is none of {_FORMS}")


def missing_for(condition: Condition, look: ClusterLook, topics: Iterable[str]) -> list[str]:
    """The reasons why the condition is not fulfilled yet, as texts; empty if it is fulfilled.

    ``topics``: globs that limit ``isr=full`` and ``reassigned``; empty: every topic.
    """
    match condition.kind:
        case WaitKind.CONTROLLER:
            return _controller_missing(look)
        case WaitKind.BROKER:
            is_there = condition.broker_id in look.live_brokers
            return [] if is_there else [f"broker {condition.broker_id} is not registered"]
        case WaitKind.DELETED:
            is_there = condition.topic in look.topics_there
            return [f"topic {condition.topic} is still there"] if is_there else []
        case WaitKind.LEADER:
            return _leader_missing(condition, look)
        case WaitKind.ISR:
            return _not_in_sync(look, list(topics))
        case WaitKind.REASSIGNED:
            return [
                f"{each.topic}-{each.partition} is being moved"
                for each, view in sorted(look.partitions.items())
                if view.is_moving and _is_chosen(each.topic, list(topics))
            ]


def _controller_missing(look: ClusterLook) -> list[str]:
    if look.controller_id is None:
        return ["there is no controller"]
    if look.controller_id not in look.live_brokers:
        return [f"the controller, broker {look.controller_id}, is not registered"]
    return []


def _leader_missing(condition: Condition, look: ClusterLook) -> list[str]:
    assert condition.topic is not None, "parse_condition sets it"
    assert condition.partition is not None, "parse_condition sets it"
    name = f"{condition.topic}-{condition.partition}"
    view = look.partitions.get(NamedPartition(condition.topic, condition.partition))
    if view is None:
        return [f"there is no partition {name}"]
    return _without_leader(name, view, look)


def _without_leader(name: str, view: PartitionLook, look: ClusterLook) -> list[str]:
    if view.leader < 0:
        return [f"{name} has no leader"]
    if view.leader not in look.live_brokers:
        return [f"leader {view.leader} of {name} is not registered"]
    return []


def _not_in_sync(look: ClusterLook, topics: list[str]) -> list[str]:
    there = {each.topic for each in look.partitions}
    missing = [
        f"there is no topic {topic}"
        for topic in topics
        if not any(fnmatchcase(each, topic) for each in there)
    ]
    for each, view in sorted(look.partitions.items()):
        if not _is_chosen(each.topic, topics):
            continue
        name = f"{each.topic}-{each.partition}"
        missing += _without_leader(name, view, look)
        lacking = [b for b in view.wanted_replicas if b not in view.in_sync_replicas]
        if len(view.in_sync_replicas) < len(view.wanted_replicas):
            missing.append(f"{name} lacks {', '.join(map(str, lacking))} in sync")
    return missing


def _is_chosen(topic: str, topics: list[str]) -> bool:
    return not topics or any(fnmatchcase(topic, glob) for glob in topics)


def summary_of(missing: Collection[str], most: int = MOST_NAMED) -> list[str]:
    """The first ``most`` texts, and one about how many more there are."""
    listed = list(missing)
    more = len(listed) - most
    return listed[:most] + ([f"and {more} more"] if more > 0 else [])
