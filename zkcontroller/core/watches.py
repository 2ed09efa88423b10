"""Translates a fired watch to its event.

The mapping needs no memory: whether this broker is the controller is asked when the event is
processed.

Source: Kafka ``KafkaController``'s ZNode change handlers.
"""

from __future__ import annotations

import re

from kafka_common.model import ElectionType, TopicPartition
from zkcontroller.core.events import (
    BrokerChange,
    BrokerModifications,
    ControllerChange,
    ElectionTrigger,
    Event,
    IsrChangeNotification,
    LogDirEventNotification,
    PartitionModifications,
    PartitionReassignmentIsrChange,
    Reelect,
    ReplicaLeaderElection,
    TopicChange,
    TopicDeletion,
    ZkPartitionReassignment,
)
from zkcontroller.zookeeper.requests import WatchFired, WatchKind
from zkcontroller.zookeeper.znodes import (
    BrokerIdsZnode,
    ControllerZnode,
    DeleteTopicsZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationZnode,
    PreferredReplicaElectionZnode,
    ReassignPartitionsZnode,
    TopicsZnode,
)


def event_for_watch(fired: WatchFired) -> Event | None:
    """The event for a fired watch; None for a change that the controller ignores."""
    kind, path = fired
    if path == ControllerZnode.PATH:
        return Reelect() if kind is WatchKind.NODE_DELETED else ControllerChange()
    if kind is WatchKind.NODE_CHILDREN_CHANGED:
        return _CHILD_EVENTS.get(path)
    if kind in (WatchKind.NODE_CREATED, WatchKind.NODE_DELETED):
        # After a deletion the next creation must be noticed too: look again, leaving a watch.
        return _ORDER_EVENTS.get(path)
    if kind is WatchKind.NODE_DATA_CHANGED:
        if path == ReassignPartitionsZnode.PATH:
            return ZkPartitionReassignment(is_new=False)
        parent, _, name = path.rpartition("/")
        if parent == BrokerIdsZnode.PATH and name.isdecimal():
            return BrokerModifications(int(name))
        if parent == TopicsZnode.PATH and name:
            return PartitionModifications(name)
        state = _STATE_PATH(path)
        if state is not None:
            return PartitionReassignmentIsrChange(TopicPartition(state[1], int(state[2])))
    # A deleted broker or topic znode is seen by the watch on its parent's children.
    return None


_CHILD_EVENTS: dict[str, Event] = {
    BrokerIdsZnode.PATH: BrokerChange(),
    TopicsZnode.PATH: TopicChange(),
    DeleteTopicsZnode.PATH: TopicDeletion(),
    IsrChangeNotificationZnode.PATH: IsrChangeNotification(),
    LogDirEventNotificationZnode.PATH: LogDirEventNotification(),
}
_ORDER_EVENTS: dict[str, Event] = {
    ReassignPartitionsZnode.PATH: ZkPartitionReassignment(),
    PreferredReplicaElectionZnode.PATH: ReplicaLeaderElection(
        None, ElectionType.PREFERRED, ElectionTrigger.ZOOKEEPER
    ),
}
_STATE_PATH = re.compile(r"/brokers/topics/([^/]+)/partitions/([0-9]{1,10})/state").fullmatch
