"""One reading of a cluster for ``zkctl doctor``: ZooKeeper in bulk, then every broker at once.

ZooKeeper or the brokers can be read alone; a rule that needs the other finds nothing.
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
"""The default number of seconds that each broker may take for all its responses."""
_MIN_IN_SYNC: Final = "min.insync.replicas"


class LogDir(NamedTuple):
    """One log directory of a broker; ``error`` is the name of its error code, None without one."""

    path: str
    error: str | None
    replicas: Mapping[tuple[str, int], int]
    """By topic and partition, the size of the replica's log in bytes."""


@dataclass
class BrokerReading:
    """What one broker answered; ``error`` is None, or the reason why it did not."""

    broker_id: int
    error: str | None = None
    is_asked: bool = True
    """False if the broker has no listener for ``zkctl``, or refused the login."""
    cluster_id: str | None = None
    live_brokers: frozenset[int] = frozenset()
    partitions: Mapping[tuple[str, int], CachedState] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    log_dirs: Sequence[LogDir] = ()
    differing: list[tuple[PartitionView, CachedState]] = field(default_factory=list)
    """Partitions whose cached state differs from ZooKeeper's."""
    unknown_topics: list[str] = field(default_factory=list)
    """Topics that have a partition state in ZooKeeper, and that the broker does not know."""
    refused_topics: list[str] = field(default_factory=list)
    """Topics whose log at the broker has another topic id than the broker's metadata."""
    addresses: Mapping[int, tuple[str, int]] = field(default_factory=dict)
    """By broker id, the host and port in the broker's metadata."""
    session_timeout_ms: int | None = None


class Copied(NamedTuple):
    """The log size in bytes of replicas that are being added, by broker, topic and partition."""

    at_ms: int
    of_replicas: Mapping[tuple[int, str, int], int]


@dataclass
class ClusterReading:
    """Everything that the rules look at."""

    chroot: str
    patience_s: float
    """Seconds for which a change counts as in progress; after them it counts as stuck."""
    broker_s: float = BROKER_S
    """Seconds that each broker may take for all its responses."""
    cluster_id: str | None = None
    controller_data: bytes | None = None
    controller: ControllerZnode | None = None
    controller_epoch: int | None = None
    zk_versions: dict[str, int] = field(default_factory=dict)
    """By path, the version of each znode read; partition states have theirs in ``partitions``."""
    registrations: Mapping[int, LiveBroker] = field(default_factory=dict)
    topics: Sequence[TopicView] = ()
    partitions: Sequence[PartitionView] = ()
    topic_ages_s: dict[str, float] = field(default_factory=dict)
    """By topic, the seconds since its znode was changed."""
    topic_configs: dict[str, Mapping[str, str]] = field(default_factory=dict)
    default_config: Mapping[str, str] = field(default_factory=dict)
    """The dynamic default configuration of all brokers."""
    broker_configs: dict[int, Mapping[str, str]] = field(default_factory=dict)
    """The dynamic configuration of each broker that has one, alive or not."""
    config_ages_s: dict[str, float] = field(default_factory=dict)
    """By path, the seconds since the znode of a configuration was changed."""
    deletions: dict[str, float] = field(default_factory=dict)
    """Topics to delete, and the seconds since the deletion was requested."""
    ordered_moves: Sequence[TopicPartition] | None = None
    ordered_moves_age_s: float = 0.0
    notifications: dict[str, float] = field(default_factory=dict)
    znode_bytes: dict[str, int] = field(default_factory=dict)
    brokers: Sequence[BrokerReading] = ()
    probe: Evidence | None = None
    """Evidence that the controller does not work; None if it answered or could not be asked."""
    at_ms: int = 0
    security_protocol: str = "PLAINTEXT"
    registration_ages_s: dict[int, float] = field(default_factory=dict)
    strangers: list[Place] = field(default_factory=list)
    """Brokers of this cluster that answer and are not registered."""
    caught_up: list[tuple[PartitionView, int, int]] = field(default_factory=list)
    """Replicas out of sync that reach the leader's log end offset: partition, broker, offset."""
    servers: Sequence[ServerReading] = ()
    longest_answers_ms: dict[int, int] = field(default_factory=dict)
    """By broker, the longest time in ms for a Metadata response, in this look and earlier ones.

    Where ``zkctl`` stopped waiting, the time that it waited.
    """
    silences: dict[int, Silence] = field(default_factory=dict)
    """Brokers that did not answer the last request."""
    earlier: Look | None = None
    unchecked: defaultdict[str, list[Evidence]] = field(default_factory=lambda: defaultdict(list))
    """By rule that cannot be checked, the requests it needs and why they have no response."""
    start_files: Mapping[int, str] = field(default_factory=dict)
    """By broker of the local cluster, the path of its server.properties."""
    notes: dict[str, str] = field(default_factory=dict)
    """By rule, why it is not checked, or only in part."""
    before: Copied | None = None
    """The replica sizes in the look before this one; None in the first look."""

    @property
    def is_kraft(self) -> bool:
        """Whether a KRaft controller holds ``/controller``."""
        return self.controller is not None and self.controller.kraft_controller_epoch >= 0

    def full(self, path: str) -> str:
        """The path with the chroot."""
        return f"{self.chroot}{path}"

    def at(self, path: str) -> str:
        """The path with the chroot, and the znode's version if it was read."""
        version = self.zk_versions.get(path)
        return self.full(path) if version is None else f"{self.full(path)} at version {version}"

    def leave_unchecked(self, rules: Iterable[str], where: str, why: str) -> None:
        """Record that ``rules`` are not checked: the request ``where`` failed, for ``why``."""
        for rule in rules:
            self.unchecked[rule].append(Evidence(where, why))

    def set_servers(self, servers: Sequence[ServerReading]) -> None:
        """Store the answers of the ZooKeeper servers, and which rules they leave unchecked."""
        self.servers = servers
        for rule in ("Z02", "Z03"):
            self.unchecked[rule] += unchecked_servers(servers)
        if (note := sessions_note(servers)) is not None:
            self.notes["Z03"] = note

    def to_start(self, dead: Sequence[int]) -> tuple[int | None, str | None]:
        """The dead broker to start next, and its server.properties.

        The first one of the local cluster; else the first, with None for the file.
        """
        for broker in dead:
            if broker in self.start_files:
                return broker, self.start_files[broker]
        return (dead[0], None) if dead else (None, None)

    def topic_age_s(self, topic: str) -> float:
        """Seconds since the topic's znode was changed; 0 if not known."""
        return self.topic_ages_s.get(topic, 0.0)

    @cached_property
    def slow_moves(self) -> list[tuple[PartitionView, list[int]]]:
        """Moves older than ``patience_s``, each with its added replicas that are not in sync."""
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
        """Brokers that answered, but did not show their log directories."""
        return {each.broker_id for each in self.brokers if each.error is None and not each.log_dirs}

    def copied(self) -> Copied:
        """The bytes that slow moves have copied to brokers that show their log directories."""
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
        """``min.insync.replicas`` of a topic from the znodes; 1 where no znode sets it."""
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
    """Read all znodes that the rules need.  Raises what the session raises."""
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
    for name, path, result in zip(names, paths, zookeeper.stats(paths), strict=True):
        stat = optional(path, result)
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
        # A broker's configuration may hold passwords, so a secured cluster limits who reads it.
        reading.leave_unchecked(["R04"], parent, str(error))
        return
    reading.broker_configs = {each: read for each, read in zip(ids, configs, strict=True) if read}


def _read_config_stats(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    paths = [
        *(ConfigZnode.topic_path(name) for name, config in reading.topic_configs.items() if config),
        *map(ConfigZnode.broker_path, (*reading.broker_configs, None)),
    ]
    now = now_ms()
    for path, result in zip(paths, zookeeper.stats(paths), strict=True):
        if isinstance(result, Stat):
            reading.zk_versions[path] = result.zk_version
            reading.config_ages_s[path] = (now - result.mtime_ms) / 1000


def _read_orders(zookeeper: ZooKeeper, reading: ClusterReading) -> None:
    """Read the topic deletions and reassignments in ``/admin`` that the controller has not done."""
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
    """By path, the age in seconds of each notification that a controller deletes.

    Notifications of changed configurations are left out: brokers delete an old one only when the
    next one arrives, so one may stay for ever (``ZkNodeChangeNotificationListener``).
    """
    ages = {}
    now = now_ms()
    for parent in (IsrChangeNotificationZnode.PATH, LogDirEventNotificationZnode.PATH):
        names = optional(parent, zookeeper.children([parent])[0]) or []
        paths = [f"{parent}/{name}" for name in names]
        for path, result in zip(paths, zookeeper.stats(paths), strict=True):
            stat: Stat | None = optional(path, result)
            if stat is not None:
                ages[path] = (now - stat.ctime_ms) / 1000
    return ages
