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
from replica_manager.security.client_values import ClientValues
from replica_manager.security.logins import check_mechanism, credentials_of
from replica_manager.security.oauth_settings import HANDLERS
from replica_manager.security.settings import UNSUPPORTED
from replica_manager.security.tls import client_context

_DEFAULT_MECHANISM: Final = "GSSAPI"


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
        if properties.get(key) and properties[key] not in HANDLERS.get(key, ()):
            raise ConfigInvalid(key, properties[key], allowed)
    has_tls = protocol.upper() in ("SSL", "SASL_SSL")
    credentials = None
    if protocol.upper().startswith("SASL"):
        mechanism = properties.get("sasl.mechanism", _DEFAULT_MECHANISM).strip()
        check_mechanism("sasl.mechanism", mechanism)
        credentials = credentials_of(
            "sasl.jaas.config",
            mechanism,
            properties.get("sasl.jaas.config"),
            ClientValues(properties),
        )
    tls = client_context(ClientValues(properties)) if has_tls else None
    return ClientSecurity(tls, credentials)
