"""TLS to ZooKeeper by Kafka's keys ``zookeeper.ssl.*`` and ``zookeeper.clientCnxnSocket``.

The keys are in ``server.properties``, or in a tool's file ``--zk-tls-config-file``.  Key stores are
PEM or PKCS12; without a configured type, the extension of the file decides.

Source: Kafka ``ZkConfigs``, ``KafkaConfig.zkClientConfigViaSystemProperties`` (KIP-515);
ZooKeeper ``X509Util``.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from kafka_common.errors import ConfigInvalid
from replica_manager.configuration.broker_keys import BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigValue, text_of
from replica_manager.security.tls import client_context

NETTY_SOCKET: Final = "org.apache.zookeeper.ClientCnxnSocketNetty"
_PREFIX: Final = "zookeeper."
_ENABLE: Final = f"{_PREFIX}ssl.client.enable"
_SOCKET: Final = f"{_PREFIX}clientCnxnSocket"
_KEYS: Final = (_SOCKET, *(key for key in BROKER_KEYS if key.startswith(f"{_PREFIX}ssl.")))
_REFUSED: Final = {
    f"{_PREFIX}ssl.cipher.suites": "no value: OpenSSL's own choice of suites is used",
    f"{_PREFIX}ssl.crl.enable": "false: revoked certificates are not looked up",
    f"{_PREFIX}ssl.ocsp.enable": "false: revoked certificates are not looked up",
}
_PEM: Final = "PEM"


def zookeeper_tls(values: Mapping[str, ConfigValue]) -> ssl.SSLContext | None:
    """A TLS context for ZooKeeper; None without TLS.  ConfigInvalid if invalid.  Reads files."""
    if values[_ENABLE] is not True:
        return None
    socket = text_of(values[_SOCKET])
    if socket != NETTY_SOCKET:
        raise ConfigInvalid(_SOCKET, socket, f"{NETTY_SOCKET}, where {_ENABLE} is true")
    for key, allowed in _REFUSED.items():
        if values[key]:
            raise ConfigInvalid(key, text_of(values[key]), allowed)
    return client_context(_Keys(values))


def shows_certificate(values: Mapping[str, ConfigValue]) -> bool:
    """Whether the broker authenticates to ZooKeeper with a certificate.

    Source: Kafka ``KafkaConfig.zkTlsClientAuthEnabled``.
    """
    location = values[f"{_PREFIX}ssl.keystore.location"]
    return values[_ENABLE] is True and bool(values[_SOCKET]) and bool(location)


def tls_of_file(properties: Mapping[str, str], option: str) -> ssl.SSLContext:
    """A TLS context by a tool's configuration file; ConfigInvalid if TLS is not enabled in it.

    Ignores all other keys.  ``option`` is the tool's option, for error messages.
    """
    values = {
        key: BROKER_KEYS[key].parse(properties[key])
        if key in properties
        else BROKER_KEYS[key].default
        for key in _KEYS
    }
    context = zookeeper_tls(values)
    if context is None:
        raise ConfigInvalid(_ENABLE, properties.get(_ENABLE), f"true, in the file of {option}")
    return context


class _Keys:
    """Maps Kafka's ``ssl.*`` keys to the keys ``zookeeper.ssl.*``."""

    def __init__(self, values: Mapping[str, ConfigValue]) -> None:
        self._values = values

    @property
    def prefix(self) -> str:
        """The prefix of the keys."""
        return _PREFIX

    def text(self, key: str) -> str | None:
        """The value for Kafka's key ``key``; None if there is none."""
        match key:
            case "ssl.keystore.type" | "ssl.truststore.type":
                return self._type_of(key.removesuffix(".type"))
            case "ssl.keystore.password" | "ssl.truststore.password":
                is_pem = self._type_of(key.removesuffix(".password")) == _PEM
                return None if is_pem else self._own(key)
            case "ssl.key.password":
                # ZooKeeper has one password for a private key and its key store.
                is_pem = self._type_of("ssl.keystore") == _PEM
                return self._own("ssl.keystore.password") if is_pem else None
            case _:
                return self._own(key)

    def names(self, key: str) -> tuple[str, ...]:
        """The enabled protocols; if none are set, ``zookeeper.ssl.protocol``."""
        value = self._values[_PREFIX + key]
        if isinstance(value, tuple) and value:
            return value
        protocol = self._own("ssl.protocol")
        return () if protocol is None else (protocol,)

    def _own(self, key: str) -> str | None:
        return text_of(self._values.get(_PREFIX + key))

    def _type_of(self, store: str) -> str:
        said = self._own(f"{store}.type")
        if said:
            return said.upper()
        location = self._own(f"{store}.location") or ""
        return _PEM if location.lower().endswith(".pem") else "PKCS12"
