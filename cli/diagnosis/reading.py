"""One reading of a cluster for ``zkctl doctor``: ZooKeeper in bulk, then every broker at once.

What can be read with one of the two alone is read; a rule that needs the other finds nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NamedTuple
from uuid import UUID

from kafka_common.errors import ZooKeeperRefused
from kafka_common.model import TopicPartition
from zkcontroller.zookeeper.requests import Stat
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ClusterIdZnode,
    ConfigZnode,
    ControllerEpochZnode,
    ControllerZnode,
    IsrChangeNotificationZnode,
    LogDirEventNotificationZnode,
    ReassignPartitionsZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.diagnosis.ensemble import ServerReading, sessions_note, unchecked_servers
from zkcontroller_cli.diagnosis.findings import Evidence, Place
from zkcontroller_cli.diagnosis.looks import Look, Silence
from zkcontroller_cli.wire.metadata_responses import CachedState
from zkcontroller_cli.znodes.partitions import PartitionView, TopicView, partitions_of, read_topics
from zkcontroller_cli.znodes.registrations import LiveBroker, read_registrations
from zkcontroller_cli.znodes.session import ZooKeeper, decoded, now_ms
from zkcontroller_cli.znodes.topics import read_configs, read_deletions

MIGRATION_PATH: Final = "/migration"
BROKER_S: Final = 5.0
"""So long each broker may take for its answers, if nothing else is said."""
_MIN_IN_SYNC: Final = "min.insync.replicas"


class LogDir(NamedTuple):
    """One log directory of a broker; ``error`` is Kafka's name of its failure."""

    path: str
    error: str | None
    replicas: Mapping[tuple[str, int], int]
    """The bytes of each replica's log."""


@dataclass
class BrokerReading:
    """What one broker answered; ``error`` says why it did not."""

    broker_id: int
    error: str | None = None
    is_asked: bool = True
    """False if no question reached it: no listener for ``zkctl``, or no login."""
    cluster_id: str | None = None
    live_brokers: frozenset[int] = frozenset()
    partitions: Mapping[tuple[str, int], CachedState] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    log_dirs: Sequence[LogDir] = ()
    differing: list[tuple[PartitionView, CachedState]] = field(default_factory=list)
    """Partitions whose cached state differs from ZooKeeper's."""
    unknown_topics: list[str] = field(default_factory=list)
    """Topics with leaders that it does not know."""
    refused_topics: list[str] = field(default_factory=list)
    """Topics of which it keeps a log with another topic id than its metadata has."""
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """Where its metadata has the brokers."""
    session_timeout_ms: int | None = None


class Copied(NamedTuple):
    """The bytes of replicas that are being added, by broker, topic and partition."""

    at_ms: int
    of_replicas: Mapping[tuple[int, str, int], int]


@dataclass
class ClusterReading:
    """Everything that the rules look at."""

    chroot: str
    patience_s: float
    """What is younger than this is under way, not stuck."""
    broker_s: float = BROKER_S
    """So long each broker may take for its answers."""
    cluster_id: str | None = None
    controller_data: bytes | None = None
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    zk_versions: dict[str, int] = field(default_factory=dict)
    """By path, of the znodes that are there; a partition's state has its own."""
    registrations: Mapping[int, LiveBroker] = field(default_factory=dict)
    topics: Sequence[TopicView] = ()
    partitions: Sequence[PartitionView] = ()
    topic_ages_s: dict[str, float] = field(default_factory=dict)
    """How long each topic's znode is unchanged."""
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    default_config: Mapping[str, str] = field(default_factory=dict)
    """The dynamic configuration of all brokers."""
    broker_configs: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The dynamic configuration of each broker that has one, alive or not."""
    config_ages_s: dict[str, float] = field(default_factory=dict)
    """By path, how long the znode of a configuration is unchanged."""
    deletions: dict[str, float] = field(default_factory=dict)
    """Topics to delete, and the age of the request in seconds."""
    ordered_moves: Sequence[TopicPartition] | None = None
    ordered_moves_age_s: float = 0.0
    notifications: dict[str, float] = field(default_factory=dict)
    znode_bytes: dict[str, int] = field(default_factory=dict)
    brokers: Sequence[BrokerReading] = ()
    probe: Evidence | None = None
    """Evidence that the controller did not answer a request which only a working one answers."""
    at_ms: int = 0
    security_protocol: str = "PLAINTEXT"
    registration_ages_s: dict[int, float] = field(default_factory=dict)
    strangers: list[Place] = field(default_factory=list)
    """Brokers that answer and are not registered, and addresses of another cluster."""
    caught_up: list[tuple[PartitionView, int, int]] = field(default_factory=list)
    """Replicas out of sync that have all of the leader's log: partition, broker, offset."""
    servers: Sequence[ServerReading] = ()
    longest_answers_ms: dict[int, int] = field(default_factory=dict)
    """By broker, in this look and the earlier ones; at least this long, if it was given up."""
    silences: dict[int, Silence] = field(default_factory=dict)
    """Brokers that answered nothing when they were last asked."""
    earlier: Look | None = None
    unchecked: defaultdict[str, list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    """By rule, the questions without which it is not checked, and why they have no answer."""
    start_files: Mapping[int, str] = field(default_factory=dict)
    """The server.properties of the local cluster's brokers."""
    notes: dict[str, str] = field(default_factory=dict)
    """By rule, why it is not looked for, or not in full."""
    before: Copied | None = None
    """What moves had copied in the look before this one."""

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller holds ``/controller``."""
        return self.controller is not None and self.controller.kraft_controller_epoch >= 0

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return f"{self.chroot}{path}"

    def at(self, path: str) -> str:
        """The path with the chroot, and the version at which the znode was read."""
        version = self.zk_versions.get(path)
        return self.full(path) if version is None else f"{self.full(path)} at version {version}"

    def leave_unchecked(self, rules: Iterable[str], where: str, why: str) -> None:
        """Rules are not checked: this question has no answer that tells."""
        for rule in rules:
            self.unchecked[rule].append(Evidence(where, why))

    def set_servers(self, servers: Sequence[ServerReading]) -> None:
        """Take what ZooKeeper's servers answered."""
        self.servers = servers
        for rule in ("Z02", "Z03"):
            self.unchecked[rule] += unchecked_servers(servers)
        if (note := sessions_note(servers)) is not None:
            self.notes["Z03"] = note

    def to_start(self, dead: Sequence[int]) -> tuple[int | None, str | None]:
        """Of dead brokers the first that can be started here, with its file; else the first."""
        for broker in dead:
            if broker in self.start_files:
                return broker, self.start_files[broker]
        return (dead[0], None) if dead else (None, None)

    def topic_age_s(self, topic: str) -> float:
        """How long the topic's znode is unchanged."""
        return self.topic_ages_s.get(topic, 0.0)

    @cached_property
    def slow_moves(self) -> list[tuple[PartitionView, list[int]]]:
        """Moves that began longer ago than patience, and the added replicas that lag behind."""
        return [
            (view, missing)
            for view in self.partitions
            if view.state is not None
            and self.topic_age_s(view.topic) > self.patience_s
            and (
                missing := [
                    broker
                    for broker in view.assignment.adding_replicas
                    if broker not in view.state.in_sync_replicas
                ]
            )
        ]

    def hiding_log_dirs(self) -> set[int]:
        """Brokers that answer, and do not show what is in their log directories."""
        return {each.broker_id for each in self.brokers if each.error is None and not each.log_dirs}

    def copied(self) -> Copied:
        """What slow moves have copied, to brokers that show their log directories."""
        log_dirs = {each.broker_id: each.log_dirs for each in self.brokers if each.log_dirs}
        return Copied(
            self.at_ms,
            {
                (broker, view.topic, view.partition): sum(
                    log_dir.replicas.get((view.topic, view.partition), 0)
                    for log_dir in log_dirs[broker]
                )
                for view, missing in self.slow_moves
                for broker in missing
                if broker in log_dirs
            },
        )

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
    reading.at_ms = now_ms()
    reading.registrations = {each.broker.broker_id: each for each in read_registrations(zookeeper)}
    paths = [BrokerIdZnode.path(broker_id) for broker_id in reading.registrations]
    for broker_id, stat in zip(reading.registrations, zookeeper.stats(paths), strict=True):
        if isinstance(stat, Stat):
            reading.zk_versions[BrokerIdZnode.path(broker_id)] = stat.zk_version
            reading.registration_ages_s[broker_id] = (reading.at_ms - stat.ctime_ms) / 1000
    exists = optional(TopicsZnode.PATH, zookeeper.stats([TopicsZnode.PATH])[0]) is not None
    reading.topics = read_topics(zookeeper) if exists else []
    reading.partitions = partitions_of(zookeeper, reading.topics) if exists else []
    _read_topic_znodes(zookeeper, reading)
    _read_broker_configs(zookeeper, reading)
    _read_config_stats(zookeeper, reading)
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
    for path, znode in zip(paths, (controller, epoch, cluster_id, migration), strict=True):
        if znode is not None:
            reading.zk_versions[path] = znode.zk_version


def _read_topic_znodes(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    now = now_ms()
    names = [topic.topic for topic in reading.topics]
    paths = [TopicZnode.path(name) for name in names]
    for name, path, answer in zip(names, paths, zookeeper.stats(paths), strict=True):
        stat = optional(path, answer)
        if stat is not None:
            reading.znode_bytes[path] = stat.data_length
            reading.zk_versions[path] = stat.zk_version
            reading.topic_ages_s[name] = (now - stat.mtime_ms) / 1000
    paths = [ConfigZnode.topic_path(name) for name in names]
    *of_topics, of_all = read_configs(zookeeper, [*paths, ConfigZnode.broker_path(None)])
    for name, config in zip(names, of_topics, strict=True):
        reading.topic_configs[name] = config or {}
    reading.default_config = of_all or {}


def _read_broker_configs(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    parent = ConfigZnode.type_path("brokers")
    try:
        names = optional(parent, zookeeper.children([parent])[0]) or []
        ids = sorted(int(name) for name in names if name.isdecimal())
        configs = read_configs(zookeeper, [ConfigZnode.broker_path(each) for each in ids])
    except ZooKeeperRefused as error:
        # A broker's configuration may have passwords: in a secured cluster few may read it.
        reading.leave_unchecked(["R04"], parent, str(error))
        return
    reading.broker_configs = {each: read for each, read in zip(ids, configs, strict=True) if read}


def _read_config_stats(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    paths = [
        *(ConfigZnode.topic_path(name) for name, config in reading.topic_configs.items() if config),
        *map(ConfigZnode.broker_path, (*reading.broker_configs, None)),
    ]
    now = now_ms()
    for path, answer in zip(paths, zookeeper.stats(paths), strict=True):
        if isinstance(answer, Stat):
            reading.zk_versions[path] = answer.zk_version
            reading.config_ages_s[path] = (now - answer.mtime_ms) / 1000


def _read_orders(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    """What administrators ordered, and the controller has not carried out."""
    ordered = read_deletions(zookeeper)
    now = now_ms()
    reading.deletions = {name: (now - at_ms) / 1000 for name, at_ms in ordered.items()}
    path = ReassignPartitionsZnode.PATH
    znode = optional(path, zookeeper.read([path])[0])
    found = optional(path, zookeeper.stats([path])[0])
    if znode is None or found is None:
        return
    reading.znode_bytes[path] = found.data_length
    reading.zk_versions[path] = found.zk_version
    reading.ordered_moves_age_s = (now - found.mtime_ms) / 1000
    orders = decoded(ReassignPartitionsZnode.decode, znode.data)
    reading.ordered_moves = None if orders is None else list(orders.partitions)


def _notifications(zookeeper: ZooKeeper) -> dict[str, float]:
    """The age of each notification that a controller takes away, in seconds.

    Changes of configurations are not among them: brokers delete an old one only when the next one
    comes, so it may stay for ever (``ZkNodeChangeNotificationListener``).
    """
    ages = {}
    now = now_ms()
    for parent in (IsrChangeNotificationZnode.PATH, LogDirEventNotificationZnode.PATH):
        names = optional(parent, zookeeper.children([parent])[0]) or []
        paths = [f"{parent}/{name}" for name in names]
        for path, answer in zip(paths, zookeeper.stats(paths), strict=True):
            stat: Stat | None = optional(path, answer)
            if stat is not None:
                ages[path] = (now - stat.ctime_ms) / 1000
    return ages
