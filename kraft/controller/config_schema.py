"""Configuration keys known to the controller, and the effective value of a key.

The tables of keys belong to the broker; it hands them in as a :class:`ConfigSchema`.  A topic's
key that the topic does not set is inherited from the broker: the dynamic value of this
node, the dynamic value of all brokers, then the static one, each under the names that the broker
has for it.

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
    """A broker's key that a topic's key inherits from, and how its values are converted."""

    name: str
    convert: Callable[[str], str] = str


class ConfigKeySchema(NamedTuple):
    """Name, default and kind of one key."""

    name: str
    default: str | None
    is_list: bool = False
    is_sensitive: bool = False
    synonyms: tuple[InheritedKey, ...] = ()
    """In the order in which they are looked at."""


class EffectiveConfig(NamedTuple):
    """The effective value of a key, with its source; ``value`` is None if it has none."""

    name: str
    value: str | None
    source: ConfigSource
    is_sensitive: bool


class ConfigSchema(Protocol):
    """The known keys."""

    def key(self, resource_type: int, name: str) -> ConfigKeySchema | None:
        """None for a key that this kind of resource does not have."""

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
        """Refuses an invalid configuration; gets the complete one that would result."""


class AlterConfigPolicy(Protocol):
    """The operator's policy for configuration changes (KIP-133)."""

    def validate(self, resource: ConfigResource, configs: Mapping[str, str | None]) -> None:
        """Refuses changed keys with ApiException(POLICY_VIOLATION)."""


class ConfigValues(Protocol):
    """Values by key: a mapping, or a timeline's."""

    def __contains__(self, name: object, /) -> bool: ...

    def __getitem__(self, name: str, /) -> str: ...


def effective_topic_config(
    key: ConfigKeySchema,
    static_node: ConfigValues,
    dynamic_cluster: ConfigValues,
    dynamic_node: ConfigValues,
    dynamic_topic: ConfigValues,
) -> EffectiveConfig:
    """The value of a topic's key, and where it comes from."""
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
