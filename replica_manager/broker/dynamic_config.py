"""Dynamic configuration: follows ``/config/changes`` and reads ``/config/…``.

A broker that changes a configuration creates a numbered notification znode; every broker reads the
new notifications.  They are also read in each new ZooKeeper session, because watches end with their
session.

Source: Kafka ``ZkNodeChangeNotificationListener``, ``ZkConfigManager``, ``TopicConfigHandler``,
``BrokerConfigHandler``, ``QuotaConfigHandler``, ``IpConfigHandler``.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from kafka_common.errors import ConfigInvalid, ZnodeCorrupt
from kafka_common.protocol.scram import MECHANISMS
from kafka_common.sanitizer import DEFAULT_ENTITY
from replica_manager.configuration.broker_keys import BROKER_EFFECTS
from replica_manager.configuration.config import (
    BrokerConfig,
    no_effect_warning,
    usable_dynamic,
    without_effect,
)
from replica_manager.configuration.key_effects import KeyEffect
from replica_manager.configuration.reconfiguration import ReconfigurationRefused
from replica_manager.configuration.topic_keys import TOPIC_EFFECTS
from replica_manager.security.dynamic_passwords import DynamicPasswords
from zkcontroller.core.journal import scala_map
from zkcontroller.zookeeper.change_notifications import ZkNodeChangeNotificationListener
from zkcontroller.zookeeper.requests import ReadZnodes, SetData, ZkCode, Znode
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.scala_order import mutable_hash_map_order, properties_order
from zkcontroller.zookeeper.session import ZooKeeperSession
from zkcontroller.zookeeper.znodes import ConfigChangesZnode, ConfigChangeZnode, ConfigZnode

UNCLEAN_LEADER_ELECTION_ENABLE: Final = "unclean.leader.election.enable"
_log = logging.getLogger("kafka.common.ZkNodeChangeNotificationListener")
_changes_log = logging.getLogger("kafka.server.ZkConfigManager")
_config_log = logging.getLogger("kafka.server.KafkaConfig")
_HIDDEN: Final = "[hidden]"


class DynamicConfig:
    """Follows ``/config/changes``.  Its methods block, so they must run in an executor's thread."""

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
        """Starts with ``config``; the callbacks are called in the executor.

        ``prepare`` is called with the configuration before and after a change, and raises
        ConfigInvalid or ReconfigurationRefused if the broker cannot apply it.  Then
        ``on_broker_config`` is called with the same arguments.  ``on_topic`` gets a topic's own
        configuration, ``on_client`` the entity path and the configuration of a user, a client id,
        both, or an address.
        """
        self._session = session
        self._broker_id = broker_id
        self._prepare = prepare
        self._on_broker_config = on_broker_config
        self._passwords = DynamicPasswords(config.values)
        self._on_topic = on_topic
        # Held from reading a topic's configuration until it is passed on, to keep the order.
        self._topics_lock = threading.Lock()
        self._on_unclean_topic = on_unclean_topic
        self._on_client = on_client
        self._notifications = ZkNodeChangeNotificationListener(
            session, ConfigChangesZnode.PATH, ConfigChangeZnode.PREFIX
        )
        self.current = config
        """The current configuration; a change replaces the object."""
        self._must_pass_on_again = False
        """Whether a part of the broker failed to apply the last change, and must get it again."""

    def load(self) -> None:
        """Reads the dynamic configuration of this broker and the default for all, at the start.

        Passwords that are encoded with the old secret are first encoded with the new one.
        """
        try:
            self._re_encode()
            after = self._read()
            BrokerConfig.parse(after.effective)
        except (ConfigInvalid, ZnodeCorrupt) as refused:
            _log.error("The dynamic configuration of this broker is ignored: %s", refused)
        else:
            self.current = after
        _config_log.info("%s", self.current.values_text)

    def _re_encode(self) -> None:
        path = ConfigZnode.path(f"brokers/{self._broker_id}")
        znode = optional(path, self._session.read(path))
        if znode is None:
            return
        changed = self._passwords.re_encoded(ConfigZnode.decode(path, znode.data).config)
        if changed is not None:
            data = ConfigZnode(changed).encode()
            written = self._session.write(SetData(path, data, znode.zk_version))
            if isinstance(written, ZkCode):
                _log.error("%s could not be encoded anew: %s", path, written.name)

    def _read(self) -> BrokerConfig:
        """The configuration in the two znodes; ConfigInvalid for an invalid value."""
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
        before = after = self.current
        try:
            after = self._read()
            if after != before:
                self._prepare(before, after)
        except (ConfigInvalid, ReconfigurationRefused) as refused:
            _log.error("Configs of broker %d could not be applied: %s", self._broker_id, refused)
            after = before
        if after == before and not self._must_pass_on_again:
            return
        self.current = after
        _config_log.info("%s", after.values_text)
        changed = after.effective.items() - before.effective.items()
        _warn_of_ineffective(sorted(name for name, _ in changed), BROKER_EFFECTS)
        self._must_pass_on_again = True
        self._on_broker_config(before, after)
        self._must_pass_on_again = False

    def load_topics(self, topics: Sequence[str] | None = None) -> None:
        """Passes on the configurations of ``topics``, or of all topics that have one."""
        with self._topics_lock:
            names = self._names("topics") if topics is None else topics
            paths = [ConfigZnode.path(f"topics/{name}") for name in names]
            for name, path, znode in zip(
                names, paths, self._session.perform(ReadZnodes(paths)), strict=True
            ):
                try:
                    config = _decoded(path, znode)
                except ZnodeCorrupt as corrupt:
                    _log.error("The configuration of topic %s is ignored: %s", name, corrupt)
                    continue
                self._on_topic(name, config)

    def load_clients(self) -> None:
        """Passes on the configurations of all users, client ids and addresses."""
        users = [f"users/{name}" for name in self._names("users")]
        clients = [f"clients/{name}" for name in self._names("clients")]
        pairs = [
            f"{user}/clients/{name}" for user in users for name in self._names(f"{user}/clients")
        ]
        ips = [f"ips/{name}" for name in self._names("ips")]
        for entity_path in (*clients, *users, *pairs, *ips):
            self.entity_changed(entity_path)

    def process_changes(self) -> None:
        """Handles all new notifications, and sets a watch for the next one."""
        entity_paths: dict[str, None] = {}
        for path, data in self._notifications.unseen():
            try:
                entity_paths[ConfigChangeZnode.decode(path, data).entity_path] = None
            except ZnodeCorrupt as corrupt:
                _log.error("error processing change notification: %s", corrupt)
        for entity_path in entity_paths:
            self.entity_changed(entity_path, is_notified=True)
        self._notifications.processed()

    def entity_changed(self, entity_path: str, *, is_notified: bool = False) -> None:
        """Reads the configuration of an entity, and passes it to its part of the broker.

        With ``is_notified`` the configuration is logged, even if it is that of another broker.
        """
        read = self._notified_config if is_notified else self._config
        entity_type, _, name = entity_path.partition("/")
        try:
            match entity_type:
                case "topics":
                    with self._topics_lock:
                        config = read(entity_path)
                        _warn_of_ineffective(config, TOPIC_EFFECTS)
                        self._on_topic(name, config)
                    value = config.get(UNCLEAN_LEADER_ELECTION_ENABLE, "")
                    if value.strip().lower() == "true":
                        self._on_unclean_topic(name)
                case "users" | "clients" | "ips":
                    self._on_client(entity_path, read(entity_path))
                case _:
                    if is_notified:
                        with contextlib.suppress(ZnodeCorrupt):
                            self._notified_config(entity_path)
                    if entity_type == "brokers" and name in (DEFAULT_ENTITY, str(self._broker_id)):
                        self._broker_changed()
        except ZnodeCorrupt as corrupt:
            _log.error("error processing change notification: %s", corrupt)

    def _notified_config(self, entity_path: str) -> dict[str, str]:
        config = self._config(entity_path)
        pairs = [
            (key, _HIDDEN if key in MECHANISMS else config[key])
            for key in mutable_hash_map_order(properties_order(config))
        ]
        _changes_log.info(
            "Processing override for entityPath: %s with config: %s", entity_path, scala_map(pairs)
        )
        return config

    def _names(self, entity_type: str) -> list[str]:
        path = ConfigZnode.path(entity_type)
        return sorted(optional(path, self._session.children(path)) or ())

    def _config(self, entity_path: str) -> dict[str, str]:
        path = ConfigZnode.path(entity_path)
        return _decoded(path, self._session.read(path))


def _decoded(path: str, result: Znode | ZkCode) -> dict[str, str]:
    """The configuration in a znode; empty if the znode does not exist."""
    znode = optional(path, result)
    return {} if znode is None else dict(ConfigZnode.decode(path, znode.data).config)


def _warn_of_ineffective(names: Iterable[str], effects: Mapping[str, KeyEffect]) -> None:
    ineffective = without_effect(names, effects)
    if ineffective:
        _log.warning("%s", no_effect_warning(ineffective))
