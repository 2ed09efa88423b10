"""Dynamic configuration in ZooKeeper, as its writer sees it: ``/config/<type>/<entity>``.

Writing needs a controller in ZooKeeper: the write is one transaction with a check that the znode
``/controller`` has not changed since it was read, so that nothing is written to a cluster whose
controller has gone over to KRaft.

Source: Kafka ``KafkaZkClient.setOrCreateEntityConfigs``, ``getEntityConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from replica_manager.server.errors import RequestRefused
from zkcontroller.errors import ZooKeeperRefused
from zkcontroller.zookeeper.requests import Check, Committed, Create, SetData, Transaction, ZkCode
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode, ControllerZnode


def read_entity_config(session: ZooKeeperSession, entity_path: str) -> dict[str, str]:
    """The configuration of ``topics/orders`` or ``brokers/1``; empty if there is none."""
    path = ConfigZnode.path(entity_path)
    znode = session.read(path)
    if znode is ZkCode.NO_NODE:
        return {}
    if isinstance(znode, ZkCode):
        raise ZooKeeperRefused(path, znode.name)
    return dict(ConfigZnode.decode(path, znode.data).config)


def write_entity_config(
    session: ZooKeeperSession, entity_path: str, config: Mapping[str, str]
) -> None:
    """Sets or creates that configuration; RequestRefused without a ZooKeeper controller."""
    controller = session.read(ControllerZnode.PATH)
    if isinstance(controller, ZkCode):
        raise RequestRefused(ErrorCode.stale_controller_epoch, "there is no controller")
    if ControllerZnode.decode(controller.data).kraft_controller_epoch > 0:
        raise RequestRefused(ErrorCode.stale_controller_epoch, "the controller is in KRaft mode")
    path, data = ConfigZnode.path(entity_path), ConfigZnode(config).encode()
    written = session.perform(
        Transaction([Check(ControllerZnode.PATH, controller.zk_version), SetData(path, data)])
    )
    if isinstance(written, Committed):
        return
    if written.failed_index == 0:
        raise RequestRefused(ErrorCode.stale_controller_epoch, "the controller has moved")
    if written.code is not ZkCode.NO_NODE:
        raise ZooKeeperRefused(path, written.code.name)
    created = session.write(Create(path, data))
    if isinstance(created, ZkCode):
        raise ZooKeeperRefused(path, created.name)
