"""One reading of a cluster for ``zkctl doctor``: ZooKeeper in bulk, then every broker at once.

What can be read with one of the two alone is read; a rule that needs the other finds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, NamedTuple
from uuid import UUID

from zkcontroller.model import TopicPartition
from zkcontroller.zookeeper.answers import optional
from zkcontroller.zookeeper.requests import Stat
from zkcontroller.zookeeper.znodes import (
    ClusterIdZnode,
    ConfigChangesZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    DeleteTopicsZnode,
    DeleteTopicZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationZnode,
    ReassignPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)

from .partitions import PartitionView, TopicView, partitions_of, read_topics
from .registrations import Registration, read_registrations
from .topics import read_configs
from .zookeeper import ZooKeeper, decoded, now_ms

MIGRATION_PATH: Final = "/migration"
CONFIG_CHANGES_KEPT_S: Final = 900.0
"""Brokers delete changes of configurations then (``ZkNodeChangeNotificationListener``)."""
_MIN_IN_SYNC: Final = "min.insync.replicas"


class LogDir(NamedTuple):
    """One log directory of a broker; ``error`` is Kafka's name of its failure."""

    path: str
    error: str | None
    replicas: frozenset[tuple[str, int]]


class CachedState(NamedTuple):
    """A partition as a broker's metadata cache has it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]


@dataclass
class BrokerReading:
    """What one broker answered; ``error`` says why it did not."""

    broker_id: int
    error: str | None = None
    cluster_id: str | None = None
    live_brokers: frozenset[int] = frozenset()
    partitions: Mapping[tuple[str, int], CachedState] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    log_dirs: Sequence[LogDir] = ()
    differing: list[tuple[PartitionView, CachedState]] = field(default_factory=list)
    """Partitions whose cached state differs from ZooKeeper's."""


@dataclass
class ClusterReading:
    """Everything that the rules look at."""

    chroot: str
    patience_s: float
    """What is younger than this is under way, not stuck."""
    cluster_id: str | None = None
    controller_data: bytes | None = None
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    migration_version: int | None = None
    registrations: Mapping[int, Registration] = field(default_factory=dict)
    topics: Sequence[TopicView] = ()
    partitions: Sequence[PartitionView] = ()
    topic_ages_s: dict[str, float] = field(default_factory=dict)
    """How long each topic's znode is unchanged."""
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    default_config: Mapping[str, str] = field(default_factory=dict)
    """The dynamic configuration of all brokers."""
    deletions: dict[str, float] = field(default_factory=dict)
    """Topics to delete, and the age of the request in seconds."""
    ordered_moves: Sequence[TopicPartition] | None = None
    ordered_moves_age_s: float = 0.0
    notifications: dict[str, float] = field(default_factory=dict)
    znode_bytes: dict[str, int] = field(default_factory=dict)
    brokers: Sequence[BrokerReading] = ()
    probe: Any = None
    """Evidence that the controller did not answer a request which only a working one answers."""

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return f"{self.chroot}{path}"

    def topic_age_s(self, topic: str) -> float:
        """How long the topic's znode is unchanged."""
        return self.topic_ages_s.get(topic, 0.0)

    def min_in_sync(self, topic: str) -> int:
        """``min.insync.replicas`` as far as ZooKeeper knows it, 1 where nothing sets it."""
        own = self.topic_configs.get(topic, {})
        value = own.get(_MIN_IN_SYNC) or self.default_config.get(_MIN_IN_SYNC) or "1"
        return int(value) if value.isdecimal() else 1

    @cached_property
    def racks(self) -> dict[int, str]:
        """The rack of each registered broker; empty unless all of them have one."""
        racks = {id_: each.broker.rack for id_, each in self.registrations.items()}
        if any(rack is None for rack in racks.values()):
            return {}
        return {id_: rack for id_, rack in racks.items() if rack is not None}

    def replicas_of(self, broker_id: int) -> frozenset[tuple[str, int]]:
        """The partitions assigned to a broker."""
        return self._replicas.get(broker_id, frozenset())

    @cached_property
    def _replicas(self) -> dict[int, frozenset[tuple[str, int]]]:
        held: defaultdict[int, set[tuple[str, int]]] = defaultdict(set)
        for view in self.partitions:
            for broker in view.assignment.replicas:
                held[broker].add((view.topic, view.partition))
        return {broker: frozenset(those) for broker, those in held.items()}


def read_cluster(zookeeper: ZooKeeper, patience_s: float) -> ClusterReading:
    """What ZooKeeper holds.  Raises what the session raises."""
    reading = ClusterReading(zookeeper.full("/").rstrip("/"), patience_s)
    _read_controller(zookeeper, reading)
    reading.registrations = {each.broker.broker_id: each for each in read_registrations(zookeeper)}
    exists = optional(TopicsZnode.PATH, zookeeper.stats([TopicsZnode.PATH])[0]) is not None
    reading.topics = read_topics(zookeeper) if exists else []
    reading.partitions = partitions_of(zookeeper, reading.topics) if exists else []
    _read_topic_znodes(zookeeper, reading)
    _read_orders(zookeeper, reading)
    reading.notifications = _notifications(zookeeper)
    return reading


def _read_controller(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    paths = (
        ControllerZnode.PATH,
        ControllerEpochZnode.PATH,
        ClusterIdZnode.PATH,
        MIGRATION_PATH,
    )
    controller, epoch, cluster_id, migration = map(optional, paths, zookeeper.read(paths))
    if controller is not None:
        reading.controller_data = controller.data
        reading.controller = decoded(ControllerZnode.decode, controller.data)
    if epoch is not None:
        reading.controller_epoch = decoded(ControllerEpochZnode.decode, epoch.data)
    if cluster_id is not None:
        known = decoded(ClusterIdZnode.decode, cluster_id.data)
        reading.cluster_id = None if known is None else known.cluster_id
    reading.migration_version = None if migration is None else migration.zk_version


def _read_topic_znodes(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    now = now_ms()
    names = [topic.topic for topic in reading.topics]
    paths = [TopicZnode.path(name) for name in names]
    for name, path, answer in zip(names, paths, zookeeper.stats(paths), strict=True):
        stat = optional(path, answer)
        if stat is not None:
            reading.znode_bytes[path] = stat.data_length
            reading.topic_ages_s[name] = (now - stat.mtime_ms) / 1000
    paths = [ConfigZnode.topic_path(name) for name in names]
    *of_topics, of_all = read_configs(zookeeper, [*paths, ConfigZnode.broker_path(None)])
    for name, config in zip(names, of_topics, strict=True):
        reading.topic_configs[name] = config or {}
    reading.default_config = of_all or {}


def _read_orders(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    """What administrators ordered, and the controller has not carried out."""
    names = optional(DeleteTopicsZnode.PATH, zookeeper.children([DeleteTopicsZnode.PATH])[0]) or []
    paths = [DeleteTopicZnode.path(name) for name in names]
    now = now_ms()
    for name, path, answer in zip(names, paths, zookeeper.stats(paths), strict=True):
        stat = optional(path, answer)
        if stat is not None:
            reading.deletions[name] = (now - stat.ctime_ms) / 1000
    path = ReassignPartitionsZnode.PATH
    znode = optional(path, zookeeper.read([path])[0])
    found = optional(path, zookeeper.stats([path])[0])
    if znode is None or found is None:
        return
    reading.znode_bytes[path] = found.data_length
    reading.ordered_moves_age_s = (now - found.mtime_ms) / 1000
    orders = decoded(ReassignPartitionsZnode.decode, znode.data)
    reading.ordered_moves = None if orders is None else list(orders.partitions)


def _notifications(zookeeper: ZooKeeper) -> dict[str, float]:
    """The age of each notification beyond what it may have, in seconds."""
    ages = {}
    now = now_ms()
    for parent, allowed_s in (
        (IsrChangeNotificationZnode.PATH, 0.0),
        (LogDirEventNotificationZnode.PATH, 0.0),
        (ConfigChangesZnode.PATH, CONFIG_CHANGES_KEPT_S),
    ):
        names = optional(parent, zookeeper.children([parent])[0]) or []
        paths = [f"{parent}/{name}" for name in names]
        for path, answer in zip(paths, zookeeper.stats(paths), strict=True):
            stat: Stat | None = optional(path, answer)
            if stat is not None and (age_s := (now - stat.ctime_ms) / 1000) > allowed_s:
                ages[path] = age_s
    return ages
