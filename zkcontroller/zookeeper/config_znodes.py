"""Znodes under ``/config``: dynamic configurations and change notifications."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from msgspec import Struct

from kafka_common.sanitizer import DEFAULT_ENTITY
from zkcontroller.zookeeper.scala_order import properties_order
from zkcontroller.zookeeper.znode_json import JsonFields, json_object, json_string, parse_json


class ConfigZnode(Struct, frozen=True):
    """``/config/<type>/<entity>``, JSON version 1: dynamic configuration of one entity.

    Written by tools and brokers.  Null data is an empty configuration; ``/config/users/<user>`` has
    null data if only clients of the user are configured.  JSON without an object ``config`` is an
    empty configuration too, as in Kafka (``ConfigEntityZNode.decode``).
    """

    PATH = "/config"
    TYPES = ("topics", "clients", "users", "brokers", "ips")

    config: Mapping[str, str]

    @classmethod
    def type_path(cls, entity_type: str) -> str:
        return f"/config/{entity_type}"

    @staticmethod
    def path(entity_path: str) -> str:
        """The path of an entity such as ``topics/t`` or ``users/a/clients/b``."""
        return f"/config/{entity_path}"

    @staticmethod
    def topic_path(topic: str) -> str:
        return f"/config/topics/{topic}"

    @staticmethod
    def broker_path(broker_id: int | None) -> str:
        """The path of a broker's configuration; None: that of the default for all brokers."""
        return f"/config/brokers/{DEFAULT_ENTITY if broker_id is None else broker_id}"

    def encode(self) -> bytes:
        names = properties_order(self.config)
        config = json_object((name, json_string(self.config[name])) for name in names)
        return b'{"version":1,"config":%s}' % config

    @classmethod
    def decode(cls, path: str, data: bytes) -> ConfigZnode:
        if not data:
            return cls({})
        document = parse_json(path, data)
        config = document.get("config") if isinstance(document, dict) else None
        if not isinstance(config, dict):
            return cls({})
        named = JsonFields(path, config)
        return cls({name: named.text(name) for name in named})


class ConfigChangesZnode:
    """``/config/changes``: its children name the entities whose configuration was changed."""

    PATH: Final = "/config/changes"


class ConfigChangeZnode(Struct, frozen=True):
    """``/config/changes/config_change_<n>``, JSON version 2, sequential: a changed entity.

    ``entity_path`` is for example ``topics/orders``.  Written with each configuration change,
    removed by brokers after 15 minutes.  Version 1 had ``entity_type`` and ``entity_name``.
    """

    PREFIX: ClassVar[str] = "config_change_"
    CREATE_PATH: ClassVar[str] = "/config/changes/config_change_"

    entity_path: str

    @staticmethod
    def path(name: str) -> str:
        """The path of the child called ``name`` (``config_change_0000000001``)."""
        return f"/config/changes/{name}"

    def encode(self) -> bytes:
        return b'{"version":2,"entity_path":%s}' % json_string(self.entity_path)

    @classmethod
    def decode(cls, path: str, data: bytes) -> ConfigChangeZnode:
        fields = JsonFields.parse(path, data)
        if fields.integer("version", 1, 2) == 2:
            entity_path = fields.text("entity_path")
        else:
            entity_path = f"{fields.text('entity_type')}/{fields.text('entity_name')}"
        if entity_path.partition("/")[0] not in ConfigZnode.TYPES:
            raise fields.corrupt(f"not an entity path: {entity_path[:100]!r}")
        return cls(entity_path)
