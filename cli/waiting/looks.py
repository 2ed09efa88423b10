"""Reads the cluster for ``zkctl wait``: from ZooKeeper with watches, or from brokers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerZnode,
    DeleteTopicZnode,
    PartitionStateZnode,
    ReassignPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.console.errors import Refused, TimedOut
from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.topics.presence import topics_in_znodes
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.waiting.conditions import ClusterLook, Condition, PartitionLook, WaitKind
from zkcontroller_cli.wire.admin import Ongoing, ongoing_reassignments
from zkcontroller_cli.wire.requests import Deadline, metadata
from zkcontroller_cli.wire.topic_state import topics_still_there
from zkcontroller_cli.znodes.cluster_view import read_controller
from zkcontroller_cli.znodes.partitions import live_broker_ids, partitions_of, read_topics
from zkcontroller_cli.znodes.session import ZooKeeper, decoded
from zkcontroller_cli.znodes.topics import read_deletions

_MOST_WATCHED: Final = 1_000
_MOVES_S: Final = 3.0
"""Seconds that the controller may take to list reassignments, in one look."""
_OF_PARTITIONS: Final = frozenset((WaitKind.ISR, WaitKind.LEADER, WaitKind.REASSIGNED))


def look_at_zookeeper(zookeeper: ZooKeeper, conditions: Sequence[Condition]) -> ClusterLook:
    """Read the values that the conditions need from ZooKeeper."""
    kinds = {condition.kind for condition in conditions}
    live = frozenset(live_broker_ids(zookeeper))
    controller = read_controller(zookeeper) if WaitKind.CONTROLLER in kinds else None
    deleted = [c.topic for c in conditions if c.kind is WaitKind.DELETED and c.topic is not None]
    there = topics_in_znodes(zookeeper, deleted) if deleted else {}
    return ClusterLook(
        None if controller is None else controller.controller_id,
        live,
        _partitions_in_znodes(zookeeper, kinds) if kinds & _OF_PARTITIONS else {},
        [topic for topic, is_there in there.items() if is_there],
    )


def _partitions_in_znodes(
    zookeeper: ZooKeeper, kinds: Collection[WaitKind]
) -> dict[NamedPartition, PartitionLook]:
    exists = optional(TopicsZnode.PATH, zookeeper.stats([TopicsZnode.PATH])[0]) is not None
    topics = read_topics(zookeeper) if exists else []
    marked = read_deletions(zookeeper)
    ordered = _ordered_moves(zookeeper) if WaitKind.REASSIGNED in kinds else frozenset()
    return {
        NamedPartition(view.topic, view.partition): PartitionLook(
            -1 if view.state is None else view.state.leader,
            () if view.state is None else tuple(view.state.in_sync_replicas),
            tuple(view.assignment.origin_replicas),
            bool(view.assignment.adding_replicas or view.assignment.removing_replicas)
            or (view.topic, view.partition) in ordered,
        )
        for view in partitions_of(zookeeper, topics)
        if view.topic not in marked
    }


def _ordered_moves(zookeeper: ZooKeeper) -> frozenset[tuple[str, int]]:
    path = ReassignPartitionsZnode.PATH
    znode = optional(path, zookeeper.read([path])[0])
    found = None if znode is None else decoded(ReassignPartitionsZnode.decode, znode.data)
    if found is None:
        return frozenset()
    return frozenset((each.topic, each.partition) for each in found.partitions)


def watch_for(zookeeper: ZooKeeper, conditions: Sequence[Condition], look: ClusterLook) -> None:
    """Set watches on the znodes whose change may fulfil a condition."""
    paths: dict[str, None] = {}
    for condition in conditions:
        match condition.kind:
            case WaitKind.CONTROLLER:
                paths[ControllerZnode.PATH] = None
            case WaitKind.BROKER:
                assert condition.broker_id is not None, "parse_condition sets it"
                paths[BrokerIdZnode.path(condition.broker_id)] = None
            case WaitKind.DELETED:
                assert condition.topic is not None, "parse_condition sets it"
                paths[TopicZnode.path(condition.topic)] = None
                paths[DeleteTopicZnode.path(condition.topic)] = None
            case WaitKind.LEADER:
                assert condition.topic is not None, "parse_condition sets it"
                assert condition.partition is not None, "parse_condition sets it"
                paths[PartitionStateZnode.path(condition.topic, condition.partition)] = None
            case WaitKind.ISR:
                for each, view in look.partitions.items():
                    if len(view.in_sync_replicas) < len(view.wanted_replicas) or view.leader < 0:
                        paths[PartitionStateZnode.path(*each)] = None
            case WaitKind.REASSIGNED:
                paths[ReassignPartitionsZnode.PATH] = None
                for each, view in look.partitions.items():
                    if view.is_moving:
                        paths[TopicZnode.path(each.topic)] = None
    zookeeper.stats(list(paths)[:_MOST_WATCHED], watch=True)


async def look_at_brokers(
    bootstrap: Bootstrap, deadline: Deadline, conditions: Sequence[Condition]
) -> ClusterLook:
    """Read the values that the conditions need from brokers.

    Refused if they do not show whether a topic is gone.
    """
    kinds = {condition.kind for condition in conditions}
    known = await metadata(bootstrap, deadline, None if kinds & _OF_PARTITIONS else ())
    moves: dict[tuple[str, int], Ongoing] = {}
    if kinds & {WaitKind.ISR, WaitKind.REASSIGNED}:
        moves = await _moves(bootstrap, deadline, is_needed=WaitKind.REASSIGNED in kinds)
    partitions = {}
    for topic in known.topics:
        for each in topic.partitions:
            name = NamedPartition(str(topic.name), int(each.partition_index))
            move = moves.get(name)
            adding = () if move is None else move.adding_replicas
            partitions[name] = PartitionLook(
                int(each.leader_id),
                tuple(map(int, each.isr_nodes)),
                tuple(int(broker) for broker in each.replica_nodes if broker not in adding),
                move is not None,
            )
    deleted = [c.topic for c in conditions if c.kind is WaitKind.DELETED and c.topic is not None]
    there = await topics_still_there(bootstrap, deadline, deleted) if deleted else {}
    for topic_name, is_there in there.items():
        if is_there is None:
            raise Refused(
                f"whether topic {topic_name} is gone cannot be seen with these brokers' answers: "
                "name its ZooKeeper with -z"
            )
    controller_id = int(known.controller_id)
    return ClusterLook(
        None if controller_id < 0 else controller_id,
        frozenset(int(broker.node_id) for broker in known.brokers),
        partitions,
        [name for name, is_there in there.items() if is_there],
    )


async def _moves(
    bootstrap: Bootstrap, deadline: Deadline, *, is_needed: bool
) -> dict[tuple[str, int], Ongoing]:
    deadline = Deadline(min(_MOVES_S, deadline.left_s))
    try:
        ongoing = await ongoing_reassignments(bootstrap, deadline)
    except (Refused, TimedOut):
        if is_needed:
            raise
        return {}  # before Kafka 2.4, or without a controller: adding replicas count as well
    return {NamedPartition(each.topic, each.partition): each for each in ongoing}
