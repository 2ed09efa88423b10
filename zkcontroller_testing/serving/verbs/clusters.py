"""The server itself, and the clusters that it runs."""

from __future__ import annotations

from importlib.metadata import version

from zkcontroller.runtime.hold_points import HOLD_POINTS
from zkcontroller_testing.serving import bodies
from zkcontroller_testing.serving.served_clusters import ServedCluster
from zkcontroller_testing.serving.served_request import ServedRequest


def server(request: ServedRequest[bodies.NoFields]) -> bodies.ServerBody:
    """The server's version, its number of clusters, and their limit."""
    return bodies.ServerBody(
        version=version("zkcontroller"),
        clusters=len(request.clusters.numbers),
        most_clusters=request.clusters.most,
    )


def hold_points(_request: ServedRequest[bodies.NoFields]) -> bodies.HoldPointsBody:
    """The hold points: steps at which a controller can be held."""
    return bodies.HoldPointsBody(
        hold_points=[
            bodies.HoldPointBody(name=name, meaning=meaning)
            for name, meaning in HOLD_POINTS.items()
        ]
    )


def clusters(request: ServedRequest[bodies.NoFields]) -> bodies.ClustersBody:
    """The numbers of all clusters."""
    return bodies.ClustersBody(clusters=request.clusters.numbers)


def create_cluster(request: ServedRequest[bodies.NewClusterFields]) -> bodies.ClusterBody:
    """Starts a cluster, and responds when its brokers serve requests."""
    return _described(*request.clusters.start(request.body))


def cluster(request: ServedRequest[bodies.NoFields]) -> bodies.ClusterBody:
    """The current state of a cluster."""
    return _described(request.number("cluster"), request.cluster)


def _described(number: int, served: ServedCluster) -> bodies.ClusterBody:
    kafka = served.kafka
    return bodies.ClusterBody(
        cluster=number,
        state=served.state if kafka.is_running else "removing",
        bootstrap_servers=kafka.bootstrap_servers,
        client_config=kafka.client_config(),
        zookeeper_connect=kafka.zookeeper_connect,
        directory=str(kafka.directory),
        broker_ids=list(kafka.broker_ids),
        live_brokers=list(kafka.live_brokers),
        controller_id=kafka.controller_id,
        controller_epoch=kafka.controller_epoch,
    )


def remove_cluster(request: ServedRequest[bodies.RemovalFields]) -> bodies.RemovedBody:
    """Kills every process of a cluster, and deletes its files unless ``keep_files`` is true."""
    kept = request.clusters.remove(request.number("cluster"), keep_files=request.body.keep_files)
    return bodies.RemovedBody(directory=None if kept is None else str(kept))
