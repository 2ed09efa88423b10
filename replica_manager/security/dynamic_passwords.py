"""Encodes and decodes passwords in a broker's dynamic configuration.

Source: Kafka ``DynamicBrokerConfig`` (``toPersistentProps``, ``fromPersistentProps``,
``maybeReEncodePasswords``).
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from kafka_common.errors import ZkControllerError
from replica_manager.configuration.config import is_password
from replica_manager.configuration.config_keys import ConfigValue

if TYPE_CHECKING:
    from replica_manager.security.password_encoder import PasswordEncoder

SECRET: Final = "password.encoder.secret"
OLD_SECRET: Final = "password.encoder.old.secret"
_log = logging.getLogger("kafka.server.DynamicBrokerConfig")


class NoPasswordSecret(ZkControllerError):
    """A password cannot be stored or read: ``password.encoder.secret`` is not set."""

    def __init__(self) -> None:
        super().__init__("Password encoder secret not configured")


class DynamicPasswords:
    """Encodes and decodes by ``password.encoder.*``; each takes milliseconds to derive a key."""

    def __init__(self, values: Mapping[str, ConfigValue]) -> None:
        """Raises ConfigInvalid if the keys ``password.encoder.*`` are not valid."""
        self._encoder = _encoder(values, SECRET)
        self._old_encoder = _encoder(values, OLD_SECRET)

    def decoded(self, stored: Mapping[str, str]) -> dict[str, str]:
        """The configuration with decoded passwords; unreadable ones are logged and left out."""
        decoded = {}
        for name, text in stored.items():
            try:
                decoded[name] = self._decode(text) if is_password(name) else text
            except ZkControllerError as failure:
                _log.error(
                    "Dynamic password config %s could not be decoded, ignoring. (%s)", name, failure
                )
        return decoded

    def encoded(self, config: Mapping[str, str]) -> dict[str, str]:
        """The configuration with encoded passwords; NoPasswordSecret if there is no secret."""
        return {
            name: self._encode(text) if is_password(name) else text for name, text in config.items()
        }

    def re_encoded(self, stored: Mapping[str, str]) -> dict[str, str] | None:
        """The configuration with passwords of the old secret encoded with the new secret.

        None if there is no old secret, or no password of it.
        """
        if self._old_encoder is None:
            return None
        changed = {}
        for name, text in stored.items():
            if is_password(name):
                try:
                    changed[name] = self._encode(self._old_encoder.decode(text))
                except ZkControllerError:
                    _log.debug("Dynamic password config %s is not of the old secret", name)
        return {**stored, **changed} if changed else None

    def _decode(self, text: str) -> str:
        if self._encoder is None:
            raise NoPasswordSecret
        return self._encoder.decode(text)

    def _encode(self, text: str) -> str:
        if self._encoder is None:
            raise NoPasswordSecret
        return self._encoder.encode(text)


def _encoder(values: Mapping[str, ConfigValue], key: str) -> PasswordEncoder | None:
    if not values[key]:
        return None
    # The import loads ten megabytes of cryptography, which only a broker with a secret needs.
    from replica_manager.security.password_encoder import password_encoder

    return password_encoder(values, key)
