"""Where a broker of Kafka listens."""

from __future__ import annotations

from tests.peers.cluster import Cluster
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.znodes import BrokerIdZnode


def endpoint(cluster: Cluster, broker_id: int, listener: str) -> str:
    """``host:port`` of a listener, as it is registered."""
    found = cluster.session.read(BrokerIdZnode.path(broker_id))
    assert not isinstance(found, ZkCode)
    registered = BrokerIdZnode.decode(broker_id, found.data).broker.endpoint(listener)
    assert registered is not None
    return f"{registered.host}:{registered.port}"
