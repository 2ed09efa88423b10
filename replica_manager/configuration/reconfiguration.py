"""The rules for changes of a running broker's configuration.

They apply to requests of clients and to changes read from ZooKeeper.  Pure; the rules for key
stores of listeners read files, so they are in :mod:`.security.dynamic_tls`.

Source: Kafka ``DynamicBrokerConfig.processReconfiguration``, ``DynamicThreadPool``,
``DynamicListenerConfig``, ``DynamicLogConfig``, ``LogCleaner``,
``ConnectionQuotas.ListenerConnectionQuota``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid, ZkControllerError
from kafka_common.java import parse_int
from kafka_common.model import Endpoint
from replica_manager.configuration.config import BrokerConfig
from replica_manager.configuration.config_keys import BLANKS, ConfigValue, text_of
from replica_manager.configuration.dynamic_keys import LISTENER_KEYS, THREAD_POOLS
from replica_manager.configuration.topic_keys import inherited_value

_POSITIVE: Final = ("max.connections", "max.connection.creation.rate")
_REASON: Final = "org.apache.kafka.common.config.ConfigException: "


class ReconfigurationRefused(ZkControllerError):
    """A running broker cannot apply the configuration.  The message is Kafka's."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"Invalid value {_REASON}{reason} for configuration Invalid dynamic configuration"
        )


def check_reconfiguration(before: BrokerConfig, after: BrokerConfig) -> None:
    """Raises ReconfigurationRefused or ConfigInvalid unless the broker can apply ``after``."""
    # The whole configuration must be valid for the start of a broker, too.
    BrokerConfig.parse(after.effective)
    for name in THREAD_POOLS:
        _check_pool(name, before.integer(name), after.integer(name))
    _check_cleaners(before.integer("log.cleaner.threads"), after.integer("log.cleaner.threads"))
    for unit in ("ms", "bytes"):
        _check_local_retention(f"log.retention.{unit}", f"log.local.retention.{unit}", after)
    _check_listeners(before, after)
    _check_connections(before, after)


def _check_pool(name: str, before: int, wanted: int) -> None:
    failed = f"Dynamic thread count update validation failed for {name}={wanted}, value should"
    if wanted == before:
        return
    if wanted < 1:
        raise ReconfigurationRefused(f"{failed} be at least 1")
    if wanted < before // 2:
        raise ReconfigurationRefused(f"{failed} be at least half the current value {before}")
    if wanted > before * 2:
        raise ReconfigurationRefused(
            f"{failed} not be greater than double the current value {before}"
        )


def _check_cleaners(before: int, wanted: int) -> None:
    """As ``LogCleaner.validateReconfiguration``."""
    if wanted < before // 2:
        raise ReconfigurationRefused(
            f"Log cleaner threads cannot be reduced to less than half the current value {before}"
        )
    if wanted > before * 2:
        raise ReconfigurationRefused(
            "Log cleaner threads cannot be increased to more than double the current value "
            f"{before}"
        )


def _check_local_retention(key: str, local_key: str, after: BrokerConfig) -> None:
    """As ``DynamicLogConfig.validateReconfiguration``; -1 has no limit, -2 is that of ``key``."""
    limit = inherited_value(key.removeprefix("log."), after.values)
    local = after.integer(local_key)
    assert isinstance(limit, int)
    if limit < 0 or local == -2:
        return
    failed = f"Invalid value {local} for configuration {local_key}: Value must not be"
    if local == -1:
        raise ReconfigurationRefused(f"{failed} -1 as {key} value is set as {limit}.")
    if local > limit:
        raise ReconfigurationRefused(f"{failed} more than {key} property value: {limit}")


def _check_listeners(before: BrokerConfig, after: BrokerConfig) -> None:
    old = _by_name(before.listeners.bound)
    old_texts, new_texts = before.effective, after.effective
    for name, endpoint in _by_name(after.listeners.bound).items():
        if name not in old:
            continue
        if _fixed(name, old_texts) != _fixed(name, new_texts):
            raise ReconfigurationRefused(
                f"Configs cannot be updated dynamically for existing listener {name}, restart "
                "broker or create a new listener for update"
            )
        if (endpoint.host, endpoint.port) != (old[name].host, old[name].port):
            # Deviation: Kafka accepts it, listens on the old address and advertises the new one.
            raise ReconfigurationRefused(
                f"The address of existing listener {name} cannot be updated: restart broker or "
                "create a new listener for update"
            )
        if endpoint.security_protocol != old[name].security_protocol:
            raise ReconfigurationRefused(
                f"Security protocol cannot be updated for existing listener {name}"
            )


def _fixed(listener_name: str, texts: Mapping[str, str]) -> dict[str, str]:
    """The values with the listener's prefix that cannot change while the listener exists."""
    prefix = f"listener.name.{listener_name.lower()}."
    return {
        name: text
        for name, text in texts.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in LISTENER_KEYS
    }


def _check_connections(before: BrokerConfig, after: BrokerConfig) -> None:
    old_texts, texts = before.effective, after.effective
    for name in _by_name(after.listeners.bound):
        for key in _POSITIVE:
            own = f"listener.name.{name.lower()}.{key}"
            value: ConfigValue = texts.get(own, after.values[key])
            if text_of(value) == "0" and value != old_texts.get(own, before.values[key]):
                raise ReconfigurationRefused(f"Invalid {key} 0")
        threads = f"listener.name.{name.lower()}.num.network.threads"
        if threads in texts and texts[threads] != old_texts.get(threads):
            wanted = _whole(threads, texts[threads])
            known = old_texts.get(threads, text_of(before.values["num.network.threads"]) or "")
            _check_pool("num.network.threads", _whole(threads, known), wanted)


def _whole(key: str, text: str) -> int:
    number = parse_int(text.strip(BLANKS))
    if number is None:
        raise ConfigInvalid(key, text, "a whole number")
    return number


def _by_name(endpoints: tuple[Endpoint, ...]) -> dict[str, Endpoint]:
    return {endpoint.listener_name: endpoint for endpoint in endpoints}
