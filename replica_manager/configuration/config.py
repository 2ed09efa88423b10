"""The broker's configuration: Kafka's ``server.properties``, read with Kafka's own keys and rules.

``load_config`` reads the file, ``BrokerConfig.parse`` a mapping.  An invalid value raises
ConfigInvalid with the key and the allowed values.  An unknown key gives one warning.  A key of a
missing feature is refused if the operator relies on the feature, and gives a warning if it only has
no effect.  Warnings are collected, not logged: the configuration also decides where the log goes.

Source: Kafka ``KafkaConfig``, ``AbstractKafkaConfig``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

import contextlib
import difflib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from msgspec import Struct, field, structs

from kafka_common.errors import REQUIREMENT, ConfigException, ConfigInvalid
from kafka_common.protocol.inter_broker_versions import CONFIG_KEY, InterBrokerVersion, version_of
from replica_manager.configuration.broker_keys import BROKER_EFFECTS, BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigKey, ConfigValue, split_list, text_of
from replica_manager.configuration.dynamic_keys import (
    CHANGEABLE,
    DYNAMIC_IN_KAFKA,
    QUOTA_KEYS,
    SAME_SETTING,
    base_name,
    is_per_broker,
    is_security_key,
)
from replica_manager.configuration.key_effects import KeyEffect, KeyEffectKind, texts_of
from replica_manager.configuration.listeners import Listeners, resolve_listeners
from replica_manager.configuration.properties import parse_properties
from replica_manager.configuration.topic_keys import check_message_format, inherited_value
from replica_manager.regular_files import read_configured
from zkcontroller.zookeeper.connect_string import parse_connect

_REFUSED: Final = texts_of(BROKER_EFFECTS, KeyEffectKind.REFUSED)
"""Keys that must have their default, because users would rely on the missing feature."""
LEADER_SELECTOR: Final = "org.apache.kafka.common.replica.LeaderSelector"
RACK_AWARE_SELECTOR: Final = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
_LISTENER_PREFIX: Final = re.compile(
    r"listener\.name\.[^.]+\.(?:[a-z0-9-]+\.(?=sasl\.|connections\.))?"
)
_OF_THE_AUTHORIZER: Final = frozenset(("super.users", "allow.everyone.if.no.acl.found"))
_CLOSEST_MATCH: Final = 0.85
_LEAST_DEDUPE_BYTES: Final = 1024 * 1024
MOST_SUGGESTIONS: Final = 20
"""The most unknown keys for which a similar key is suggested, which is slow to find."""
MAX_FILE_BYTES: Final = 16 * 1024 * 1024
"""The most bytes of a properties file, which may contain certificates."""


class BrokerConfig(Struct, frozen=True):
    """A valid configuration of a broker, with the typed values of all known keys."""

    originals: Mapping[str, str]
    """The properties of the file and the overrides, as text."""
    values: Mapping[str, ConfigValue]
    """The typed values of all known keys, with defaults."""
    listeners: Listeners
    log_dirs: tuple[Path, ...]
    inter_broker_version: InterBrokerVersion
    warnings: tuple[str, ...] = ()
    dynamic_default: Mapping[str, str] = field(default_factory=dict)
    """The values of ``/config/brokers/<default>``, without keys that are not dynamic here."""
    dynamic_own: Mapping[str, str] = field(default_factory=dict)
    """The values of ``/config/brokers/<id>``, which take precedence over ``dynamic_default``."""

    @staticmethod
    def parse(properties: Mapping[str, str]) -> BrokerConfig:
        """The configuration of the properties; ConfigInvalid if a value is not valid."""
        known = {key: text for key, text in properties.items() if key in BROKER_KEYS}
        values: dict[str, ConfigValue] = {
            key: definition.parse(known[key]) if key in known else definition.default
            for key, definition in BROKER_KEYS.items()
        }
        _unify_broker_id(values, known)
        _refuse_unsupported(values, properties)
        _check_values(
            values, "node.id" if "node.id" in known and "broker.id" not in known else "broker.id"
        )
        return BrokerConfig(
            originals=dict(properties),
            values=values,
            listeners=_listeners_of(values, known),
            log_dirs=log_dirs_of(values),
            inter_broker_version=version_of(str(values["inter.broker.protocol.version"])),
            warnings=tuple(_warnings(properties)),
        )

    @property
    def values_text(self) -> str:
        """All values, sorted, a line each, as a broker logs them; passwords are hidden.

        Source: Kafka ``AbstractConfig.logAll``.
        """
        lines = (f"\t{key} = {_java_text(key, self.values[key])}\n" for key in sorted(self.values))
        return f"KafkaConfig values: \n{''.join(lines)}"

    @property
    def effective(self) -> dict[str, str]:
        """All set values as text: this broker's dynamic ones, then dynamic defaults, then the file.

        A dynamic key also replaces all keys of the file for the same setting (SAME_SETTING).
        """
        texts = dict(self.originals)
        for layer in (self.dynamic_default, self.dynamic_own):
            for key, text in layer.items():
                for same in SAME_SETTING.get(key, ()):
                    texts.pop(same, None)
                texts[key] = text
        return texts

    def with_dynamic(self, *, default: Mapping[str, str], own: Mapping[str, str]) -> BrokerConfig:
        """This configuration with dynamic values: the defaults of all brokers, and this broker's.

        Passwords in them are decoded.  Keys that cannot change while a broker runs are left out;
        unknown keys are kept, for DescribeConfigs.  Raises ConfigInvalid for an invalid value.
        """
        default = {key: text for key, text in default.items() if _is_dynamic(key)}
        own = {key: text for key, text in own.items() if _is_dynamic(key)}
        file_values = {
            key: BROKER_KEYS[key].parse(self.originals[key])
            if key in self.originals
            else BROKER_KEYS[key].default
            for key in _DYNAMIC_SETTINGS
        }
        changes = {
            key: BROKER_KEYS[key].parse(text)
            for key, text in {**default, **own}.items()
            if key in BROKER_KEYS
        }
        replaced = {
            same: BROKER_KEYS[same].default for key in changes for same in SAME_SETTING.get(key, ())
        }
        values = {**self.values, **file_values, **replaced, **changes}
        known = {**self.originals, **default, **own}
        return structs.replace(
            self,
            values=values,
            # A quorum node has other listeners with other rules.
            listeners=self.listeners if values["process.roles"] else _listeners_of(values, known),
            dynamic_default=default,
            dynamic_own=own,
        )

    def integer(self, key: str) -> int:
        """The value of a short, int or long key, which must not be null."""
        value = self.values[key]
        assert isinstance(value, int), key
        return value

    def is_enabled(self, key: str) -> bool:
        """The value of a boolean key."""
        value = self.values[key]
        assert isinstance(value, bool), key
        return value

    def quota(self, key: str) -> int:
        """The value of one of QUOTA_KEYS in bytes per second, the largest long if not set.

        An invalid value, which can only be written to ZooKeeper by hand, counts as not set.
        """
        quota_key = QUOTA_KEYS[key]
        value = quota_key.default
        text = self.dynamic_own.get(key, self.dynamic_default.get(key))
        if text is not None:
            with contextlib.suppress(ConfigInvalid):
                value = quota_key.parse(text)
        assert isinstance(value, int), key
        return value

    def text(self, key: str) -> str | None:
        """The value of a string key; None if it is null."""
        value = self.values[key]
        assert value is None or isinstance(value, str), key
        return value

    @property
    def broker_id(self) -> int:
        """The configured broker id; -1 if one is to be generated."""
        return self.integer("broker.id")

    @property
    def zookeeper_connect(self) -> str:
        connect = self.text("zookeeper.connect")
        assert connect is not None, "checked by parse"
        return connect

    @property
    def zookeeper_connection_timeout_ms(self) -> int:
        """``zookeeper.connection.timeout.ms``, or the session timeout if that is not set."""
        own = self.values["zookeeper.connection.timeout.ms"]
        return own if isinstance(own, int) else self.integer("zookeeper.session.timeout.ms")


def load_config(path: Path, overrides: Mapping[str, str] | None = None) -> BrokerConfig:
    """The configuration of the file, with ``overrides`` of the option ``--override``."""
    return BrokerConfig.parse({**read_properties_file(path), **(overrides or {})})


def read_properties_file(path: Path) -> dict[str, str]:
    """The properties of a ``server.properties``; ConfigInvalid if it cannot be read."""
    return read_properties(path, "server.properties")


def read_properties(path: Path, key: str) -> dict[str, str]:
    """The properties of a file; ConfigInvalid, which names ``key``, if it cannot be read."""
    return parse_properties(read_text(path, key))


def read_text(path: Path, key: str) -> str:
    """The text of a file; ConfigInvalid, which names ``key``, if it cannot be read."""
    try:
        return read_configured(path, MAX_FILE_BYTES).decode("utf-8")
    except OSError as failure:
        raise ConfigInvalid(key, str(path), f"a readable file ({failure.strerror})") from None
    except UnicodeDecodeError:
        raise ConfigInvalid(key, str(path), "a file of text in UTF-8") from None


def parse_overrides(arguments: list[str]) -> dict[str, str]:
    """``["broker.id=2"]`` as a mapping; ConfigInvalid for an argument without ``=``."""
    overrides: dict[str, str] = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals or not key.strip():
            raise ConfigInvalid("--override", argument, "key=value")
        overrides[key.strip()] = value
    return overrides


_DYNAMIC_SETTINGS: Final = CHANGEABLE.union(
    *(SAME_SETTING[key] for key in CHANGEABLE if key in SAME_SETTING)
)


def _java_text(key: str, value: ConfigValue) -> str:
    """The value as Java prints it, not as responses have it: ``null``, ``[a, b]``, ``class X``."""
    if value is None:
        return "null"
    match BROKER_KEYS[key].type_name, value:
        case "password", _:
            return "[hidden]"
        case "class", _:
            return f"class {value}"
        case _, tuple():
            return f"[{', '.join(value)}]"
        case _:
            return text_of(value) or ""


def _is_dynamic(key: str) -> bool:
    return key in CHANGEABLE or key not in BROKER_KEYS


DYNAMIC_BROKER_KEYS: Final[Mapping[str, ConfigKey]] = {
    **{name: key for name, key in BROKER_KEYS.items() if name in DYNAMIC_IN_KAFKA},
    **QUOTA_KEYS,
}
"""The broker keys that can be set while the broker runs."""


def usable_dynamic(stored: Mapping[str, str], *, per_broker: bool) -> dict[str, str]:
    """The valid part of a stored configuration: allowed keys with valid values.

    Passwords are still encoded, so their values are not checked.
    """
    return {
        name: text
        for name, text in stored.items()
        if not is_static(name)
        and not is_security_key(name)
        and (per_broker or not is_per_broker(name))
        and (is_password(name) or _parses(name, text))
    }


def is_static(name: str) -> bool:
    """Whether it is a broker key that cannot be set while the broker runs."""
    return name in BROKER_KEYS and name not in DYNAMIC_IN_KAFKA


def is_password(name: str) -> bool:
    """Whether the dynamic key is a password, which is stored encoded."""
    return name.endswith(_DYNAMIC_PASSWORDS)


_DYNAMIC_PASSWORDS: Final = tuple(
    sorted(name for name in DYNAMIC_IN_KAFKA if BROKER_KEYS[name].type_name == "password")
)


def _parses(name: str, text: str) -> bool:
    key = DYNAMIC_BROKER_KEYS.get(base_name(name) or name)
    if key is not None:
        try:
            key.parse(text)
        except ConfigInvalid:
            return False
    return True


def _unify_broker_id(values: dict[str, ConfigValue], known: Mapping[str, str]) -> None:
    """Sets ``node.id`` and ``broker.id`` to the same value; ConfigInvalid if both differ."""
    if "node.id" in known and "broker.id" not in known:
        values["broker.id"] = values["node.id"]
    elif "node.id" in known and values["node.id"] != values["broker.id"]:
        raise ConfigInvalid("node.id", known["node.id"], "the same value as broker.id")
    values["node.id"] = values["broker.id"]


def _refuse_unsupported(values: Mapping[str, ConfigValue], properties: Mapping[str, str]) -> None:
    given = [(key, key, values[key]) for key in _REFUSED]
    for name, text in properties.items():
        prefix = _LISTENER_PREFIX.match(name)
        key = name[prefix.end() :] if prefix else ""
        if key in _REFUSED:
            given.append((name, key, BROKER_KEYS[key].parse(text, name)))
    for name, key, value in given:
        if value not in (None, False, "", (), BROKER_KEYS[key].default):
            raise ConfigInvalid(name, text_of(value), _REFUSED[key])


def _check_values(values: Mapping[str, ConfigValue], id_key: str) -> None:
    """Checks the rules for more than one key, in Kafka's order.

    ``id_key``: the key that sets the broker id, ``broker.id`` or ``node.id``.
    """

    def number(key: str) -> int:
        value = values[key]
        assert isinstance(value, int), key
        return value

    def require(is_met: bool, key: str, requirement: str) -> None:
        if not is_met:
            raise ConfigException(key, values[key], requirement, REQUIREMENT)

    def milliseconds(topic_key: str) -> int:
        """A setting that has keys in several units, in milliseconds."""
        value = inherited_value(topic_key, values)
        assert isinstance(value, int), topic_key
        return value

    def supported(is_met: bool, key: str, allowed: str) -> None:
        if not is_met:
            raise ConfigInvalid(key, values[key], allowed)

    supported(bool(values["zookeeper.connect"]), "zookeeper.connect", "host:port,host:port/chroot")
    parse_connect(str(values["zookeeper.connect"]))
    if values["broker.id.generation.enable"]:
        highest = number("reserved.broker.max.id")
        require(
            -1 <= number("broker.id") <= highest,
            id_key,
            "broker.id must be greater than or equal to -1 and not greater than "
            "reserved.broker.max.id",
        )
    else:
        require(number("broker.id") >= 0, id_key, "broker.id must be greater than or equal to 0")
    require(
        milliseconds("segment.ms") >= 1,
        "log.roll.ms",
        "log.roll.ms must be greater than or equal to 1",
    )
    require(
        milliseconds("segment.jitter.ms") >= 0,
        "log.roll.jitter.ms",
        "log.roll.jitter.ms must be greater than or equal to 0",
    )
    require(
        milliseconds("retention.ms") != 0,
        "log.retention.ms",
        "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
    )
    # Kafka divides by the number of threads, whatever it is.
    threads = number("log.cleaner.threads")
    require(
        threads > 0 and number("log.cleaner.dedupe.buffer.size") // threads > _LEAST_DEDUPE_BYTES,
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
    )
    wait_ms = number("replica.fetch.wait.max.ms")
    require(
        wait_ms <= number("replica.socket.timeout.ms"),
        "replica.socket.timeout.ms",
        "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent "
        "unnecessary socket timeouts",
    )
    require(
        wait_ms <= number("replica.lag.time.max.ms"),
        "replica.lag.time.max.ms",
        "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms "
        "to prevent frequent changes in ISR",
    )
    queued_bytes = number("queued.max.request.bytes")
    require(
        queued_bytes <= 0 or queued_bytes >= number("socket.request.max.bytes"),
        "queued.max.request.bytes",
        "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
    )
    require(
        number("max.connections.per.ip") > 0 or bool(values["max.connections.per.ip.overrides"]),
        "max.connections.per.ip",
        "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides "
        "property is set.",
    )
    idle_ms = number("connections.max.idle.ms")
    delay_ms = number("connection.failed.authentication.delay.ms")
    require(
        idle_ms < 0 or delay_ms < idle_ms,
        "connections.max.idle.ms",
        f"connection.failed.authentication.delay.ms={delay_ms} should always be less than "
        f"connections.max.idle.ms={idle_ms} to prevent failed authentication responses from "
        "timing out",
    )
    parse_connection_overrides(str(values["max.connections.per.ip.overrides"]))
    message_format = "log.message.format.version"
    check_message_format(message_format, values[message_format], values)
    supported(
        version_of(str(values[CONFIG_KEY])).is_at_least("0.11.0-IV0"),
        CONFIG_KEY,
        "0.11.0 or newer: older record formats are not written",
    )
    supported(
        values["replica.selector.class"] in (None, "", RACK_AWARE_SELECTOR, LEADER_SELECTOR),
        "replica.selector.class",
        f"no value, {LEADER_SELECTOR} or {RACK_AWARE_SELECTOR}: Java selectors cannot be loaded",
    )


def parse_connection_overrides(text: str) -> dict[str, int]:
    """``host:count,…`` of ``max.connections.per.ip.overrides`` as a mapping."""
    overrides: dict[str, int] = {}
    for pair in filter(None, split_list(text)):
        host, _, count = pair.rpartition(":")
        if not host or not re.fullmatch(r"[0-9]{1,9}", count.strip()):
            raise ConfigInvalid("max.connections.per.ip.overrides", text, "host:count,host:count")
        overrides[host.strip()] = int(count)
    return overrides


def _listeners_of(values: Mapping[str, ConfigValue], known: Mapping[str, str]) -> Listeners:
    def text(key: str) -> str | None:
        value = values[key]
        return None if value is None else str(value)

    has_security_protocol = "security.inter.broker.protocol" in known
    return resolve_listeners(
        listeners=str(values["listeners"]),
        advertised_listeners=text("advertised.listeners"),
        protocol_map=str(values["listener.security.protocol.map"]),
        inter_broker_listener_name=text("inter.broker.listener.name"),
        security_inter_broker_protocol=(
            text("security.inter.broker.protocol") if has_security_protocol else None
        ),
        control_plane_listener_name=text("control.plane.listener.name"),
    )


def log_dirs_of(values: Mapping[str, ConfigValue]) -> tuple[Path, ...]:
    """The paths of ``log.dirs``, or of ``log.dir`` if that is not set.

    Raises ConfigInvalid for no directory, or one twice.
    """
    key = "log.dir" if values["log.dirs"] is None else "log.dirs"
    text = str(values[key])
    paths = tuple(Path(entry) for entry in split_list(text) if entry)
    if not paths:
        raise ConfigInvalid(key, text, "at least one directory")
    if "\0" in text:
        raise ConfigInvalid(key, text, "paths without the character NUL")
    if len(set(paths)) < len(paths):
        raise ConfigInvalid(key, text, "each directory once")
    return paths


def _warnings(properties: Mapping[str, str]) -> list[str]:
    warnings: list[str] = []
    ineffective: list[str] = []
    for key in properties:
        prefix = _LISTENER_PREFIX.match(key)
        plain_key = key[prefix.end() :] if prefix else key
        if plain_key in _OF_THE_AUTHORIZER and "authorizer.class.name" in properties:
            continue
        if plain_key not in BROKER_KEYS:
            warnings.append(_unknown(key, with_hint=len(warnings) < MOST_SUGGESTIONS))
        elif BROKER_EFFECTS[plain_key].kind is KeyEffectKind.WARNED:
            ineffective.append(key)
    if ineffective:
        warnings.append(no_effect_warning(ineffective))
    return warnings


def without_effect(names: Iterable[str], effects: Mapping[str, KeyEffect]) -> list[str]:
    """The names of dynamic keys that are accepted but have no effect."""
    return [
        name
        for name in names
        if (effect := effects.get(base_name(name) or name)) and effect.kind is KeyEffectKind.WARNED
    ]


def no_effect_warning(names: Iterable[str]) -> str:
    """The warning about keys without effect."""
    return f"These configurations are valid but have no effect in this version: {', '.join(names)}"


def _unknown(key: str, *, with_hint: bool) -> str:
    closest: list[str] = []
    if with_hint:
        closest = difflib.get_close_matches(key, BROKER_KEYS, n=1, cutoff=_CLOSEST_MATCH)
    hint = f" (did you mean {closest[0]}?)" if closest else ""
    return f"The configuration '{key}' was supplied but isn't a known config{hint}."
