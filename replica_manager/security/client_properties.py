"""The security properties of Kafka's clients and tools, from the file of ``--command-config``.

Reads ``security.protocol``, ``ssl.*``, ``sasl.mechanism`` and ``sasl.jaas.config``; ignores all
other properties of such a file (``request.timeout.ms``, …).

Source: Kafka ``CommonClientConfigs``, ``SslConfigs``, ``SaslConfigs``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid
from kafka_common.model import SECURITY_PROTOCOLS
from kafka_common.net.client_security import PLAINTEXT, ClientSecurity
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigValue, text_of
from replica_manager.security.logins import check_mechanism, credentials_of
from replica_manager.security.settings import UNSUPPORTED
from replica_manager.security.tls import client_context

_DEFAULT_MECHANISM: Final = "GSSAPI"


class Properties:
    """The ``ssl.*`` properties of a client: a broker's keys without a listener prefix."""

    def __init__(self, originals: Mapping[str, str]) -> None:
        self._originals = originals

    @property
    def prefix(self) -> str:
        """An empty text: a client's keys have no prefix."""
        return ""

    def text(self, key: str) -> str | None:
        """The value of a key or its default; None if there is neither."""
        return text_of(self._value(key))

    def names(self, key: str) -> tuple[str, ...]:
        """The value of a key whose type is a list."""
        value = self._value(key)
        return value if isinstance(value, tuple) else ()

    def _value(self, key: str) -> ConfigValue:
        text = self._originals.get(key)
        return BROKER_KEYS[key].default if text is None else BROKER_KEYS[key].parse(text)


def client_security_of(properties: Mapping[str, str]) -> ClientSecurity:
    """The connection security in the properties; ConfigInvalid if invalid.  Reads key stores.

    It is PLAINTEXT without ``security.protocol``.
    """
    protocol = properties.get("security.protocol", "PLAINTEXT").strip()
    if protocol.upper() not in SECURITY_PROTOCOLS:
        allowed = "out of " + ", ".join(SECURITY_PROTOCOLS)
        raise ConfigInvalid("security.protocol", protocol, allowed)
    if protocol.upper() == "PLAINTEXT":
        return PLAINTEXT
    for key, allowed in UNSUPPORTED.items():
        if properties.get(key):
            raise ConfigInvalid(key, properties[key], allowed)
    has_tls = protocol.upper() in ("SSL", "SASL_SSL")
    credentials = None
    if protocol.upper().startswith("SASL"):
        mechanism = properties.get("sasl.mechanism", _DEFAULT_MECHANISM).strip()
        check_mechanism("sasl.mechanism", mechanism)
        credentials = credentials_of(
            "sasl.jaas.config", mechanism, properties.get("sasl.jaas.config")
        )
    return ClientSecurity(client_context(Properties(properties)) if has_tls else None, credentials)
