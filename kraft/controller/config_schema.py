"""Configuration keys known to the controller, and the effective value of a key.

The caller provides the broker's tables of keys as a :class:`ConfigSchema`.  A key that a topic
does not set is inherited: first from this node's dynamic configuration, then from the dynamic
configuration of all brokers, then from the static one.  In each, a key may have several names
(synonyms); the first that is set counts.

Source: Kafka ``KafkaConfigSchema``, ``ConfigurationValidator``, ``ConfigSource``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, Protocol

from kafka_common.model import ConfigResourceType, ConfigSource


class ConfigResource(NamedTuple):
    """A configuration resource; the name is empty for the default of all brokers."""

    resource_type: int
    name: str


ALL_BROKERS: Final = ConfigResource(ConfigResourceType.BROKER, "")


class InheritedKey(NamedTuple):
    """A broker's key from which a topic's key inherits, and the conversion of its values."""

    name: str
    convert: Callable[[str], str] = str


class ConfigKeySchema(NamedTuple):
    """Name, default and kind of one key."""

    name: str
    default: str | None
    is_list: bool = False
    is_sensitive: bool = False
    synonyms: tuple[InheritedKey, ...] = ()
    """The broker's keys from which a topic's key inherits; the first that is set counts."""


class EffectiveConfig(NamedTuple):
    """The effective value of a key, and its source; ``value`` is None if there is no value."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool


class ConfigSchema(Protocol):
    """The known keys."""

    def key(self, resource_type: int, name: str) -> ConfigKeySchema | None:
        """The schema of a key; None if this type of resource does not have the key."""

    def topic_keys(self) -> Iterable[ConfigKeySchema]:
        """Every key that a topic can have."""


class ConfigurationValidator(Protocol):
    """Validates configurations; raises ApiException or ConfigInvalid."""

    def validate_resource(self, resource: ConfigResource) -> None:
        """Refuses a resource that has no configuration."""

    def validate(
        self,
        resource: ConfigResource,
        new_configs: Mapping[str, str],
        existing_configs: Mapping[str, str],
    ) -> None:
        """Refuses an invalid configuration; ``new_configs`` is the whole one after the change."""


class AlterConfigPolicy(Protocol):
    """The operator's policy for configuration changes (KIP-133)."""

    def validate(self, resource: ConfigResource, configs: Mapping[str, str | None]) -> None:
        """Refuses changed keys with ApiException(POLICY_VIOLATION)."""


class ConfigValues(Protocol):
    """Values by key: a mapping or a TimelineDict."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> str: ...


def effective_topic_config(
    key: ConfigKeySchema,
    static_node: ConfigValues,
    dynamic_cluster: ConfigValues,
    dynamic_node: ConfigValues,
    dynamic_topic: ConfigValues,
) -> EffectiveConfig:
    """The effective value of a topic's key, and its source."""
    if key.name in dynamic_topic:
        value = dynamic_topic[key.name]
        return EffectiveConfig(key.name, value, ConfigSource.TOPIC, key.is_sensitive)
    for configs, source in (
        (dynamic_node, ConfigSource.DYNAMIC_BROKER),
        (dynamic_cluster, ConfigSource.DYNAMIC_DEFAULT_BROKER),
        (static_node, ConfigSource.STATIC_BROKER),
    ):
        for synonym in key.synonyms:
            if synonym.name in configs:
                inherited = synonym.convert(configs[synonym.name])
                return EffectiveConfig(key.name, inherited, source, key.is_sensitive)
    return EffectiveConfig(key.name, key.default, ConfigSource.DEFAULT, key.is_sensitive)
