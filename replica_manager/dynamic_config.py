"""Configuration that changes at run time: ``/config/changes`` says what, ``/config/…`` says how.

Whoever changes a configuration leaves a numbered notification; every broker reads the new ones, and
clears away those older than 15 minutes.  Notifications are read again after each new ZooKeeper
session, because none is sent to a broker that is away.

Source: Kafka ``ZkNodeChangeNotificationListener``, ``ZkConfigManager``, ``TopicConfigHandler``,
``BrokerConfigHandler``, ``QuotaConfigHandler``, ``IpConfigHandler``.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from replica_manager.config import BrokerConfig
from zkcontroller.errors import ConfigInvalid, ZnodeCorrupt, ZooKeeperRefused
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Delete,
    ReadZnodes,
    UnfencedBatch,
    ZkCode,
)
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import (
    DEFAULT_ENTITY,
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
)

CHANGE_EXPIRATION_MS: Final = 15 * 60 * 1000
UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
_PREFIX: Final = "config_change_"
_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")


class DynamicConfig:
    """Follows ``/config/changes``.  Its methods block: they belong to an executor's thread."""

    def __init__(
        self,
        session: ZooKeeperSession,
        broker_id: int,
        config: BrokerConfig,
        *,
        on_broker_config: Callable[[BrokerConfig, BrokerConfig], None],
        on_topic: Callable[[str, Mapping[str, str]], None],
        on_unclean_topic: Callable[[str], None],
        on_client: Callable[[str, Mapping[str, str]], None],
    ) -> None:
        """Starts with ``config``; the callbacks come from the executor and must only hand over.

        ``on_broker_config`` hears the configuration before and after a change, ``on_topic`` a
        topic's own configuration, ``on_client`` the entity path and the configuration of a user, a
        client id, both, or an address.
        """
        self._session = session
        self._broker_id = broker_id
        self._on_broker_config = on_broker_config
        self._on_topic = on_topic
        # Who has read a topic's configuration tells of it before anybody reads it again.
        self._telling_of_topics = threading.Lock()
        self._on_unclean_topic = on_unclean_topic
        self._on_client = on_client
        self._last_change = -1
        self.current = config
        """The configuration as it is now; replaced, never changed."""

    def load(self) -> None:
        """Takes over what the broker's own and the default's znode say, without telling anybody."""
        try:
            self.current = self.current.with_dynamic(
                default=self._config(f"brokers/{DEFAULT_ENTITY}"),
                own=self._config(f"brokers/{self._broker_id}"),
            )
        except (ConfigInvalid, ZnodeCorrupt) as refused:
            _log.error("The dynamic configuration of this broker is ignored: %s", refused)

    def load_topics(self, topics: Sequence[str] | None = None) -> None:
        """Tells of those topics as they are configured now; of all that are if none is named."""
        with self._telling_of_topics:
            names = self._names("topics") if topics is None else topics
            paths = [ConfigZnode.path(f"topics/{name}") for name in names]
            for name, path, znode in zip(
                names, paths, self._session.perform(ReadZnodes(paths)), strict=True
            ):
                try:
                    config = (
                        {}
                        if isinstance(znode, ZkCode)
                        else ConfigZnode.decode(path, znode.data).config
                    )
                except ZnodeCorrupt as corrupt:
                    _log.error("The configuration of topic %s is ignored: %s", name, corrupt)
                    continue
                self._on_topic(name, config)

    def load_clients(self) -> None:
        """Tells of every user, client id and address that has a configuration."""
        users = [f"users/{name}" for name in self._names("users")]
        clients = [f"clients/{name}" for name in self._names("clients")]
        pairs = [
            f"{user}/clients/{name}" for user in users for name in self._names(f"{user}/clients")
        ]
        ips = [f"ips/{name}" for name in self._names("ips")]
        for entity_path in (*clients, *users, *pairs, *ips):
            self._entity_changed(entity_path)

    def process_changes(self) -> None:
        """Acts on every notification not seen yet, and leaves a watch for the next."""
        names = self._session.children(ConfigChangesZnode.PATH, watch=True)
        if isinstance(names, ZkCode):
            raise ZooKeeperRefused(ConfigChangesZnode.PATH, names.name)
        notifications = sorted(
            name for name in names if name.startswith(_PREFIX) and _number(name) >= 0
        )
        if not notifications:
            return
        _log.info("Processing notification(s) to %s", ConfigChangesZnode.PATH)
        unseen = [name for name in notifications if _number(name) > self._last_change]
        for entity_path in dict.fromkeys(self._entity_paths(unseen)):
            self._entity_changed(entity_path)
        self._last_change = max(map(_number, notifications), default=self._last_change)
        self._purge(notifications)

    def _entity_paths(self, notifications: Sequence[str]) -> list[str]:
        paths = [ConfigChangeZnode.path(name) for name in notifications]
        entity_paths: list[str] = []
        znodes = self._session.perform(ReadZnodes(paths))
        for path, znode in zip(paths, znodes, strict=True):
            if isinstance(znode, ZkCode):
                _log.warning("read null data from %s", path)
                continue
            try:
                entity_paths.append(ConfigChangeZnode.decode(path, znode.data).entity_path)
            except ZnodeCorrupt as corrupt:
                _log.error("error processing change notification: %s", corrupt)
        return entity_paths

    def _entity_changed(self, entity_path: str) -> None:
        entity_type, _, name = entity_path.partition("/")
        try:
            match entity_type:
                case "topics":
                    with self._telling_of_topics:
                        config = self._config(entity_path)
                        self._on_topic(name, config)
                    value = config.get(UNCLEAN_LEADER_ELECTION_ENABLE, "")
                    if value.strip().lower() == "true":
                        self._on_unclean_topic(name)
                case "brokers" if name in (DEFAULT_ENTITY, str(self._broker_id)):
                    before = self.current
                    self.load()
                    if self.current != before:
                        self._on_broker_config(before, self.current)
                case "users" | "clients" | "ips":
                    self._on_client(entity_path, self._config(entity_path))
                case _:
                    pass
        except ZnodeCorrupt as corrupt:
            _log.error("error processing change notification: %s", corrupt)

    def _names(self, entity_type: str) -> list[str]:
        path = ConfigZnode.path(entity_type)
        names = self._session.children(path)
        if names is ZkCode.NO_NODE:
            return []
        if isinstance(names, ZkCode):
            raise ZooKeeperRefused(path, names.name)
        return sorted(names)

    def _config(self, entity_path: str) -> dict[str, str]:
        path = ConfigZnode.path(entity_path)
        znode = self._session.read(path)
        if znode is ZkCode.NO_NODE:
            return {}
        if isinstance(znode, ZkCode):
            raise ZooKeeperRefused(path, znode.name)
        return dict(ConfigZnode.decode(path, znode.data).config)

    def _purge(self, notifications: Sequence[str]) -> None:
        paths = [ConfigChangeZnode.path(name) for name in notifications]
        now_ms = time.time_ns() // 1_000_000
        old = [
            path
            for path, stat in zip(paths, self._session.perform(CheckExists(paths)), strict=True)
            if not isinstance(stat, ZkCode) and now_ms - stat.ctime_ms > CHANGE_EXPIRATION_MS
        ]
        # Other brokers purge too: one that is gone already is as good.
        self._session.perform(UnfencedBatch([Delete(path) for path in old]))


def _number(name: str) -> int:
    """The sequence number of a notification; -1 for a name without one."""
    digits = name.removeprefix(_PREFIX)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else -1
