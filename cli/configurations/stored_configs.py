"""Reads configurations in ZooKeeper, ``/config/<kind>s/<name>``, and writes them as brokers do.

A write is one transaction: the znode at the version that was read, and a notification that makes
brokers read it.  It is used if no broker can be asked: for credentials before brokers run, and for
the configuration of a stopped broker.

Source: Kafka ``ConfigCommand.alterConfigWithZk``, ``AdminZkClient.changeEntityConfig``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from kafka_common.errors import ZooKeeperRefused
from kafka_common.protocol.scram import MECHANISMS, ScramCredential
from kafka_common.sanitizer import DEFAULT_ENTITY, desanitize
from zkcontroller.zookeeper.requests import (
    Check,
    Create,
    Delete,
    RolledBack,
    SetData,
    Write,
    ZkCode,
    ZkTransaction,
)
from zkcontroller.zookeeper.results import optional
from zkcontroller.zookeeper.znodes import (
    ConfigChangesZnode,
    ConfigChangeZnode,
    ConfigZnode,
    ControllerZnode,
    TopicsZnode,
    TopicZnode,
)
from zkcontroller_cli.console.command_lines import command_line
from zkcontroller_cli.console.errors import Refused
from zkcontroller_cli.console.options import say
from zkcontroller_cli.values.config_entities import (
    BROKER,
    CLIENT,
    DEFAULT_NAME,
    IP,
    TOPIC,
    USER,
    ConfigEntity,
    entity_znode,
)
from zkcontroller_cli.values.config_values import ConfigSetting, PlaceOfValue, own_source
from zkcontroller_cli.values.quotas import HeldQuotas, known_quotas
from zkcontroller_cli.values.users import HeldCredential
from zkcontroller_cli.znodes.partitions import live_broker_ids
from zkcontroller_cli.znodes.session import ZooKeeper, decoded

_ATTEMPTS: Final = 5
"""The most times that a change is tried, as another change may come between read and write."""
_CONFLICT_CODES: Final = (ZkCode.BAD_VERSION, ZkCode.NODE_EXISTS, ZkCode.NO_NODE, ZkCode.NOT_EMPTY)


class StoredConfig(NamedTuple):
    """The content and version of a configuration znode; without a znode empty and None."""

    config: Mapping[str, str]
    zk_version: int | None


def read_stored(
    zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, StoredConfig]:
    """Read the configuration znode of each entity; Refused if one is corrupt."""
    paths = [ConfigZnode.path(entity_znode(each)) for each in entities]
    found = {}
    for entity, path, result in zip(entities, paths, zookeeper.read(paths), strict=True):
        znode = optional(path, result)
        if znode is None:
            found[entity] = StoredConfig({}, None)
            continue
        read = decoded(ConfigZnode.decode, path, znode.data)
        if read is None:
            look = command_line("znode get", path)
            raise Refused(f"the configuration of {entity.text} is corrupt: {look}")
        found[entity] = StoredConfig(read.config, znode.zk_version)
    return found


def stored_settings(
    zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]
) -> dict[ConfigEntity, dict[str, ConfigSetting]]:
    """The settings in each entity's znode, by key; Refused if a topic does not exist."""
    for entity in entities:
        if entity.kind == TOPIC:
            _must_be_a_topic(zookeeper, entity)
    return {
        entity: {
            name: _setting(entity, name, stored.config[name]) for name in sorted(stored.config)
        }
        for entity, stored in read_stored(zookeeper, entities).items()
    }


def _must_be_a_topic(zookeeper: ZooKeeper, entity: ConfigEntity) -> None:
    path = TopicZnode.path(entity.name)
    if optional(path, zookeeper.stats([path])[0]) is None:
        raise Refused(f"there is no {entity.text}; zkctl topic list shows all")


def stored_entities(zookeeper: ZooKeeper, kind: str) -> list[ConfigEntity]:
    """Every entity of the kind.

    All topics; brokers that are live or have a znode, and their default; of other kinds those with
    a znode, and the client ids of users.
    """
    if kind == TOPIC:
        path = TopicsZnode.PATH
        names = optional(path, zookeeper.children([path])[0]) or []
        return [ConfigEntity(TOPIC, name) for name in names]
    names = _names_below(zookeeper, f"{kind}s")
    if kind == BROKER:
        ids = {*map(str, live_broker_ids(zookeeper)), *names} - {DEFAULT_ENTITY}
        numbers = sorted(int(each) for each in ids if each.isdecimal())
        return [ConfigEntity(BROKER, str(number)) for number in numbers] + [
            ConfigEntity(BROKER, DEFAULT_NAME)
        ]
    entities = [ConfigEntity(kind, _name_of(name)) for name in names]
    if kind == USER:
        parents = [ConfigZnode.path(f"users/{name}/clients") for name in names]
        for name, path, result in zip(names, parents, zookeeper.children(parents), strict=True):
            entities += [
                ConfigEntity(USER, _name_of(name), _name_of(client))
                for client in optional(path, result) or ()
            ]
    return entities


def stored_quotas(zookeeper: ZooKeeper) -> list[HeldQuotas]:
    """Every entity with quotas in its znode."""
    entities = [each for kind in (USER, CLIENT, IP) for each in stored_entities(zookeeper, kind)]
    held = []
    for entity, stored in read_stored(zookeeper, entities).items():
        quotas = {}
        for name in known_quotas(entity):
            if name not in stored.config:
                continue
            try:
                quotas[name] = float(stored.config[name])
            except ValueError:
                say(f"warning: {name} of {entity.text} is no number: {stored.config[name][:100]!r}")
        if quotas:
            held.append(HeldQuotas(entity, quotas))
    return held


def stored_credentials(zookeeper: ZooKeeper, users: Sequence[str] = ()) -> list[HeldCredential]:
    """The SCRAM credentials of those users (none named: of all), sorted by user and mechanism."""
    if users:
        entities = [ConfigEntity(USER, user) for user in users]
    else:
        entities = [each for each in stored_entities(zookeeper, USER) if each.client_id is None]
    return sorted(
        HeldCredential(entity.name, mechanism, credential.iterations)
        for entity, stored in read_stored(zookeeper, entities).items()
        for mechanism, credential in credentials_in(entity, stored.config).items()
    )


def credentials_in(entity: ConfigEntity, config: Mapping[str, str]) -> dict[str, ScramCredential]:
    """By mechanism, the credentials in a user's configuration; invalid ones are warned about."""
    found = {}
    for mechanism in MECHANISMS:
        if mechanism not in config:
            continue
        try:
            found[mechanism] = ScramCredential.decode(config[mechanism])
        except ValueError as wrong:
            say(f"warning: {mechanism} of {entity.text} cannot be used: {wrong}")
    return found


def change_stored(
    reading: ZooKeeper,
    writing: ZooKeeper,
    entity: ConfigEntity,
    change: Callable[[Mapping[str, str]], Mapping[str, str]],
) -> None:
    """Change the entity's configuration in one transaction, with a notification for brokers.

    ``change`` gets the current configuration and returns the new one; it is called again if another
    change came in between.  Refused if a KRaft controller holds ``/controller``, or if other
    changes came in between too often.
    """
    for _ in range(_ATTEMPTS):
        stored = read_stored(reading, [entity])[entity]
        config = change(stored.config)
        path = ConfigZnode.path(entity_znode(entity))
        is_child_less = not (optional(path, reading.children([path])[0]) or [])
        writing.create_missing([path.rpartition("/")[0], ConfigChangesZnode.PATH])
        operations = [
            *_fence(reading),
            *_writes(path, stored, config, is_removed=entity.kind == USER and is_child_less),
            Create(
                ConfigChangeZnode.CREATE_PATH,
                ConfigChangeZnode(entity_znode(entity)).encode(),
                sequential=True,
            ),
        ]
        done = writing.transaction(ZkTransaction(operations))
        if not isinstance(done, RolledBack):
            return
        if done.code not in _CONFLICT_CODES:
            raise ZooKeeperRefused(path, done.code.name)
    raise Refused(f"{entity.text} is being changed by others as well; nothing was done: try again")


def _fence(zookeeper: ZooKeeper) -> list[Check]:
    """The check that ``/controller`` is unchanged when the transaction runs.

    Empty if there is no ``/controller``.
    """
    path = ControllerZnode.PATH
    znode = optional(path, zookeeper.read([path])[0])
    if znode is None:
        return []
    controller = decoded(ControllerZnode.decode, znode.data)
    if controller is None or controller.kraft_controller_epoch >= 0:
        raise Refused(
            f"{path} does not name a controller in ZooKeeper mode: what is written to ZooKeeper "
            "may be lost; name brokers with -b"
        )
    return [Check(path, znode.zk_version)]


def _writes(
    path: str, stored: StoredConfig, config: Mapping[str, str], *, is_removed: bool
) -> list[Write]:
    if stored.zk_version is None:
        return [Create(path, ConfigZnode(config).encode())] if config else []
    if not config and is_removed:
        return [Delete(path, stored.zk_version)]
    return [SetData(path, ConfigZnode(config).encode(), stored.zk_version)]


def _names_below(zookeeper: ZooKeeper, entity_type: str) -> list[str]:
    path = ConfigZnode.type_path(entity_type)
    return optional(path, zookeeper.children([path])[0]) or []


def _name_of(znode_name: str) -> str:
    return DEFAULT_NAME if znode_name == DEFAULT_ENTITY else desanitize(znode_name)


def _setting(entity: ConfigEntity, name: str, text: str) -> ConfigSetting:
    source = own_source(entity)
    value, type_name, is_sensitive = text, "unknown", False
    match entity.kind:
        case "user" if name in MECHANISMS:
            held = credentials_in(entity, {name: text})
            value, is_sensitive = "", True
            if name in held:
                value = f"iterations={held[name].iterations}"
        case "topic":
            from replica_manager.configuration.topic_keys import TOPIC_KEYS

            if name in TOPIC_KEYS:
                type_name = TOPIC_KEYS[name].type_name
        case "broker":
            from replica_manager.configuration.config import DYNAMIC_BROKER_KEYS
            from replica_manager.configuration.dynamic_keys import base_name

            key = DYNAMIC_BROKER_KEYS.get(base_name(name) or name)
            # An unknown key may be a password; brokers do not show its value either.
            is_sensitive = key is None or key.type_name == "password"
            type_name = "unknown" if key is None else key.type_name
        case _:
            known = known_quotas(entity)
            type_name = known[name].type if name in known else "unknown"
    shown = None if is_sensitive and entity.kind == BROKER else value
    return ConfigSetting(
        name,
        shown,
        source,
        type_name,
        is_sensitive=is_sensitive,
        synonyms=(PlaceOfValue(name, shown, source),),
    )
