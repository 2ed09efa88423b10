"""Changes the configuration of a broker that does not run, in ZooKeeper.

So a password can be stored encrypted before the broker's first start, and a value with which a
broker cannot start can be removed.

Source: Kafka ``ConfigCommand.alterConfigWithZk``, ``preProcessBrokerConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

from typing_extensions import override

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config import (
    DYNAMIC_BROKER_KEYS,
    is_password,
    is_static,
    read_properties,
)
from replica_manager.configuration.dynamic_keys import (
    base_name,
    is_per_broker,
    is_security_key,
)
from replica_manager.security.dynamic_passwords import SECRET, DynamicPasswords, NoPasswordSecret
from zkcontroller_cli.configurations.changing import ConfigStore
from zkcontroller_cli.configurations.stored_configs import change_stored, stored_settings
from zkcontroller_cli.console.errors import BadUsage, Refused
from zkcontroller_cli.console.options import Settings
from zkcontroller_cli.values.config_entities import ConfigEntity
from zkcontroller_cli.values.config_plan import APPEND, SUBTRACT, UNSET, PlannedKey
from zkcontroller_cli.values.config_values import ConfigSetting
from zkcontroller_cli.wire.requests import BrokerRefusal
from zkcontroller_cli.znodes.partitions import live_broker_ids
from zkcontroller_cli.znodes.session import ZooKeeper, open_zookeeper

_ENCODER_PREFIX: Final = "password.encoder."
_INVALID: Final = "INVALID_CONFIG"


class StoppedBrokerStore(ConfigStore):
    """Configurations of stopped brokers, or of all brokers while none runs."""

    def __init__(self, given: Settings, zookeeper: ZooKeeper, encoder_file: Path | None) -> None:
        """``encoder_file`` holds the broker's ``password.encoder.*``; BadUsage without a secret."""
        self._given = given
        self._zookeeper = zookeeper
        self._passwords = _passwords_of(encoder_file)

    @override
    def read(
        self, entities: Sequence[ConfigEntity]
    ) -> Mapping[ConfigEntity, Mapping[str, ConfigSetting]]:
        return stored_settings(self._zookeeper, entities)

    @override
    def known(self, entity: ConfigEntity) -> Mapping[str, ConfigSetting]:
        keys = {**BROKER_KEYS, **DYNAMIC_BROKER_KEYS}
        return {
            name: ConfigSetting(
                name,
                None,
                "default",
                key.type_name,
                is_read_only=is_static(name),
                is_sensitive=key.type_name == "password",
            )
            for name, key in keys.items()
        }

    @override
    def send(
        self, changes: Mapping[ConfigEntity, Sequence[PlannedKey]], *, is_dry_run: bool
    ) -> Mapping[ConfigEntity, BrokerRefusal | None]:
        refusals: dict[ConfigEntity, BrokerRefusal | None] = {}
        with ExitStack() as stack:
            writing = None
            for entity, those in changes.items():
                must_be_stopped(self._zookeeper, [entity])
                reason = self._why_not(entity, those)
                refusals[entity] = reason if reason is None else BrokerRefusal(_INVALID, reason)
                if is_dry_run or reason is not None:
                    continue
                if writing is None:
                    writing = stack.enter_context(open_zookeeper(self._given, is_for_creating=True))
                new = self._encoded(those)
                change_stored(self._zookeeper, writing, entity, partial(_changed, new))
        return refusals

    def _encoded(self, those: Sequence[PlannedKey]) -> dict[str, str | None]:
        new: dict[str, str | None] = {}
        for each in those:
            if each.operation == UNSET or each.wanted is None:
                new[each.name] = None
            else:
                new |= self._passwords.encoded({each.name: each.wanted})
        return new

    def _why_not(self, entity: ConfigEntity, those: Sequence[PlannedKey]) -> str | None:
        for each in those:
            if each.operation in (APPEND, SUBTRACT):
                return f"{each.name}: only a running broker knows its list: set the whole list"
            if each.operation == UNSET or each.wanted is None:
                continue
            if is_security_key(each.name):
                return f"{each.name} needs the prefix listener.name.<listener>."
            if entity.is_default and is_per_broker(each.name):
                return f"{each.name} can be set for a single broker only"
            key = DYNAMIC_BROKER_KEYS.get(base_name(each.name) or each.name)
            try:
                if key is not None:
                    key.parse(each.wanted, each.name)
                if is_password(each.name):
                    self._passwords.encoded({each.name: ""})
            except ConfigInvalid as invalid:
                return str(invalid)
            except NoPasswordSecret:
                return (
                    f"{each.name} is stored encrypted: name a file with {SECRET} by "
                    "--password-encoder-file"
                )
        return None


def must_be_stopped(zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]) -> None:
    """Refused if one of the brokers runs, or for the default of all brokers if any runs."""
    live = set(map(str, live_broker_ids(zookeeper)))
    for entity in entities:
        running = sorted(live) if entity.is_default else sorted(live & {entity.name})
        if running:
            raise Refused(
                f"broker {', '.join(running)} runs: a running broker must be asked itself, and "
                f"the change of {entity.text} in ZooKeeper is for stopped ones; name brokers with "
                "-b"
            )


def are_stopped(zookeeper: ZooKeeper, entities: Sequence[ConfigEntity]) -> bool:
    """Whether none of those brokers runs, or for the default of all brokers no broker at all."""
    live = set(map(str, live_broker_ids(zookeeper)))
    return all(not live if each.is_default else each.name not in live for each in entities)


def _changed(new: Mapping[str, str | None], now: Mapping[str, str]) -> dict[str, str]:
    after = {name: text for name, text in now.items() if name not in new}
    return after | {name: text for name, text in new.items() if text is not None}


def _passwords_of(file: Path | None) -> DynamicPasswords:
    properties = {} if file is None else read_properties(file, "--password-encoder-file")
    if file is not None and not properties.get(SECRET):
        raise BadUsage(f"{file} does not set {SECRET}")
    return DynamicPasswords(
        {
            name: key.parse(properties[name]) if name in properties else key.default
            for name, key in BROKER_KEYS.items()
            if name.startswith(_ENCODER_PREFIX)
        }
    )
