"""The configuration keys for the quorum controller, from the broker's tables.

Source: Kafka ``KafkaConfigSchema``, ``ControllerConfigurationValidator``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.java import parse_int
from kafka_common.model import ConfigResourceType
from kafka_common.topic_names import invalid_name_reason
from kraft.controller.config_schema import (
    ConfigKeySchema,
    ConfigResource,
    InheritedKey,
)
from kraft.node.client_metrics_configs import validate_client_metrics
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigKey, ConfigValue, text_of
from replica_manager.configuration.topic_keys import (
    BROKER_SYNONYMS,
    TOPIC_KEYS,
    TopicConfigRefused,
    validate_topic_config,
)

_log: Final = logging.getLogger("org.apache.kafka.server.config.ConfigSynonym")


class BrokerConfigSchema:
    """Topic and broker keys; a topic's key inherits from the broker's synonym."""

    def __init__(self) -> None:
        # Made once, because the response for each created topic has all topic keys.
        self._keys: dict[int, dict[str, ConfigKeySchema]] = {
            resource_type: {name: _schema(key, resource_type) for name, key in keys.items()}
            for resource_type, keys in (
                (ConfigResourceType.TOPIC, TOPIC_KEYS),
                (ConfigResourceType.BROKER, BROKER_KEYS),
            )
        }

    def key(self, resource_type: int, name: str) -> ConfigKeySchema | None:
        """The schema of a key; None if this type of resource does not have the key."""
        return self._keys.get(resource_type, {}).get(name)

    def topic_keys(self) -> Iterable[ConfigKeySchema]:
        """Every key that a topic can have."""
        return self._keys[ConfigResourceType.TOPIC].values()


def _schema(key: ConfigKey, resource_type: int) -> ConfigKeySchema:
    synonyms = (
        BROKER_SYNONYMS.get(key.name, ()) if resource_type == ConfigResourceType.TOPIC else ()
    )
    return ConfigKeySchema(
        name=key.name,
        default=text_of(key.default),
        is_list=key.type_name == "list",
        is_sensitive=key.type_name == "password",
        synonyms=tuple(_synonym(name, unit) for name, unit in synonyms),
    )


def _synonym(name: str, unit: int) -> InheritedKey:
    if unit == 1:
        return InheritedKey(name)
    return InheritedKey(name, lambda text: str(_integer(name, text) * unit))


def _integer(name: str, text: str) -> int:
    """A broker's value as a 32-bit integer; 0, with an error in the log, if it is none.

    The value may be any text, because configurations of brokers are stored unchecked.
    Source: Kafka ``ConfigSynonym.valueToInt``.
    """
    trimmed = text.strip()
    if not trimmed:
        return 0
    number = parse_int(trimmed)
    if number is not None:
        return number
    _log.error("%s: unable to parse '%s' as an integer; topics inherit 0", name, trimmed)
    return 0


class BrokerConfigValidator:
    """Validates topic configurations and resource names."""

    def __init__(self, static_values: Mapping[str, ConfigValue]) -> None:
        """``static_values`` is this node's own configuration, which topics inherit."""
        self._static_values = static_values

    def validate_resource(self, resource: ConfigResource) -> None:
        """Refuses a resource that cannot exist."""
        match resource.resource_type:
            case ConfigResourceType.TOPIC:
                if not resource.name:
                    raise _refusal("Default topic resources are not allowed.")
                reason = invalid_name_reason(resource.name)
                if reason is not None:
                    raise ApiException(ErrorCode.invalid_topic_exception, reason)
            case ConfigResourceType.BROKER:
                number = parse_int(resource.name) if resource.name else 0
                if number is None:
                    raise _refusal("Unable to parse broker name as a base 10 number.")
                if number < 0:
                    raise _refusal("Invalid negative broker ID.")
            case ConfigResourceType.CLIENT_METRICS:
                if not resource.name:
                    raise _refusal("Subscription name can't be empty")
            case _:
                raise _refusal(f"Unknown resource type {resource.resource_type}")

    def validate(
        self,
        resource: ConfigResource,
        new_configs: Mapping[str, str],
        existing_configs: Mapping[str, str],  # noqa: ARG002 - only tiered storage looks at it
    ) -> None:
        """Refuses an invalid configuration; ``new_configs`` is the whole one after the change."""
        self.validate_resource(resource)
        if resource.resource_type == ConfigResourceType.CLIENT_METRICS:
            validate_client_metrics(new_configs)
        if resource.resource_type != ConfigResourceType.TOPIC:
            return
        try:
            validate_topic_config(new_configs, self._static_values)
        except TopicConfigRefused as refused:
            raise ApiException(ErrorCode.invalid_config, str(refused)) from refused


def _refusal(message: str) -> ApiException:
    return ApiException(ErrorCode.invalid_request, message)
