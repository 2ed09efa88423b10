"""Security settings of each listener: TLS contexts, mechanisms, credentials.

A key with the prefix ``listener.name.<listener>.`` takes precedence over the key without it.  Keys
of a mechanism have the prefix ``listener.name.<listener>.<mechanism>.``.  A setting that is not
supported raises ConfigInvalid, and the broker does not start: a listener is never less secure than
its configuration.

Source: Kafka ``ChannelBuilders``, ``DefaultSslEngineFactory``, ``JaasContext``, ``KafkaConfig``.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import Struct

from kafka_common.errors import ConfigInvalid
from kafka_common.model import Endpoint
from kafka_common.net.client_security import (
    PLAIN,
    PLAINTEXT,
    SUPPORTED_MECHANISMS,
    AnyCredentials,
    ClientSecurity,
)
from kafka_common.protocol.oauthbearer import OAUTHBEARER
from replica_manager.configuration.broker_keys import BROKER_EFFECTS, BROKER_KEYS
from replica_manager.configuration.config_keys import ConfigValue, text_of
from replica_manager.configuration.key_effects import KeyEffectKind, texts_of
from replica_manager.security.logins import check_mechanism, credentials_of, login_entry
from replica_manager.security.oauth_settings import HANDLERS, token_validator
from replica_manager.security.oauth_tokens import OAuthBearerToken
from replica_manager.security.principals import (
    MAPPING_RULES_KEY,
    SslPrincipalMapper,
    parse_super_users,
)
from replica_manager.security.tls import Stores, client_context, load_stores, prepare
from zkcontroller.zookeeper.scala_order import java_hash_map_order

ACL_AUTHORIZER: Final = "kafka.security.authorizer.AclAuthorizer"
STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
INTER_BROKER_MECHANISM: Final = "sasl.mechanism.inter.broker.protocol"
_CONTROLLER_MECHANISM: Final = "sasl.mechanism.controller.protocol"
_ALLOW_EVERYONE: Final = "allow.everyone.if.no.acl.found"
_OWN_ZOOKEEPER: Final = "authorizer.zookeeper."
UNSUPPORTED: Final = texts_of(BROKER_EFFECTS, KeyEffectKind.REFUSED_WHEN_SECURED)
_CLIENT_AUTH: Final = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}


class AuthorizerSettings(Struct, frozen=True):
    """The super users, and whether resources without ACLs are open to everyone."""

    super_users: frozenset[tuple[str, str]]
    allow_everyone_if_no_acl_found: bool


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """The SASL settings of a listener."""

    mechanisms: tuple[str, ...]
    """The enabled mechanisms, in the order of the handshake response."""
    plain_users: Mapping[str, str] = field(repr=False)
    max_reauth_ms: Mapping[str, int]
    max_receive_bytes: int
    validate_token: Callable[[str], OAuthBearerToken] | None = field(default=None, repr=False)
    """Validates a token of OAUTHBEARER, or raises IllegalToken; None without that mechanism."""


@dataclass(slots=True)
class ListenerSecurity:
    """The TLS and SASL settings of a listener."""

    security_protocol: str
    tls: ssl.SSLContext | None = None
    """The TLS context, None without TLS; a replaced one is used for new connections."""
    principal_mapper: SslPrincipalMapper | None = None
    sasl: SaslSettings | None = None
    failed_authentication_delay_s: float = 0.0


class SecurityConfig(Protocol):
    """The configuration of a broker or of a quorum node."""

    @property
    def originals(self) -> Mapping[str, str]:
        """The properties of the configuration file, as text."""

    @property
    def effective(self) -> Mapping[str, str]:
        """All configured values as text; dynamic ones replace those of the file."""

    @property
    def values(self) -> Mapping[str, ConfigValue]:
        """The typed values of all known keys, with defaults."""

    def integer(self, key: str) -> int:
        """The value of a key whose type is an integer."""


def authorizer_settings(
    config: SecurityConfig, authorizer_class: str = ACL_AUTHORIZER
) -> AuthorizerSettings | None:
    """The authorizer's settings; None without an authorizer; ConfigInvalid for other classes."""
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


def security_of(
    config: SecurityConfig, endpoints: Iterable[Endpoint]
) -> dict[str, ListenerSecurity]:
    """The security of each listener by name.  Reads key stores."""
    return {
        endpoint.listener_name: SecuredListener(config, endpoint).server() for endpoint in endpoints
    }


def controller_client_security(config: SecurityConfig, endpoint: Endpoint) -> ClientSecurity:
    """The security of a quorum node's connections to other nodes.  Reads key stores."""
    return SecuredListener(config, endpoint).client(_CONTROLLER_MECHANISM, must_be_enabled=False)


class SecuredListener:
    """The security configuration of one listener; reads its key stores once, when needed."""

    def __init__(
        self,
        config: SecurityConfig,
        endpoint: Endpoint,
        texts: Mapping[str, str] | None = None,
    ) -> None:
        """``texts``: the configured values; those of ``config`` if None."""
        self._config = config
        self.endpoint = endpoint
        self.texts = config.effective if texts is None else texts
        self._stores: Stores | None = None
        self._protocol = endpoint.security_protocol
        self.prefix = f"listener.name.{endpoint.listener_name.lower()}."
        self._has_tls = self._protocol in ("SSL", "SASL_SSL")
        self.has_sasl = self._protocol in ("SASL_PLAINTEXT", "SASL_SSL")
        if self._has_tls or self.has_sasl:
            self._refuse_unsupported()

    def with_texts(self, texts: Mapping[str, str]) -> SecuredListener:
        """The same listener with the configured values ``texts``; reads its key stores again."""
        return SecuredListener(self._config, self.endpoint, texts)

    def server(self) -> ListenerSecurity:
        delay_ms = self._config.integer("connection.failed.authentication.delay.ms")
        rules = self.text(MAPPING_RULES_KEY) or "DEFAULT"
        return ListenerSecurity(
            self._protocol,
            self.server_tls(),
            SslPrincipalMapper(rules, self._name_of(MAPPING_RULES_KEY)) if self._has_tls else None,
            self._sasl() if self.has_sasl else None,
            delay_ms / 1000,
        )

    def client(self, mechanism_key: str, *, must_be_enabled: bool) -> ClientSecurity:
        if not self._has_tls and not self.has_sasl:
            return PLAINTEXT
        return ClientSecurity(
            self.client_tls(),
            self._credentials(mechanism_key, must_be_enabled=must_be_enabled)
            if self.has_sasl
            else None,
        )

    # Values

    def value(self, key: str) -> ConfigValue:
        name = self.prefix + key
        own = self.texts.get(name)
        return self._config.values[key] if own is None else BROKER_KEYS[key].parse(own, name)

    def _name_of(self, key: str) -> str:
        """The name of the configured key: with this listener's prefix if that is set."""
        return self.prefix + key if self.prefix + key in self.texts else key

    def is_enabled(self, key: str) -> bool:
        return self.value(key) is True

    def text(self, key: str) -> str | None:
        return text_of(self.value(key))

    def names(self, key: str) -> tuple[str, ...]:
        value = self.value(key)
        return value if isinstance(value, tuple) else ()

    def key_of(self, mechanism: str, key: str) -> str:
        """A mechanism's own key: with the prefix ``listener.name.<listener>.<mechanism>.``."""
        return f"{self.prefix}{mechanism.lower()}.{key}"

    def _refuse_unsupported(self) -> None:
        for key, allowed in UNSUPPORTED.items():
            if self.value(key):
                raise ConfigInvalid(self._name_of(key), self.text(key), allowed)
        for name, text in self.texts.items():
            refused = next((each for each in UNSUPPORTED if name.endswith(f".{each}")), None)
            if refused is not None and name.startswith(self.prefix) and text:
                by_token = self.key_of(OAUTHBEARER, refused)
                if name == by_token and text in HANDLERS.get(refused, ()):
                    continue
                raise ConfigInvalid(name, text, UNSUPPORTED[refused])

    # TLS

    @property
    def stores(self) -> Stores:
        """The content of the listener's key store and trust store."""
        if self._stores is None:
            self._stores = load_stores(self)
        return self._stores

    def client_tls(self) -> ssl.SSLContext | None:
        """A new TLS context for connections to this listener; None without TLS."""
        return client_context(self, self.stores) if self._has_tls else None

    def server_tls(self) -> ssl.SSLContext | None:
        """A new TLS context for the listener itself; None without TLS."""
        return self._server_tls() if self._has_tls else None

    def _server_tls(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if not prepare(self, context, self.stores):
            raise ConfigInvalid(
                f"{self.prefix}ssl.keystore.location",
                None,
                f"a key store: a {self._protocol} listener shows clients a certificate",
            )
        context.verify_mode = _CLIENT_AUTH[self._client_auth()]
        return context

    def _client_auth(self) -> str:
        own = self.texts.get(f"{self.prefix}ssl.client.auth")
        if own is None and self.has_sasl:
            return "none"  # the broker-wide value applies to listeners without SASL only
        return self.text("ssl.client.auth") or "none"

    # SASL

    def _sasl(self) -> SaslSettings:
        mechanisms = java_hash_map_order(list(dict.fromkeys(self.names("sasl.enabled.mechanisms"))))
        unsupported = [each for each in mechanisms if each not in SUPPORTED_MECHANISMS]
        if unsupported or not mechanisms:
            raise ConfigInvalid(
                f"{self.prefix}sasl.enabled.mechanisms",
                ",".join(mechanisms),
                "out of " + ", ".join(SUPPORTED_MECHANISMS),
            )
        max_receive_bytes = self.value("sasl.server.max.receive.size")
        assert isinstance(max_receive_bytes, int)
        return SaslSettings(
            tuple(mechanisms),
            self._plain_users() if PLAIN in mechanisms else {},
            {mechanism: self._max_reauth_ms(mechanism) for mechanism in mechanisms},
            max_receive_bytes,
            self._token_validator() if OAUTHBEARER in mechanisms else None,
        )

    def _plain_users(self) -> Mapping[str, str]:
        key, text = self.jaas_config(PLAIN)
        return login_entry(key, PLAIN, text).users

    def _token_validator(self) -> Callable[[str], OAuthBearerToken]:
        key, text = self.jaas_config(OAUTHBEARER)
        options = login_entry(key, OAUTHBEARER, text).options
        return token_validator(_MechanismValues(self, OAUTHBEARER), key, options)

    def _max_reauth_ms(self, mechanism: str) -> int:
        value = _MechanismValues(self, mechanism).value("connections.max.reauth.ms")
        assert isinstance(value, int)
        return value

    def jaas_config(self, mechanism: str) -> tuple[str, str | None]:
        """The key ``sasl.jaas.config`` of a mechanism and its value, None if it is not set."""
        key = self.key_of(mechanism, "sasl.jaas.config")
        return key, self.texts.get(key)

    def _credentials(self, key: str, *, must_be_enabled: bool) -> AnyCredentials:
        mechanism = self.text(key) or ""
        check_mechanism(self._name_of(key), mechanism)
        if must_be_enabled and mechanism not in self.names("sasl.enabled.mechanisms"):
            raise ConfigInvalid(
                self._name_of(key), mechanism, "a mechanism out of sasl.enabled.mechanisms"
            )
        jaas_key, text = self.jaas_config(mechanism)
        return credentials_of(jaas_key, mechanism, text, _MechanismValues(self, mechanism))


class _MechanismValues:
    """The values of a mechanism on a listener; its own keys take precedence."""

    def __init__(self, listener: SecuredListener, mechanism: str) -> None:
        self._listener = listener
        self._mechanism = mechanism

    def value(self, key: str) -> ConfigValue:
        name = self.name_of(key)
        own = self._listener.texts.get(name)
        return self._listener.value(key) if own is None else BROKER_KEYS[key].parse(own, name)

    def name_of(self, key: str) -> str:
        return self._listener.key_of(self._mechanism, key)
