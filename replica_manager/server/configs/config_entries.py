"""Configuration entries for clients: key, value, source and synonyms.

Source: Kafka ``ConfigHelper`` (``createTopicConfigEntry``, ``createBrokerConfigEntry``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from msgspec import Struct, structs

from kafka_common.model import ConfigSource
from replica_manager.configuration.broker_keys import BROKER_KEYS, INTERNAL_KEYS
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.config_keys import ConfigKey, ConfigValue, text_of
from replica_manager.configuration.dynamic_keys import (
    DYNAMIC_IN_KAFKA,
    QUOTA_KEYS,
    SAME_SETTING,
    base_name,
)
from replica_manager.configuration.key_documentation import (
    documentation_of_broker,
    documentation_of_topic,
)
from replica_manager.configuration.topic_keys import BROKER_SYNONYMS, TOPIC_KEYS, inherited_value

_TYPE_IDS: Final = {
    "boolean": 1,
    "string": 2,
    "int": 3,
    "short": 4,
    "long": 5,
    "double": 6,
    "list": 7,
    "class": 8,
    "password": 9,
}
_UNKNOWN_TYPE: Final = 0


class DescribedSynonym(Struct, frozen=True):
    """One of the keys that can set an entry's value; they are listed by precedence."""

    name: str
    value: str | None
    source: ConfigSource


class DescribedEntry(Struct, frozen=True):
    """A configuration key of a topic or broker, as DescribeConfigs describes it."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[DescribedSynonym, ...]
    type_id: int
    documentation: str | None
    """The key's documentation; empty for loggers and client metrics, None if there is none."""


def topic_entries(
    config: Mapping[str, str], broker: BrokerConfig, wanted: Collection[str] = ()
) -> list[DescribedEntry]:
    """The entries of the ``wanted`` topic keys, or of all keys if ``wanted`` is empty.

    ``config`` is the topic's own configuration; unknown keys in it are included.
    """
    names = frozenset(wanted)
    known = [
        _topic_entry(key, config, broker)
        for name, key in TOPIC_KEYS.items()
        if not names or name in names
    ]
    return known + [
        _unknown_entry(
            name, (DescribedSynonym(name, None, ConfigSource.TOPIC),), is_read_only=False
        )
        for name in config
        if name not in TOPIC_KEYS and (not names or name in names)
    ]


def broker_entries(broker: BrokerConfig) -> list[DescribedEntry]:
    """The entries of every known broker key, and of unknown keys in the configuration."""
    others = dict.fromkeys((*broker.originals, *broker.dynamic_default, *broker.dynamic_own))
    return [
        _entry(
            key,
            broker.values[key.name],
            _broker_synonyms(key.name, broker),
            is_read_only=key.name not in DYNAMIC_IN_KAFKA,
            documentation=documentation_of_broker(key.name),
        )
        for key in BROKER_KEYS.values()
        if key.name not in INTERNAL_KEYS or key.name in broker.originals
    ] + [_other_entry(name, broker) for name in others if name not in BROKER_KEYS]


def default_broker_entries(broker: BrokerConfig) -> list[DescribedEntry]:
    """The entries of the dynamic defaults of all brokers."""
    entries = []
    for name, text in broker.dynamic_default.items():
        key = _key_of(name)
        synonyms = tuple(
            synonym
            for synonym in _broker_synonyms(name, broker)
            if synonym.source is ConfigSource.DYNAMIC_DEFAULT_BROKER
        )
        is_read_only = name not in DYNAMIC_IN_KAFKA
        if key is None:
            entries.append(_unknown_entry(name, synonyms, is_read_only=is_read_only))
        else:
            documentation = documentation_of_broker(name)
            entries.append(
                _entry(key, text, synonyms, is_read_only=is_read_only, documentation=documentation)
            )
    return entries


def logger_entries(levels: Mapping[str, str]) -> list[DescribedEntry]:
    """The entries of all loggers with their levels."""
    return _plain_entries(levels, ConfigSource.DYNAMIC_BROKER_LOGGER)


def client_metrics_entries(config: Mapping[str, str]) -> list[DescribedEntry]:
    """The entries of a client metrics subscription (KIP-714)."""
    return _plain_entries(config, ConfigSource.CLIENT_METRICS)


def _plain_entries(texts: Mapping[str, str], source: ConfigSource) -> list[DescribedEntry]:
    return [
        DescribedEntry(name, text, source, False, False, (), _UNKNOWN_TYPE, "")
        for name, text in texts.items()
    ]


def _topic_entry(key: ConfigKey, config: Mapping[str, str], broker: BrokerConfig) -> DescribedEntry:
    value: ConfigValue
    synonyms: tuple[DescribedSynonym, ...] = ()
    if key.name in BROKER_SYNONYMS:
        strongest, _ = BROKER_SYNONYMS[key.name][0]
        synonyms = _broker_synonyms(strongest, broker)
    if key.name in config:
        value = key.parse(config[key.name])
        own = DescribedSynonym(key.name, text_of(value), ConfigSource.TOPIC)
        synonyms = (own, *synonyms)
    else:
        value = inherited_value(key.name, broker.values)
    documentation = documentation_of_topic(key.name)
    return _entry(key, value, synonyms, is_read_only=False, documentation=documentation)


def _broker_synonyms(name: str, broker: BrokerConfig) -> tuple[DescribedSynonym, ...]:
    """The keys and sources that set a value for ``name``, by precedence.

    Leaves out all before the first synonym with the name ``name`` itself, as Kafka does.  The
    result is empty if there is no such synonym.
    """
    key = _key_of(name)
    is_sensitive = key is None or key.type_name == "password"
    found = [
        DescribedSynonym(synonym, None if is_sensitive else text, source)
        for source, texts in (
            (ConfigSource.DYNAMIC_BROKER, broker.dynamic_own),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, broker.dynamic_default),
            (ConfigSource.STATIC_BROKER, _with_both_ids(broker.originals)),
            (ConfigSource.DEFAULT, _DEFAULTS),
        )
        for synonym in _synonyms_of(name)
        if (text := texts.get(synonym)) is not None
    ]
    first = next((i for i, synonym in enumerate(found) if synonym.name == name), len(found))
    return tuple(found[first:])


def _with_both_ids(originals: Mapping[str, str]) -> Mapping[str, str]:
    """``broker.id`` and ``node.id`` are synonyms: setting one sets the other."""
    broker_id = originals.get("broker.id", originals.get("node.id"))
    if broker_id is None:
        return originals
    return {"broker.id": broker_id, "node.id": broker_id, **originals}


def _synonyms_of(name: str) -> tuple[str, ...]:
    base = base_name(name)
    return SAME_SETTING.get(name, (name,)) if base is None else (name, base)


def _key_of(name: str) -> ConfigKey | None:
    key = BROKER_KEYS.get(name) or QUOTA_KEYS.get(name)
    return key or BROKER_KEYS.get(base_name(name) or "")


_DEFAULTS: Final[Mapping[str, str]] = {
    name: text for name, key in BROKER_KEYS.items() if (text := text_of(key.default)) is not None
}


def _other_entry(name: str, broker: BrokerConfig) -> DescribedEntry:
    key, synonyms = _key_of(name), _broker_synonyms(name, broker)
    if key is None:
        return _unknown_entry(name, synonyms, is_read_only=True)
    entry = _entry(key, synonyms[0].value, synonyms, is_read_only=True, documentation=None)
    return structs.replace(entry, name=name)


def _unknown_entry(
    name: str, synonyms: tuple[DescribedSynonym, ...], *, is_read_only: bool
) -> DescribedEntry:
    """The entry of an unknown key; its value may be a secret, so it is left out."""
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT
    return DescribedEntry(name, None, source, is_read_only, True, synonyms, _UNKNOWN_TYPE, None)


def _entry(
    key: ConfigKey,
    value: ConfigValue,
    synonyms: tuple[DescribedSynonym, ...],
    *,
    is_read_only: bool,
    documentation: str | None,
) -> DescribedEntry:
    is_sensitive = key.type_name == "password"
    return DescribedEntry(
        key.name,
        None if is_sensitive else text_of(value),
        synonyms[0].source if synonyms else ConfigSource.DEFAULT,
        is_read_only,
        is_sensitive,
        synonyms,
        _TYPE_IDS[key.type_name],
        documentation,
    )
