"""The properties of a client of Kafka, typed as a broker's keys of the same names."""

from __future__ import annotations

from collections.abc import Mapping

from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigValue, text_of


class ClientValues:
    """Values by key: those of the properties, or else the defaults."""

    def __init__(self, originals: Mapping[str, str]) -> None:
        self._originals = originals

    @property
    def prefix(self) -> str:
        """An empty text: a client's keys have no prefix."""
        return ""

    def value(self, key: str) -> ConfigValue:
        """The typed value of a key; ConfigInvalid if it is invalid."""
        text = self._originals.get(key)
        return BROKER_KEYS[key].default if text is None else BROKER_KEYS[key].parse(text)

    def text(self, key: str) -> str | None:
        """The value of a key or its default; None if there is neither."""
        return text_of(self.value(key))

    def names(self, key: str) -> tuple[str, ...]:
        """The value of a key whose type is a list."""
        value = self.value(key)
        return value if isinstance(value, tuple) else ()

    def name_of(self, key: str) -> str:
        """The name of the key in an error text."""
        return key
