"""A JAAS file: the logins of a broker that Kafka is given beside its ``server.properties``.

``KAFKA_OPTS=-Djava.security.auth.login.config=/etc/kafka/kafka_server_jaas.conf``

A listener that has no ``sasl.jaas.config`` of a mechanism takes the section
``<listener>.KafkaServer``, or else ``KafkaServer``.  The broker logs in at ZooKeeper by ``Client``.

Source: Kafka ``JaasContext``, ``SaslClientCallbackHandler``, ``JaasUtils``; ZooKeeper
``ZKClientConfig``, ``SaslClientCallbackHandler``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kafka_common.errors import ConfigInvalid
from kafka_common.protocol.scram import ScramMechanism
from replica_manager.configuration.config import BrokerConfig, read_text
from replica_manager.configuration.environment import JAAS_FILE, JVM_OPTIONS
from replica_manager.security.jaas import JaasEntry, parse_jaas_file
from replica_manager.security.logins import module_of
from replica_manager.security.sasl_mechanisms import PLAIN
from replica_manager.security.settings import SecuredListener

_ZOOKEEPER_SECTION: Final = "zookeeper.sasl.clientconfig"
_ZOOKEEPER_LOGIN: Final = "zookeeper.sasl.client"
_SECTION: Final = "KafkaServer"
_DIGEST: Final = "org.apache.zookeeper.server.auth.DigestLoginModule"
_WITH_PASSWORDS: Final = frozenset(
    (_DIGEST, module_of(PLAIN), module_of(ScramMechanism.SCRAM_SHA_256.mechanism_name))
)
"""The modules whose user name and password ZooKeeper's client takes for DIGEST-MD5."""


class JaasFile(NamedTuple):
    """The file that the options of Kafka's JVM name."""

    path: str
    sections: Mapping[str, Sequence[JaasEntry]]
    system_properties: Mapping[str, str]

    def with_logins(self, config: BrokerConfig) -> BrokerConfig:
        """The configuration with the logins of its listeners; ConfigInvalid if there are none."""
        logins = dict(self._logins(config))
        return BrokerConfig.parse({**config.originals, **logins}) if logins else config

    def _logins(self, config: BrokerConfig) -> Iterator[tuple[str, str]]:
        """Keys ``sasl.jaas.config`` that the file stands for, and their values."""
        for endpoint in config.listeners.bound:
            listener = SecuredListener(config, endpoint)
            if not listener.has_sasl:
                continue
            for mechanism in listener.names("sasl.enabled.mechanisms"):
                key, text = listener.jaas_config(mechanism)
                if text is not None:
                    continue
                own = f"{endpoint.listener_name.lower()}.{_SECTION}"
                entries = self.sections.get(own) or self.sections.get(_SECTION)
                if not entries:
                    raise self._invalid(f"a JAAS file with a section {_SECTION} or {own}")
                entry = _of_mechanism(entries, mechanism)
                if entry is not None:
                    yield key, entry.text

    def zookeeper_auth(self) -> tuple[tuple[str, str], ...]:
        """The scheme and credential of the broker's login at ZooKeeper; empty without one."""
        if self.system_properties.get(_ZOOKEEPER_LOGIN, "true").lower() != "true":
            return ()
        section = self.system_properties.get(_ZOOKEEPER_SECTION, "Client")
        entries = self.sections.get(section)
        if not entries:
            return ()
        login = entries[0]
        options = login.options
        if (
            login.module not in _WITH_PASSWORDS
            or not options.get("username")
            or "password" not in options
        ):
            raise self._invalid(f"username and password of {_DIGEST} in its section {section}")
        return (("sasl", f"{options['username']}:{options['password']}"),)

    def _invalid(self, allowed: str) -> ConfigInvalid:
        return ConfigInvalid(JVM_OPTIONS, self.path, allowed)


def read_jaas_file(environment: Mapping[str, str]) -> JaasFile | None:
    """The JAAS file that KAFKA_OPTS names, or None; ConfigInvalid if it is not valid."""
    options = (each for each in environment.get(JVM_OPTIONS, "").split() if each[:2] == "-D")
    properties = {name: value for name, _, value in (each[2:].partition("=") for each in options)}
    # Java takes "==" for "this file alone", and a URL for a path.
    path = properties.get(JAAS_FILE, "").removeprefix("=").removeprefix("file:")
    if not path:
        return None
    text = read_text(Path(path), f"{JAAS_FILE} in {JVM_OPTIONS}")
    return JaasFile(path, parse_jaas_file(path, text), properties)


def _of_mechanism(entries: Sequence[JaasEntry], mechanism: str) -> JaasEntry | None:
    """The mechanism's login module; None if there is none.

    As in Kafka, the first module that has a ``username`` says by which a broker logs in at others,
    whatever its mechanism.
    """
    own = next((each for each in entries if each.module == module_of(mechanism)), None)
    first = next((each for each in entries if each.options.get("username")), None)
    if own is None or first is None:
        return own
    names = ("username", "password")
    login = {name: first.options[name] for name in names if name in first.options}
    return JaasEntry(own.module, {**own.options, **login})
