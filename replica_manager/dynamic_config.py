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
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from replica_manager.config import (
    BrokerConfig,
    no_effect_warning,
    usable_dynamic,
    without_effect,
)
from replica_manager.key_effects import BROKER_EFFECTS, TOPIC_EFFECTS, Effect
from replica_manager.reconfiguration import ReconfigurationRefused
from replica_manager.security.dynamic_passwords import DynamicPasswords
from zkcontroller.errors import ConfigInvalid, ZnodeCorrupt, ZooKeeperRefused
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Delete,
    ReadZnodes,
    SetData,
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
        prepare: Callable[[BrokerConfig, BrokerConfig], None],
        on_broker_config: Callable[[BrokerConfig, BrokerConfig], None],
        on_topic: Callable[[str, Mapping[str, str]], None],
        on_unclean_topic: Callable[[str], None],
        on_client: Callable[[str, Mapping[str, str]], None],
    ) -> None:
        """Starts with ``config``; the callbacks come from the executor.

        ``prepare`` gets the configuration before and after a change, and raises ConfigInvalid or
        ReconfigurationRefused if the broker cannot take it over; all others must only hand over.
        ``on_broker_config`` gets the same two once the change counts, ``on_topic`` a
        topic's own configuration, ``on_client`` the entity path and the configuration of a user, a
        client id, both, or an address.
        """
        self._session = session
        self._broker_id = broker_id
        self._prepare = prepare
        self._on_broker_config = on_broker_config
        self._passwords = DynamicPasswords(config.values)
        self._on_topic = on_topic
        # Who has read a topic's configuration tells of it before anybody reads it again.
        self._telling_of_topics = threading.Lock()
        self._on_unclean_topic = on_unclean_topic
        self._on_client = on_client
        self._last_change = -1
        self.current = config
        """The configuration as it is now; replaced, never changed."""

    def load(self) -> None:
        """Takes over what the broker's own znode and the default's say, at the start.

        Passwords that were stored under the old secret are stored under the new one first.
        """
        try:
            self._re_encode()
            after = self._read()
            BrokerConfig.parse(after.effective)
        except (ConfigInvalid, ZnodeCorrupt) as refused:
            _log.error("The dynamic configuration of this broker is ignored: %s", refused)
        else:
            self.current = after

    def _re_encode(self) -> None:
        path = ConfigZnode.path(f"brokers/{self._broker_id}")
        znode = self._session.read(path)
        if isinstance(znode, ZkCode):
            return  # nothing there, or the next read says what is wrong
        changed = self._passwords.re_encoded(ConfigZnode.decode(path, znode.data).config)
        if changed is not None:
            data = ConfigZnode(changed).encode()
            written = self._session.write(SetData(path, data, znode.zk_version))
            if isinstance(written, ZkCode):
                _log.error("%s could not be encoded anew: %s", path, written.name)

    def _read(self) -> BrokerConfig:
        """The configuration as the two znodes say; ConfigInvalid for a wrong value."""
        own = self._usable(f"brokers/{self._broker_id}", per_broker=True)
        return self.current.with_dynamic(
            default=self._usable(f"brokers/{DEFAULT_ENTITY}", per_broker=False),
            own=self._passwords.decoded(own),
        )

    def _usable(self, entity_path: str, *, per_broker: bool) -> dict[str, str]:
        stored = self._config(entity_path)
        usable = usable_dynamic(stored, per_broker=per_broker)
        dropped = [name for name in stored if name not in usable]
        if dropped:
            _log.error(
                "Configs of %s that are not dynamic, not allowed there or no valid values will be "
                "ignored: %s",
                entity_path,
                ", ".join(dropped),
            )
        return usable

    def _broker_changed(self) -> None:
        before = self.current
        try:
            after = self._read()
            if after == before:
                return
            self._prepare(before, after)
        except (ConfigInvalid, ReconfigurationRefused) as refused:
            _log.error("Configs of broker %d could not be applied: %s", self._broker_id, refused)
            return
        self.current = after
        changed = after.effective.items() - before.effective.items()
        _warn_of_ineffective(sorted(name for name, _ in changed), BROKER_EFFECTS)
        self._on_broker_config(before, after)

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
            self.entity_changed(entity_path)

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
            self.entity_changed(entity_path)
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

    def entity_changed(self, entity_path: str) -> None:
        """Reads that configuration, and gives it to its part of the broker."""
        entity_type, _, name = entity_path.partition("/")
        try:
            match entity_type:
                case "topics":
                    with self._telling_of_topics:
                        config = self._config(entity_path)
                        _warn_of_ineffective(config, TOPIC_EFFECTS)
                        self._on_topic(name, config)
                    value = config.get(UNCLEAN_LEADER_ELECTION_ENABLE, "")
                    if value.strip().lower() == "true":
                        self._on_unclean_topic(name)
                case "brokers" if name in (DEFAULT_ENTITY, str(self._broker_id)):
                    self._broker_changed()
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


def _warn_of_ineffective(names: Iterable[str], effects: Mapping[str, Effect]) -> None:
    ineffective = without_effect(names, effects)
    if ineffective:
        _log.warning("%s", no_effect_warning(ineffective))


def _number(name: str) -> int:
    """The sequence number of a notification; -1 for a name without one."""
    digits = name.removeprefix(_PREFIX)
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) <= 10 else -1
