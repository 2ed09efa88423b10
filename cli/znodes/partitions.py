"""Reads topics and partitions from znodes, in bulk for clusters of 100,000 partitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

from kafka_common.model import NO_LEADER, ReplicaAssignment
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdsZnode,
    PartitionStateZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.znodes.session import ZooKeeper, decoded


class PartitionView(NamedTuple):
    """One partition: its assignment, and its state; None if that is missing or corrupt."""

    topic: str
    partition: int
    assignment: ReplicaAssignment
    state: PartitionStateZnode | None
    zk_version: int | None
    leader_is_live: bool

    @property
    def is_offline(self) -> bool:
        """Whether there is no state, no leader, or a leader that is not registered."""
        return self.state is None or not self.leader_is_live

    @property
    def is_under_replicated(self) -> bool:
        """Whether fewer replicas are in sync than assigned, not counting adding replicas.

        Source: Kafka ``TopicCommand.PartitionDescription.isUnderReplicated``.
        """
        in_sync = () if self.state is None else self.state.in_sync_replicas
        return len(in_sync) < len(self.assignment.origin_replicas)

    @property
    def is_not_preferred(self) -> bool:
        """Whether the leader is not the first replica."""
        return self.state is None or self.state.leader != self.assignment.replicas[0]

    def row(self) -> dict[str, Any]:
        """The partition as a row of every verb; None for values of a missing or corrupt state."""
        state = self.state
        return {
            "topic": self.topic,
            "partition": self.partition,
            "leader": None if state is None else state.leader,
            "leader_epoch": None if state is None else state.leader_epoch,
            "isr": None if state is None else state.in_sync_replicas,
            "replicas": self.assignment.replicas,
            "adding_replicas": self.assignment.adding_replicas,
            "removing_replicas": self.assignment.removing_replicas,
            "controller_epoch": None if state is None else state.controller_epoch,
            "zk_version": self.zk_version,
            "leader_recovery_state": None if state is None else state.leader_recovery_state,
            "is_offline": self.is_offline,
            "is_under_replicated": self.is_under_replicated,
            "is_preferred_leader": not self.is_not_preferred,
        }


class TopicView(NamedTuple):
    """The content of one topic's znode."""

    topic: str
    topic_id: UUID | None
    partitions: dict[int, ReplicaAssignment]


def read_topics(zookeeper: ZooKeeper, topics: Sequence[str] | None = None) -> list[TopicView]:
    """Read the topics with these names; None: all topics.

    A corrupt znode among all topics is warned about and left out; a topic asked for by name that is
    missing or corrupt is Refused.
    """
    names = _topic_names(zookeeper) if topics is None else list(dict.fromkeys(topics))
    paths = [TopicZnode.path(name) for name in names]
    views = []
    for name, path, result in zip(names, paths, zookeeper.read(paths), strict=True):
        znode = optional(path, result)
        if znode is None and topics is not None:
            raise Refused(f"there is no topic {name}; zkctl topic list shows all")
        if znode is None:
            continue  # deleted since it was listed
        topic = decoded(TopicZnode.decode, name, znode.data)
        if topic is None and topics is not None:
            look = command_line("znode get", path)
            raise Refused(f"the znode {path} of topic {name} is corrupt: {look}")
        if topic is not None:
            views.append(TopicView(name, topic.topic_id, dict(sorted(topic.partitions.items()))))
    return views


def read_partitions(
    zookeeper: ZooKeeper, topics: Sequence[str] | None = None
) -> list[PartitionView]:
    """Read the partitions of topics; for a corrupt state there is a warning, and it is None."""
    return partitions_of(zookeeper, read_topics(zookeeper, topics))


def partitions_of(zookeeper: ZooKeeper, topics: Sequence[TopicView]) -> list[PartitionView]:
    """Read the states of the partitions of these topics."""
    live = set(live_broker_ids(zookeeper))
    assignments = [
        (topic.topic, partition, assignment)
        for topic in topics
        for partition, assignment in topic.partitions.items()
    ]
    paths = [PartitionStateZnode.path(topic, partition) for topic, partition, _ in assignments]
    views = []
    for (topic, partition, assignment), path, result in zip(
        assignments, paths, zookeeper.read(paths), strict=True
    ):
        state, zk_version = None, None
        # The state is missing until the controller has created the partition.
        if (znode := optional(path, result)) is not None:
            zk_version = znode.zk_version
            state = decoded(PartitionStateZnode.decode, path, znode.data)
        is_live = state is not None and state.leader != NO_LEADER and state.leader in live
        views.append(PartitionView(topic, partition, assignment, state, zk_version, is_live))
    return views


def live_broker_ids(zookeeper: ZooKeeper) -> list[int]:
    """The ids of the registered brokers, ascending."""
    names = optional(BrokerIdsZnode.PATH, zookeeper.children([BrokerIdsZnode.PATH])[0])
    return sorted(int(name) for name in names or () if name.isdecimal())


def _topic_names(zookeeper: ZooKeeper) -> list[str]:
    result = zookeeper.children([TopicsZnode.PATH])[0]
    if result is ZkCode.NO_NODE:
        raise Refused(
            f"there is no znode {zookeeper.full(TopicsZnode.PATH)}: no Kafka cluster yet, "
            "or it has another chroot"
        )
    return optional(TopicsZnode.PATH, result) or []
