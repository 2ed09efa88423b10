"""Reads and writes dynamic configuration in ZooKeeper: ``/config/<type>/<entity>``.

A write needs a ZooKeeper controller.  It is one transaction with a check that the znode
``/controller`` has not changed since it was read.  So nothing is written after a KRaft controller
has taken over the cluster.

Source: Kafka ``KafkaZkClient.setOrCreateEntityConfigs``, ``getEntityConfigs``, ``AdminZkClient
.tryCleanQuotaNodes``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from kio.schema.errors import ErrorCode

from kafka_common.errors import ZooKeeperRefused
from replica_manager.request_errors import RequestRefused
from zkcontroller.zookeeper.requests import (
    Check,
    Committed,
    Create,
    Delete,
    ReadZnodes,
    SetData,
    UnfencedBatch,
    ZkCode,
    ZkTransaction,
)
from zkcontroller.zookeeper.results import optional, required
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigZnode, ControllerZnode

_log = logging.getLogger("kafka.zk.AdminZkClient")


def read_entity_config(session: ZooKeeperSession, entity_path: str) -> dict[str, str]:
    """The configuration of ``topics/orders`` or ``brokers/1``; empty if there is none."""
    path = ConfigZnode.path(entity_path)
    znode = optional(path, session.read(path))
    return {} if znode is None else dict(ConfigZnode.decode(path, znode.data).config)


def read_entity_configs(session: ZooKeeperSession, entity_type: str) -> dict[str, dict[str, str]]:
    """The configuration of every entity of a type (``users``), by the name of the znode."""
    root = ConfigZnode.type_path(entity_type)
    names = optional(root, session.children(root)) or []
    paths = [ConfigZnode.path(f"{entity_type}/{name}") for name in names]
    configs: dict[str, dict[str, str]] = {}
    for name, path, result in zip(names, paths, session.perform(ReadZnodes(paths)), strict=True):
        znode = optional(path, result)
        if znode is not None:  # else deleted between the two reads
            configs[name] = dict(ConfigZnode.decode(path, znode.data).config)
    return configs


def write_entity_config(
    session: ZooKeeperSession, entity_path: str, config: Mapping[str, str]
) -> None:
    """Sets an entity's configuration; RequestRefused without a ZooKeeper controller."""
    controller = optional(ControllerZnode.PATH, session.read(ControllerZnode.PATH))
    if controller is None:
        raise RequestRefused(ErrorCode.stale_controller_epoch, "there is no controller")
    if ControllerZnode.decode(controller.data).kraft_controller_epoch > 0:
        raise RequestRefused(ErrorCode.stale_controller_epoch, "the controller is in KRaft mode")
    path, data = ConfigZnode.path(entity_path), ConfigZnode(config).encode()
    if _overwrite(session, controller.zk_version, path, data):
        return
    created = session.write(Create(path, data))
    if created is ZkCode.NO_NODE:  # the parent znode (the user of a client id) is missing
        session.create_missing([path.rpartition("/")[0]])
        created = session.write(Create(path, data))
    if created is ZkCode.NODE_EXISTS and _overwrite(session, controller.zk_version, path, data):
        return  # another broker has created it, or this one, and the reply was lost
    required(path, created)


def _overwrite(
    session: ZooKeeperSession, controller_zk_version: int, path: str, data: bytes
) -> bool:
    """Writes an entity's znode; returns False if there is none."""
    written = session.perform(
        ZkTransaction([Check(ControllerZnode.PATH, controller_zk_version), SetData(path, data)])
    )
    if isinstance(written, Committed):
        return True
    if written.failed_index == 0 and written.code in (ZkCode.BAD_VERSION, ZkCode.NO_NODE):
        raise RequestRefused(ErrorCode.stale_controller_epoch, "the controller has moved")
    if written.failed_index == 0:
        raise ZooKeeperRefused(ControllerZnode.PATH, written.code.name)
    if written.code is not ZkCode.NO_NODE:
        raise ZooKeeperRefused(path, written.code.name)
    return False


def delete_empty_entity(session: ZooKeeperSession, entity_path: str) -> bool:
    """Deletes the znode of a user, client id or address without configuration.

    Also deletes the user's znode ``clients`` and the user's znode, if they are empty after that.
    Returns False, and deletes nothing, if the entity's znode has children; else True.
    """
    to_delete = [ConfigZnode.path(entity_path)]
    if _children(session, to_delete[0]):
        return False
    match entity_path.split("/"):
        case ["users", user, "clients", client_id]:
            clients_path = ConfigZnode.path(f"users/{user}/clients")
            user_path = ConfigZnode.path(f"users/{user}")
            if _children(session, clients_path) == [client_id]:
                to_delete.append(clients_path)
                if _children(session, user_path) == ["clients"] and not read_entity_config(
                    session, f"users/{user}"
                ):
                    to_delete.append(user_path)
        case _:
            pass
    _log.info(
        "Deleting zk node %s since node of entityType %s and entityName %s is empty.",
        to_delete[-1],
        *entity_path.split("/", 1),
    )
    deleted = session.perform(UnfencedBatch([Delete(path) for path in to_delete]))
    for path, result in zip(to_delete, deleted, strict=True):
        # Keep a znode that got children in the meantime.
        if result is not ZkCode.NOT_EMPTY:
            optional(path, result)
    return True


def _children(session: ZooKeeperSession, path: str) -> list[str]:
    return optional(path, session.children(path)) or []
