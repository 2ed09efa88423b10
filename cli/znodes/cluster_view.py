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
    """The content of ``/controller`` and ``/controller_epoch``; None if missing or corrupt."""

    controller_id: int | None
    controller_epoch: int | None
    controller_epoch_zk_version: int | None
    elected_at_ms: int | None
    controller_session_id: str | None
    """The ZooKeeper session that owns ``/controller``, as hexadecimal text."""


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
    """The czxid of its znode in ``/brokers/ids``; None if it is not registered."""
    is_controller: bool
    metrics_port: int | None
    """The port of its metrics; None if it serves none."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The state of a local cluster, as ``cluster status`` shows it."""

    directory: str
    state: str
    """``stopped`` if no process runs, ``running`` if the cluster is complete, else ``degraded``.

    A complete cluster has every broker alive and registered, and a controller.
    """
    zookeeper: str
    zookeeper_pid: int | None
    zookeeper_alive: bool | None
    """None for an external ZooKeeper that does not answer or was not asked."""
    bootstrap_servers: str
    controller_id: int | None
    controller_epoch: int | None
    controller_epoch_zk_version: int | None
    elected_at_ms: int | None
    brokers: tuple[BrokerView, ...]

    def record(self) -> dict[str, Any]:
        """The view as JSON values."""
        return {**asdict(self), "brokers": [asdict(broker) for broker in self.brokers]}


def read_controller(zookeeper: ZooKeeper) -> ControllerView:
    """Read the controller and its epoch."""
    paths = (ControllerZnode.PATH, ControllerEpochZnode.PATH, ControllerZnode.PATH)
    reads = 0
    while True:
        before, epoch, controller = map(optional, paths, zookeeper.read(paths))
        reads += 1
        # Only if /controller is the same before and after reading the epoch do the two belong
        # together; else an election is in progress, and both are read again.
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
    """The session that owns an ephemeral znode, as hexadecimal text; None for other znodes."""
    if znode is None or not znode.ephemeral_owner:
        return None
    return f"0x{znode.ephemeral_owner & 0xFFFFFFFFFFFFFFFF:x}"


def read_view(cluster: ClusterFile, zookeeper: ZooKeeper | None) -> ClusterView:
    """The current state of a local cluster; ``zookeeper`` None: only that of its processes."""
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
