"""What ``zkctl top`` lists: brokers, topics, partitions, reassignments, groups, as rows of values.

Pure.  All numbers over all partitions are counted in one pass (:func:`census`) for each reading.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeAlias

from zkcontroller_cli.screen.model import Monitor, Name, Reading
from zkcontroller_cli.znodes.partitions import PartitionView

Row: TypeAlias = dict[str, Any]
"""Values by key; None for a value that is not known."""


class PartitionCounts(NamedTuple):
    """The number of partitions, and of those in each state that needs attention."""

    partitions: int
    offline: int
    under_replicated: int
    not_preferred: int
    reassigning: int


_NO_PARTITIONS: Final = PartitionCounts(0, 0, 0, 0, 0)


@dataclass
class BrokerCounts:
    """How many replicas, leaders and preferred leaders a broker has."""

    leaders: int = 0
    replicas: int = 0
    out_of_sync: int = 0
    preferred: int = 0


@dataclass
class TopicCounts:
    """The number of partitions of one topic, in all and by state."""

    partitions: int = 0
    replication_factor: int = 0
    offline: int = 0
    under_replicated: int = 0
    not_preferred: int = 0
    reassigning: int = 0
    bytes: int | None = None
    """The size of all its replicas on brokers that answered; None if none of them is known."""


@dataclass
class Census:
    """The counts over all partitions: by broker, by topic, and in all."""

    brokers: Mapping[int, BrokerCounts] = field(default_factory=dict)
    topics: Mapping[str, TopicCounts] = field(default_factory=dict)
    states: PartitionCounts = _NO_PARTITIONS
    troubles: Mapping[Name, str] = field(default_factory=dict)
    """By partition, its states that need attention; healthy partitions are left out."""


def census(reading: Reading) -> Census:
    """Count the partitions of a reading."""
    brokers: defaultdict[int, BrokerCounts] = defaultdict(BrokerCounts)
    topics: defaultdict[str, TopicCounts] = defaultdict(TopicCounts)
    troubles: dict[Name, str] = {}
    for name, view in (reading.partitions or {}).items():
        assignment, state = view.assignment, view.state
        replicas = assignment.replicas
        topic = topics[name[0]]
        topic.partitions += 1
        topic.replication_factor = max(topic.replication_factor, len(replicas))
        in_sync = () if state is None else state.in_sync_replicas
        for broker in replicas:
            counts = brokers[broker]
            counts.replicas += 1
            counts.out_of_sync += broker not in in_sync
        if replicas:
            brokers[replicas[0]].preferred += 1
        if state is not None and view.leader_is_live:
            brokers[state.leader].leaders += 1
        if trouble := trouble_of(view):
            troubles[name] = trouble
            topic.offline += "offline" in trouble
            topic.under_replicated += "under-replicated" in trouble
            topic.not_preferred += "not preferred" in trouble
            topic.reassigning += "reassigning" in trouble
    for sizes in (reading.sizes or {}).values():
        for name, size in sizes.items():
            if name[0] in topics:
                found = topics[name[0]]
                found.bytes = (found.bytes or 0) + size
    return Census(
        brokers,
        topics,
        PartitionCounts(
            len(reading.partitions or ()),
            *(
                sum(getattr(topic, state) for topic in topics.values())
                for state in ("offline", "under_replicated", "not_preferred", "reassigning")
            ),
        ),
        troubles,
    )


def trouble_of(view: PartitionView) -> str:
    """The states of a partition that need attention, in words; empty if there are none.

    An offline partition is never "not preferred".
    """
    words = []
    assignment = view.assignment
    is_moving = bool(assignment.adding_replicas or assignment.removing_replicas)
    if view.is_offline:
        words.append("offline")
    elif assignment.replicas and view.is_not_preferred:
        words.append("not preferred")
    in_sync = 0 if view.state is None else len(view.state.in_sync_replicas)
    if in_sync < len(assignment.origin_replicas if is_moving else assignment.replicas):
        words.append("under-replicated")
    if is_moving:
        words.append("reassigning")
    return ", ".join(words)


def broker_rows(monitor: Monitor, counted: Census) -> list[Row]:
    """Every broker that is alive or has replicas, by id."""
    reading = monitor.latest
    if reading is None:
        return []
    live = reading.brokers
    ids = sorted((live or {}).keys() | counted.brokers.keys())
    controller_id = None if reading.controller is None else reading.controller.controller_id
    has_partitions = reading.partitions is not None
    rows = []
    for broker_id in ids:
        broker = None if live is None else live.get(broker_id)
        counts = counted.brokers.get(broker_id, BrokerCounts())
        sizes = (reading.sizes or {}).get(broker_id)
        registered_at_ms = None if broker is None else broker.registered_at_ms
        rows.append(
            {
                "broker_id": broker_id,
                "is_alive": None if live is None else broker is not None,
                "is_controller": broker_id == controller_id,
                "host": None if broker is None else broker.host,
                "port": None if broker is None else broker.port,
                "rack": None if broker is None else broker.rack,
                "leader_count": counts.leaders if has_partitions else None,
                "preferred_leader_count": counts.preferred if has_partitions else None,
                "replica_count": counts.replicas if has_partitions else None,
                "out_of_sync_count": counts.out_of_sync if has_partitions else None,
                "size_bytes": None if sizes is None else sum(sizes.values()),
                "bytes_per_s": monitor.growth.get(broker_id),
                "session_age_ms": None
                if registered_at_ms is None
                else max(0, reading.at_ms - registered_at_ms),
            }
        )
    return rows


def topic_rows(monitor: Monitor, counted: Census) -> list[Row]:
    """Every topic, by name."""
    reading = monitor.latest
    if reading is None:
        return []
    deletions = reading.deletions or {}
    names = sorted({*counted.topics, *(reading.topics or ()), *deletions})
    rows = []
    for name in names:
        counts = counted.topics.get(name, TopicCounts())
        ordered_at_ms = deletions.get(name)
        rows.append(
            {
                "topic": name,
                "partition_count": counts.partitions,
                "replication_factor": counts.replication_factor,
                "offline_count": counts.offline,
                "under_replicated_count": counts.under_replicated,
                "not_preferred_count": counts.not_preferred,
                "reassigning_count": counts.reassigning,
                "size_bytes": counts.bytes,
                "deletion_age_ms": None
                if ordered_at_ms is None
                else max(0, reading.at_ms - ordered_at_ms),
            }
        )
    return rows


def partition_row(view: PartitionView, counted: Census) -> Row:
    """One partition as a row."""
    name = (view.topic, view.partition)
    state = view.state
    return {
        "topic": view.topic,
        "partition": view.partition,
        "leader": None if state is None else state.leader,
        "leader_epoch": None if state is None else state.leader_epoch,
        "isr": None if state is None else state.in_sync_replicas,
        "replicas": view.assignment.replicas,
        "trouble": counted.troubles.get(name, ""),
    }


def move_rows(monitor: Monitor) -> list[Row]:
    """Every reassignment, with its progress and the remaining time."""
    return [
        {
            "topic": move.topic,
            "partition": move.partition,
            "replicas": move.replicas,
            "adding_replicas": move.adding_replicas,
            "removing_replicas": move.removing_replicas,
            "in_sync_count": move.in_sync,
            "copied_bytes": move.copied_bytes,
            "total_bytes": move.total_bytes,
            "bytes_per_s": move.bytes_per_s,
            "remaining_ms": None if move.remaining_s is None else round(move.remaining_s * 1000),
        }
        for move in monitor.moves
    ]


def group_rows(monitor: Monitor) -> list[Row]:
    """Every group, by name."""
    reading = monitor.latest
    return [
        {
            "group": each.group,
            "state": each.state,
            "protocol_type": each.protocol_type,
            "coordinator": each.coordinator,
            "partition_count": each.partitions,
            "lag": each.lag,
            "lag_per_s": monitor.lag_rates.get(each.group),
            "unknown_count": each.unknown,
            "note": each.note,
        }
        for each in sorted((reading.groups if reading else None) or ())
    ]


def record(monitor: Monitor, counted: Census) -> Row:
    """The latest reading as the record that ``zkctl top --once`` prints."""
    reading = monitor.latest
    assert reading is not None, "a reading was taken"
    controller = reading.controller
    elected_at_ms = None if controller is None else controller.elected_at_ms
    has_partitions = reading.partitions is not None
    states = counted.states
    queue = reading.queue
    return {
        "time_ms": reading.at_ms,
        "took_ms": reading.took_ms,
        "source": reading.source,
        "cluster_id": reading.cluster_id,
        "controller_id": None if controller is None else controller.controller_id,
        "controller_epoch": None if controller is None else controller.controller_epoch,
        "elected_at_ms": elected_at_ms,
        "tenure_ms": None if elected_at_ms is None else max(0, reading.at_ms - elected_at_ms),
        "event_queue_size": None if queue is None else queue.size,
        "event_queue_median_ms": None if queue is None else queue.median_ms,
        "event_queue_p99_ms": None if queue is None else queue.p99_ms,
        "topic_count": None if reading.topics is None else len(reading.topics),
        "partition_count": states.partitions if has_partitions else None,
        "offline_count": states.offline if has_partitions else None,
        "under_replicated_count": states.under_replicated if has_partitions else None,
        "not_preferred_count": states.not_preferred if has_partitions else None,
        "reassigning_count": states.reassigning if has_partitions else None,
        "deletion_count": None if reading.deletions is None else len(reading.deletions),
        "group_count": None if reading.groups is None else len(reading.groups),
        "problems": list(reading.problems),
        "brokers": broker_rows(monitor, counted),
        "reassignments": move_rows(monitor),
        "deletions": None
        if reading.deletions is None
        else [
            {"topic": name, "ordered_at_ms": at_ms, "age_ms": max(0, reading.at_ms - at_ms)}
            for name, at_ms in sorted(reading.deletions.items())
        ],
        "groups": None if reading.groups is None else group_rows(monitor),
    }
