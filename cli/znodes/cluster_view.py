"""A local cluster's state: its file, its processes, its registrations in ZooKeeper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from zkcontroller.zookeeper.requests import Znode
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    BrokerIdZnode,
    ControllerEpochZnode,
    ControllerZnode,
)
from zkcontroller_cli.machine.cluster_file import ClusterFile
from zkcontroller_cli.znodes.session import ZooKeeper, decoded

_READS_MAX: Final = 10


@dataclass(frozen=True, slots=True)
class ControllerView:
    """``/controller`` and ``/controller_epoch``; None where a znode is missing or corrupt."""

    controller_id: int | None
    controller_epoch: int | None
    controller_epoch_zk_version: int | None
    elected_at_ms: int | None
    controller_session_id: str | None
    """ZooKeeper session that owns ``/controller``, as ZooKeeper prints it."""


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker: its process, and its registration."""

    broker_id: int
    host: str
    port: int
    pid: int | None
    alive: bool
    registered: bool
    broker_epoch: int | None
    """czxid of its registration."""
    is_controller: bool
    metrics_port: int | None
    """None: it serves no metrics."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What ``cluster status`` says."""

    directory: str
    state: str
    """``running``: everything is; ``stopped``: nothing is; else ``degraded``."""
    zookeeper: str
    zookeeper_pid: int | None
    zookeeper_alive: bool | None
    """None for a ZooKeeper that is not ours and does not answer or was not asked."""
    bootstrap_servers: str
    controller_id: int | None
    controller_epoch: int | None
    controller_epoch_zk_version: int | None
    elected_at_ms: int | None
    brokers: tuple[BrokerView, ...]

    def record(self) -> dict[str, Any]:
        """As JSON's values."""
        return {**asdict(self), "brokers": [asdict(broker) for broker in self.brokers]}


def read_controller(zookeeper: ZooKeeper) -> ControllerView:
    """Who the controller is, and its epoch."""
    paths = (ControllerZnode.PATH, ControllerEpochZnode.PATH, ControllerZnode.PATH)
    reads = 0
    while True:
        before, epoch, controller = map(optional, paths, zookeeper.read(paths))
        reads += 1
        # The epoch belongs to a controller that stands before and after it; else an election is
        # under way, and the two would be of different controllers.
        if before == controller or reads == _READS_MAX:
            break
    found = None if controller is None else decoded(ControllerZnode.decode, controller.data)
    number = None if epoch is None else decoded(ControllerEpochZnode.decode, epoch.data)
    return ControllerView(
        None if found is None else found.broker_id,
        number,
        None if epoch is None else epoch.zk_version,
        None if found is None else found.timestamp_ms,
        session_text(controller),
    )


def session_text(znode: Znode | None) -> str | None:
    """The session that owns an ephemeral znode, as ZooKeeper prints it; None if none does."""
    if znode is None or not znode.ephemeral_owner:
        return None
    return f"0x{znode.ephemeral_owner & 0xFFFFFFFFFFFFFFFF:x}"


def read_view(cluster: ClusterFile, zookeeper: ZooKeeper | None) -> ClusterView:
    """The cluster now; without a ZooKeeper, only what its processes show."""
    paths = [BrokerIdZnode.path(entry.broker_id) for entry in cluster.brokers]
    registrations = dict.fromkeys(paths) if zookeeper is None else _read(zookeeper, paths)
    controller = (
        ControllerView(None, None, None, None, None)
        if zookeeper is None
        else read_controller(zookeeper)
    )
    brokers = tuple(
        BrokerView(
            entry.broker_id,
            entry.host,
            entry.port,
            entry.process.pid if entry.process else None,
            entry.is_alive,
            (registration := registrations[path]) is not None,
            None if registration is None else registration.czxid,
            entry.broker_id == controller.controller_id,
            entry.metrics.port,
        )
        for entry, path in zip(cluster.brokers, paths, strict=True)
    )
    process = cluster.zookeeper.process
    is_alive = (
        (process is not None and process.is_alive)
        if cluster.zookeeper.is_embedded
        else (None if zookeeper is None else True)
    )
    return ClusterView(
        str(cluster.directory),
        _state(cluster, brokers, controller),
        cluster.zookeeper_connect,
        process.pid if process else None,
        is_alive,
        cluster.bootstrap_servers,
        controller.controller_id,
        controller.controller_epoch,
        controller.controller_epoch_zk_version,
        controller.elected_at_ms,
        brokers,
    )


def _read(zookeeper: ZooKeeper, paths: list[str]) -> dict[str, Znode | None]:
    return dict(zip(paths, map(optional, paths, zookeeper.read(paths)), strict=True))


def _state(
    cluster: ClusterFile, brokers: tuple[BrokerView, ...], controller: ControllerView
) -> str:
    if not cluster.processes:
        return "stopped"
    is_complete = all(broker.alive and broker.registered for broker in brokers)
    return "running" if is_complete and controller.controller_id is not None else "degraded"
