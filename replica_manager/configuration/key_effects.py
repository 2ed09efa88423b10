"""The effect of each configuration key in this broker.

A row of :mod:`.broker_keys` or :mod:`.topic_keys` is a key for :mod:`.config_keys`, a bar, and one
of these effects, which ``test_key_effects.py`` compares with the code::

    effective MODULE                  that module reads the key
    refused WHAT IS ALLOWED           other values are refused, because users would rely on the
                                      missing feature
    refused_when_secured ...          the same, if a listener has TLS or SASL
    warned WHY                        accepted without effect; a warning is logged

Every key that can be changed while a broker runs takes effect at run time, or gives a warning.

Source: Kafka 3.9.1 ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from replica_manager.configuration.config_keys import ConfigKey, read_table


class KeyEffectKind(Enum):
    """What happens if a key is set."""

    EFFECTIVE = "effective"
    REFUSED = "refused"
    REFUSED_WHEN_SECURED = "refused_when_secured"
    WARNED = "warned"


class KeyEffect(NamedTuple):
    """The effect of one key."""

    kind: KeyEffectKind
    text: str
    """The module that reads the key, the allowed value, or why the key has no effect."""


def read_rows(table: str) -> tuple[dict[str, ConfigKey], dict[str, KeyEffect]]:
    """The keys in the rows of a table, and their effects, both by name."""
    rows = [line.split(" | ", 1) for line in table.strip().splitlines()]
    keys = read_table("\n".join(key for key, _ in rows))
    effects = {}
    for name, (_, effect) in zip(keys, rows, strict=True):
        kind, text = effect.split(" ", 1)
        effects[name] = KeyEffect(KeyEffectKind(kind), text)
    return keys, effects


def texts_of(effects: Mapping[str, KeyEffect], kind: KeyEffectKind) -> dict[str, str]:
    """The keys with one kind of effect, each with the text of its effect."""
    return {key: effect.text for key, effect in effects.items() if effect.kind is kind}
