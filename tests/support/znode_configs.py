"""Configurations as ZooKeeper holds them."""

from __future__ import annotations

from zkcontroller.zookeeper.znodes import ConfigZnode
from zkcontroller_testing import KafkaCluster


def config_of(cluster: KafkaCluster, entity_path: str) -> dict[str, str]:
    """The keys of an entity, such as ``topics/orders``; none if it has no znode."""
    path = ConfigZnode.path(entity_path)
    data = cluster.znode(path).get()
    return {} if data is None else dict(ConfigZnode.decode(path, data).config)
