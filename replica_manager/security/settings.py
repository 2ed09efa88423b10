"""From the configuration to what each listener needs: TLS contexts, mechanisms, credentials.

A key with the prefix ``listener.name.<listener>.`` wins over the one without; what belongs to a
mechanism stands behind ``listener.name.<listener>.<mechanism>.``.  What this broker cannot do is
refused with a sentence: a listener is secured as its configuration says, or the broker does not
start.

Source: Kafka ``ChannelBuilders``, ``DefaultSslEngineFactory``, ``JaasContext``, ``KafkaConfig``.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from replica_manager.broker_keys import BROKER_KEYS
from replica_manager.config import BrokerConfig
from replica_manager.config_keys import ConfigValue, text_of
from replica_manager.security.jaas import JaasEntry, parse_jaas
from replica_manager.security.principals import (
    MAPPING_RULES_KEY,
    SslPrincipalMapper,
    parse_super_users,
)
from zkcontroller.errors import ConfigInvalid
from zkcontroller.model import Endpoint
from zkcontroller.protocol.scram import MECHANISMS as SCRAM_MECHANISMS
from zkcontroller.runtime.client_security import (
    PLAIN,
    PLAINTEXT,
    SUPPORTED_MECHANISMS,
    ClientSecurity,
    Credentials,
)
from zkcontroller.zookeeper.scala_order import java_hash_map_order

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_OWN_ZOOKEEPER: Final = "authorizer.zookeeper."
_UNSUPPORTED: Final[Mapping[str, str]] = {
    "ssl.engine.factory.class": "no value: Java factories cannot be loaded",
    "ssl.provider": "no value: TLS is OpenSSL's",
    "ssl.secure.random.implementation": "no value: random numbers are OpenSSL's",
    "ssl.cipher.suites": "no value: OpenSSL's own choice of suites is used",
    "sasl.server.callback.handler.class": "no value: Java callbacks cannot be loaded",
    "sasl.client.callback.handler.class": "no value: Java callbacks cannot be loaded",
    "sasl.login.callback.handler.class": "no value: Java callbacks cannot be loaded",
    "sasl.login.class": "no value: Java logins cannot be loaded",
}
_TLS_VERSIONS: Final = {
    "TLSv1": ssl.TLSVersion.TLSv1,
    "TLSv1.1": ssl.TLSVersion.TLSv1_1,
    "TLSv1.2": ssl.TLSVersion.TLSv1_2,
    "TLSv1.3": ssl.TLSVersion.TLSv1_3,
}
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class AuthorizerSettings:
    """Who decides, and for whom there are no rules."""

    super_users: frozenset[tuple[str, str]]
    allow_everyone_if_no_acl_found: bool


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How clients of a listener log in."""

    mechanisms: tuple[str, ...]
    """In the order in which a handshake names them."""
    plain_users: Mapping[str, str] = field(repr=False)
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int


@dataclass(frozen=True, slots=True)
class ListenerSecurity:
    """What a connection must go through before its first request."""

    security_protocol: str
    tls: ssl.SSLContext | None = None
    principal_mapper: SslPrincipalMapper | None = None
    sasl: SaslSettings | None = None
    failed_authentication_delay_s: float = 0.0


class SecurityConfig(Protocol):
    """The configuration of a broker, or of a node of the quorum."""

    @property
    def originals(self) -> Mapping[str, str]:
        """What the file says, as text."""

    @property
    def values(self) -> Mapping[str, ConfigValue]:
        """Every known key, typed, defaults filled in."""

    def integer(self, key: str) -> int:
        """The value of a key that always has an integer."""


def authorizer_settings(
    config: SecurityConfig, authorizer_class: str = ACL_AUTHORIZER
) -> AuthorizerSettings | None:
    """None if nobody is asked; ConfigInvalid for another authorizer than that of Kafka's."""
    class_name = text_of(config.values["authorizer.class.name"])
    if not class_name:
        return None
    if class_name != authorizer_class:
        raise ConfigInvalid("authorizer.class.name", class_name, f"no value, or {authorizer_class}")
    own = next((key for key in config.originals if key.startswith(_OWN_ZOOKEEPER)), None)
    if own is not None and authorizer_class == ACL_AUTHORIZER:
        raise ConfigInvalid(
            own, config.originals[own], "no value: the rules stand in the broker's ZooKeeper"
        )
    allow = config.originals.get(_ALLOW_EVERYONE, "false").strip().lower()
    return AuthorizerSettings(
        parse_super_users(config.originals.get("super.users", "")), allow == "true"
    )


def listener_security(config: BrokerConfig) -> dict[str, ListenerSecurity]:
    """By listener name, for every listener that is bound.  Reads key stores."""
    return security_of(config, config.listeners.bound)


def security_of(
    config: SecurityConfig, endpoints: Iterable[Endpoint]
) -> dict[str, ListenerSecurity]:
    """By listener name, for those listeners.  Reads key stores."""
    return {endpoint.listener_name: _Listener(config, endpoint).server() for endpoint in endpoints}


def client_security(config: BrokerConfig, listener_name: str) -> ClientSecurity:
    """How this broker connects to others on that listener of theirs.  Reads key stores."""
    endpoint = next(each for each in config.listeners.bound if each.listener_name == listener_name)
    return _Listener(config, endpoint).client(_INTER_BROKER_MECHANISM, must_be_enabled=True)


def controller_client_security(config: SecurityConfig, endpoint: Endpoint) -> ClientSecurity:
    """How a node of the quorum connects to that listener of the others.  Reads key stores."""
    return _Listener(config, endpoint).client(_CONTROLLER_MECHANISM, must_be_enabled=False)


class _Listener:
    """The configuration as one listener sees it."""

    def __init__(self, config: SecurityConfig, endpoint: Endpoint) -> None:
        self._config = config
        self._protocol = endpoint.security_protocol
        self._prefix = f"listener.name.{endpoint.listener_name.lower()}."
        self._has_tls = self._protocol in ("SSL", "SASL_SSL")
        self._has_sasl = self._protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        if self._has_tls or self._has_sasl:
            self._refuse_unsupported()

    def server(self) -> ListenerSecurity:
        delay_ms = self._config.integer("connection.failed.authentication.delay.ms")
        rules = self._text(MAPPING_RULES_KEY) or "DEFAULT"
        return ListenerSecurity(
            self._protocol,
            self._server_tls() if self._has_tls else None,
            SslPrincipalMapper(rules) if self._has_tls else None,
            self._sasl() if self._has_sasl else None,
            delay_ms / 1000,
        )

    def client(self, mechanism_key: str, *, must_be_enabled: bool) -> ClientSecurity:
        if not self._has_tls and not self._has_sasl:
            return PLAINTEXT
        return ClientSecurity(
            self._client_tls() if self._has_tls else None,
            self._credentials(mechanism_key, must_be_enabled=must_be_enabled)
            if self._has_sasl
            else None,
        )

    # Values

    def _value(self, key: str) -> ConfigValue:
        own = self._config.originals.get(self._prefix + key)
        return self._config.values[key] if own is None else BROKER_KEYS[key].parse(own)

    def _text(self, key: str) -> str | None:
        return text_of(self._value(key))

    def _list(self, key: str) -> tuple[str, ...]:
        value = self._value(key)
        return value if isinstance(value, tuple) else ()

    def _of_mechanism(self, mechanism: str, key: str) -> str | None:
        """What stands behind ``listener.name.<listener>.<mechanism>.``."""
        return self._config.originals.get(f"{self._prefix}{mechanism.lower()}.{key}")

    def _refuse_unsupported(self) -> None:
        for key, allowed in _UNSUPPORTED.items():
            if self._value(key):
                raise ConfigInvalid(key, self._text(key), allowed)
        for name, text in self._config.originals.items():
            refused = next((each for each in _UNSUPPORTED if name.endswith(f".{each}")), None)
            if refused is not None and name.startswith(self._prefix) and text:
                raise ConfigInvalid(name, text, _UNSUPPORTED[refused])

    # TLS

    def _server_tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if not self._prepare(context):
            raise ConfigInvalid(
                f"{self._prefix}ssl.keystore.location",
                None,
                f"a key store: a {self._protocol} listener shows clients a certificate",
            )
        context.verify_mode = _CLIENT_AUTH[self._client_auth()]
        return context

    def _client_auth(self) -> str:
        own = self._config.originals.get(f"{self._prefix}ssl.client.auth")
        if own is None and self._has_sasl:
            return "none"  # a broker-wide value is for listeners without SASL
        return self._text("ssl.client.auth") or "none"

    def _client_tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        algorithm = self._text("ssl.endpoint.identification.algorithm") or ""
        if algorithm.lower() not in ("", "https"):
            raise ConfigInvalid(
                "ssl.endpoint.identification.algorithm", algorithm, "https, or no value"
            )
        context.check_hostname = bool(algorithm)
        self._prepare(context)
        return context

    def _prepare(self, context: ssl.SSLContext) -> bool:
        """Versions, trust and key; whether there is a key."""
        # It loads ten megabytes of cryptography, which a listener without TLS has no use for.
        from replica_manager.security.key_material import (
            KeyStoreSettings,
            TrustStoreSettings,
            load_key_store,
            load_trust_store,
            use_key,
        )

        self._limit_versions(context)
        # Whatever stands in a trust store is trusted, as in Java, be it an authority or not.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        trusted = load_trust_store(
            TrustStoreSettings(
                self._prefix,
                self._text("ssl.truststore.type") or "",
                self._text("ssl.truststore.location") or None,
                self._text("ssl.truststore.password") or None,
                self._text("ssl.truststore.certificates") or None,
            )
        )
        if trusted is None:
            context.load_default_certs()
        else:
            context.load_verify_locations(cadata=trusted)
        material = load_key_store(
            KeyStoreSettings(
                self._prefix,
                self._text("ssl.keystore.type") or "",
                self._text("ssl.keystore.location") or None,
                self._text("ssl.keystore.password") or None,
                self._text("ssl.key.password") or None,
                self._text("ssl.keystore.key") or None,
                self._text("ssl.keystore.certificate.chain") or None,
            )
        )
        if material is None:
            return False
        use_key(context, f"{self._prefix}ssl.keystore", material)
        return True

    def _limit_versions(self, context: ssl.SSLContext) -> None:
        names = self._list("ssl.enabled.protocols") or ("TLSv1.2", "TLSv1.3")
        unknown = [name for name in names if name not in _TLS_VERSIONS]
        if unknown:
            raise ConfigInvalid(
                "ssl.enabled.protocols", ",".join(names), "out of " + ", ".join(_TLS_VERSIONS)
            )
        versions = list(_TLS_VERSIONS)
        places = sorted(versions.index(name) for name in set(names))
        if places != list(range(places[0], places[-1] + 1)):
            raise ConfigInvalid(
                "ssl.enabled.protocols", ",".join(names), "versions without a gap between them"
            )
        context.minimum_version = _TLS_VERSIONS[versions[places[0]]]
        context.maximum_version = _TLS_VERSIONS[versions[places[-1]]]

    # SASL

    def _sasl(self) -> SaslSettings:
        mechanisms = java_hash_map_order(list(dict.fromkeys(self._list("sasl.enabled.mechanisms"))))
        unsupported = [each for each in mechanisms if each not in SUPPORTED_MECHANISMS]
        if unsupported or not mechanisms:
            raise ConfigInvalid(
                f"{self._prefix}sasl.enabled.mechanisms",
                ",".join(mechanisms),
                "out of " + ", ".join(SUPPORTED_MECHANISMS),
            )
        max_receive_bytes = self._value("sasl.server.max.receive.size")
        assert isinstance(max_receive_bytes, int)
        return SaslSettings(
            tuple(mechanisms),
            self._jaas(PLAIN).users if PLAIN in mechanisms else {},
            {mechanism: self._max_reauth_ms(mechanism) for mechanism in mechanisms},
            max_receive_bytes,
        )

    def _max_reauth_ms(self, mechanism: str) -> int:
        key = "connections.max.reauth.ms"
        own = self._of_mechanism(mechanism, key)
        value = self._value(key) if own is None else BROKER_KEYS[key].parse(own)
        assert isinstance(value, int)
        return value

    def _jaas(self, mechanism: str) -> JaasEntry:
        key = f"{self._prefix}{mechanism.lower()}.sasl.jaas.config"
        text = self._of_mechanism(mechanism, "sasl.jaas.config")
        if text is None:
            raise ConfigInvalid(key, None, "the login module of that mechanism")
        entry = parse_jaas(key, text)
        module = "plain.PlainLoginModule" if mechanism == PLAIN else "scram.ScramLoginModule"
        if entry.module != f"org.apache.kafka.common.security.{module}":
            raise ConfigInvalid(key, entry.module, f"org.apache.kafka.common.security.{module}")
        return entry

    def _credentials(self, key: str, *, must_be_enabled: bool) -> Credentials:
        mechanism = self._text(key) or ""
        if mechanism not in (PLAIN, *SCRAM_MECHANISMS):
            raise ConfigInvalid(key, mechanism, "out of " + ", ".join(SUPPORTED_MECHANISMS))
        if must_be_enabled and mechanism not in self._list("sasl.enabled.mechanisms"):
            raise ConfigInvalid(key, mechanism, "a mechanism out of sasl.enabled.mechanisms")
        options = self._jaas(mechanism).options
        if not options.get("username") or "password" not in options:
            raise ConfigInvalid(
                f"{self._prefix}{mechanism.lower()}.sasl.jaas.config",
                "[hidden]",
                "username and password: one logs in at the others by them",
            )
        return Credentials(mechanism, options["username"], options["password"])
