"""What a configuration key does here, and the rows that say so beside what the key is.

A row of :mod:`.broker_keys` or :mod:`.topic_keys` is a key as :mod:`.config_keys` reads it, a bar,
and one of these, to which ``test_key_effects.py`` holds the code::

    effective MODULE                  that module reads it
    refused WHAT IS ALLOWED           only that value is taken: it would leave out what a user
                                      relies on
    refused_when_secured ...          the same, as soon as a listener has TLS or SASL
    warned WHY                        taken, without effect; the log says so

Every key that can be changed while a broker runs is warned about, or takes effect at run time.

Source: Kafka 3.9.1 ``KafkaConfig``, ``LogConfig``, ``DynamicBrokerConfig``.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from replica_manager.configuration.config_keys import ConfigKey, read_table


class KeyEffectKind(Enum):
    """What happens to a value that is set."""

    EFFECTIVE = "effective"
    REFUSED = "refused"
    REFUSED_WHEN_SECURED = "refused_when_secured"
    WARNED = "warned"


class KeyEffect(NamedTuple):
    """What one key does."""

    kind: KeyEffectKind
    text: str
    """The module that reads it, what is allowed, or why it has no effect."""


def read_rows(table: str) -> tuple[dict[str, ConfigKey], dict[str, KeyEffect]]:
    """The keys of a table, and what they do, both by name."""
    rows = [line.split(" | ", 1) for line in table.strip().splitlines()]
    keys = read_table("\n".join(key for key, _ in rows))
    effects = {}
    for name, (_, effect) in zip(keys, rows, strict=True):
        kind, text = effect.split(" ", 1)
        effects[name] = KeyEffect(KeyEffectKind(kind), text)
    return keys, effects


def texts_of(effects: Mapping[str, KeyEffect], kind: KeyEffectKind) -> dict[str, str]:
    """The keys of one kind, each with its text."""
    return {key: effect.text for key, effect in effects.items() if effect.kind is kind}
