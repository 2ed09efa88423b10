"""Applies configuration changes of a client, and validates the result.

Pure.  A change is a list of operations on keys.  The resulting configuration is validated as a
whole.

Source: Kafka ``ConfigAdminManager``, ``ZkAdminManager.incrementalAlterConfigs``,
``DynamicBrokerConfig.validate`` (KIP-133, KIP-226, KIP-339).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.errors import ConfigInvalid
from kafka_common.model import OpType
from replica_manager.configuration.config import DYNAMIC_BROKER_KEYS, BrokerConfig, is_static
from replica_manager.configuration.config_keys import ConfigKey, text_of
from replica_manager.configuration.dynamic_keys import base_name, is_per_broker, is_security_key
from replica_manager.configuration.reconfiguration import (
    ReconfigurationRefused,
    check_reconfiguration,
)
from replica_manager.configuration.topic_keys import TopicConfigRefused, validate_topic_config
from replica_manager.request_errors import RequestRefused


class KeyChange(NamedTuple):
    """The change of one key in a request; ``operation`` may be a number that is no ``OpType``."""

    name: str
    operation: int
    value: str | None


def check_changes(changes: Sequence[KeyChange]) -> None:
    """Refuses a repeated key or a missing value with RequestRefused(INVALID_REQUEST)."""
    if any(count > 1 for count in Counter(change.name for change in changes).values()):
        raise RequestRefused(ErrorCode.invalid_request, "Error due to duplicate config keys")
    without_value = [
        change.name
        for change in changes
        if change.value is None and change.operation != OpType.DELETE
    ]
    if without_value:
        raise RequestRefused(
            ErrorCode.invalid_request,
            f"Null value not supported for : {', '.join(without_value)}",
        )


def apply(
    changes: Iterable[KeyChange], config: Mapping[str, str], keys: Mapping[str, ConfigKey]
) -> dict[str, str]:
    """``config`` after the changes, which :func:`check_changes` has accepted.

    Raises RequestRefused(INVALID_CONFIG) for APPEND or SUBTRACT on an unknown key without a value,
    or on a key that is no list; Kafka's error is UNKNOWN_SERVER_ERROR.
    """
    altered = dict(config)
    for name, number, value in changes:
        try:
            operation = OpType(number)
        except ValueError:
            raise RequestRefused(
                ErrorCode.invalid_request, f"Unknown operations type {number}"
            ) from None
        if operation is OpType.DELETE:
            altered.pop(name, None)
            continue
        assert value is not None
        if operation is OpType.SET:
            altered[name] = value
            continue
        current = altered.get(name, _default_list(name, operation, keys))
        altered[name] = ",".join(
            _added(current, value) if operation is OpType.APPEND else _removed(current, value)
        )
    return altered


def _default_list(name: str, operation: OpType, keys: Mapping[str, ConfigKey]) -> str:
    key = keys.get(name)
    if key is None:
        raise RequestRefused(ErrorCode.invalid_config, f"Unknown config name: {name}")
    if key.type_name != "list":
        raise RequestRefused(
            ErrorCode.invalid_config,
            f"Config value {operation.name.lower()} is not allowed for config key: {name}",
        )
    return text_of(key.default) or ""


def _added(current: str, value: str) -> list[str]:
    elements = _elements(current)
    return elements + [element for element in _elements(value) if element not in elements]


def _removed(current: str, value: str) -> list[str]:
    left = _elements(current)
    for element in _elements(value):
        if element in left:
            left.remove(element)
    return left


def _elements(text: str) -> list[str]:
    return [element for element in text.split(",") if element]


def check_topic_config(topic: str, config: Mapping[str, str], broker: BrokerConfig) -> None:
    """RequestRefused(INVALID_CONFIG) for an unknown key, an invalid value or a contradiction."""
    try:
        validate_topic_config(config, broker.values)
    except TopicConfigRefused as refused:
        message = str(refused)
        if isinstance(refused.__cause__, ConfigInvalid):
            message = (
                "Invalid config value for resource "
                f"ConfigResource(type=TOPIC, name='{topic}'): {message}"
            )
        raise RequestRefused(ErrorCode.invalid_config, message) from refused


def check_broker_config(
    config: Mapping[str, str], broker: BrokerConfig, *, per_broker: bool
) -> BrokerConfig:
    """The broker's configuration with ``config``, or RequestRefused(INVALID_REQUEST).

    ``config`` is the whole dynamic configuration of ``broker``, or the default of all brokers, with
    decoded passwords.  Unknown keys are accepted, as in Kafka: they may belong to a plugin.
    """
    _refuse_keys(filter(is_static, config), "Cannot update these configs dynamically")
    _refuse_keys(
        filter(is_security_key, config),
        "These security configs can be dynamically updated only per-listener using the listener "
        "prefix",
        "HashSet",
    )
    try:
        for name, text in config.items():
            key = DYNAMIC_BROKER_KEYS.get(base_name(name) or name)
            if key is not None:
                key.parse(text)
    except ConfigInvalid as invalid:
        raise RequestRefused(ErrorCode.invalid_request, str(invalid)) from invalid
    if not per_broker:
        _refuse_keys(
            filter(is_per_broker, config),
            "Cannot update these configs at default cluster level, broker id must be specified",
        )
    try:
        after = broker.with_dynamic(
            default=broker.dynamic_default if per_broker else config,
            own=config if per_broker else broker.dynamic_own,
        )
        check_reconfiguration(broker, after)
    except ConfigInvalid as invalid:
        raise RequestRefused(ErrorCode.invalid_request, str(invalid)) from invalid
    except ReconfigurationRefused as refused:
        raise RequestRefused(ErrorCode.invalid_request, str(refused)) from refused
    return after


def _refuse_keys(names: Iterable[str], reason: str, collection: str = "Set") -> None:
    """Raises RequestRefused if there are names; ``collection`` is the Scala class Kafka prints."""
    refused = ", ".join(names)
    if refused:
        raise RequestRefused(ErrorCode.invalid_request, f"{reason}: {collection}({refused})")
