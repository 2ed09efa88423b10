"""How SASL/OAUTHBEARER is configured: which tokens are accepted, and which is shown.

Without a callback handler tokens are unsecured.  Kafka's ``OAuthBearerValidatorCallbackHandler``
on a listener means signed tokens; its ``OAuthBearerLoginCallbackHandler`` means that a client gets
its token from a token endpoint or a file.

Source: Kafka ``AccessTokenValidatorFactory``, ``VerificationKeyResolverFactory``,
``AccessTokenRetrieverFactory``, ``JaasOptionsUtils`` (KIP-255, KIP-768).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, Protocol

from kafka_common.errors import ConfigInvalid, SaslRefused
from kafka_common.net.client_security import OAuthBearerCredentials
from kafka_common.wall_time import wall_time_ms
from replica_manager.configuration.config_keys import ConfigValue
from replica_manager.security.client_values import ClientValues
from replica_manager.security.oauth_tokens import (
    LOGIN_EXTENSION,
    OAuthBearerToken,
    UnsecuredTokens,
    extensions_of,
    unsecured_token,
)
from replica_manager.security.tls import client_context

if TYPE_CHECKING:
    from replica_manager.security.oauth_http import Retries

# What reads over HTTP is imported where it is configured: zkctl has no other use for it.

SERVER_HANDLER: Final = "sasl.server.callback.handler.class"
LOGIN_HANDLER: Final = "sasl.login.callback.handler.class"
_PACKAGE: Final = "org.apache.kafka.common.security.oauthbearer"
HANDLERS: Final[Mapping[str, tuple[str, ...]]] = {
    key: tuple(f"{_PACKAGE}.{name}" for name in (class_name, f"secured.{class_name}"))
    for key, class_name in {
        SERVER_HANDLER: "OAuthBearerValidatorCallbackHandler",
        LOGIN_HANDLER: "OAuthBearerLoginCallbackHandler",
    }.items()
}
"""The classes whose work is done here, by key; the second name of each is the older one."""
_ENDPOINT_EXTENSION: Final = "extension_"
_JWKS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
_JWKS_REFRESH: Final = "sasl.oauthbearer.jwks.endpoint.refresh.ms"
_JWKS_BACKOFFS: Final = (
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms",
)
_LOGIN_BACKOFFS: Final = ("sasl.login.retry.backoff.ms", "sasl.login.retry.backoff.max.ms")


class MechanismValues(Protocol):
    """The values of a listener's keys for OAUTHBEARER, or those of a client."""

    def value(self, key: str) -> ConfigValue:
        """The typed value, or the default."""

    def name_of(self, key: str) -> str:
        """The name of the configured key."""


def token_validator(
    values: MechanismValues, jaas_key: str, options: Mapping[str, str]
) -> Callable[[str], OAuthBearerToken]:
    """Validates tokens as a listener is configured.  Reads the keys of signed tokens.

    ``options``: of the login module in ``jaas_key``.  ConfigInvalid if something is invalid.
    """
    if not values.value(SERVER_HANDLER):
        return UnsecuredTokens(jaas_key, options, wall_time_ms).validate
    from replica_manager.security.oauth_signed_tokens import Claims, SignedTokens, keys_at

    refresh_ms = _number(values, _JWKS_REFRESH)
    if refresh_ms <= 0:
        raise ConfigInvalid(values.name_of(_JWKS_REFRESH), refresh_ms, "more than 0")
    url = _text(values, _JWKS_URL)
    keys = keys_at(
        values.name_of(_JWKS_URL),
        url,
        refresh_ms / 1000,
        _retries(values, _JWKS_BACKOFFS),
        _tls(url, options),
    )
    audiences = values.value("sasl.oauthbearer.expected.audience")
    claims = Claims(
        audiences if isinstance(audiences, tuple) else (),
        _text(values, "sasl.oauthbearer.expected.issuer"),
        _number(values, "sasl.oauthbearer.clock.skew.seconds"),
        _claim(values, "sasl.oauthbearer.sub.claim.name"),
        _claim(values, "sasl.oauthbearer.scope.claim.name"),
    )
    return SignedTokens(keys, claims).validate


def credentials_by_token(
    values: MechanismValues, jaas_key: str, options: Mapping[str, str]
) -> OAuthBearerCredentials:
    """How a client logs in; ConfigInvalid if that is not configured or invalid.

    Fetches no token yet.
    """
    url_key = "sasl.oauthbearer.token.endpoint.url"
    if values.value(LOGIN_HANDLER):
        from replica_manager.security.oauth_login import token_source

        url = _text(values, url_key)
        retries = _retries(values, _LOGIN_BACKOFFS)
        timeout_ms = values.value("sasl.login.read.timeout.ms")
        if isinstance(timeout_ms, int):
            retries = retries._replace(timeout_s=timeout_ms / 1000)
        source = token_source(
            jaas_key, values.name_of(url_key), url, options, retries, _tls(url, options)
        )
        return _checked(
            jaas_key,
            OAuthBearerCredentials(source.token, extensions_of(options, _ENDPOINT_EXTENSION)),
        )
    unsecured_token(jaas_key, options, wall_time_ms())  # to refuse what is invalid at once
    return _checked(
        jaas_key,
        OAuthBearerCredentials(
            lambda: unsecured_token(jaas_key, options, wall_time_ms()),
            extensions_of(options, LOGIN_EXTENSION),
        ),
    )


def _checked(jaas_key: str, credentials: OAuthBearerCredentials) -> OAuthBearerCredentials:
    try:
        credentials.check()
    except SaslRefused as refused:
        raise ConfigInvalid(jaas_key, "[hidden]", f"other extensions: {refused}") from None
    return credentials


def _text(values: MechanismValues, key: str) -> str | None:
    value = values.value(key)
    return value.strip() or None if isinstance(value, str) else None


def _claim(values: MechanismValues, key: str) -> str:
    name = _text(values, key)
    if name is None:
        raise ConfigInvalid(values.name_of(key), name, "the name of a claim")
    return name


def _number(values: MechanismValues, key: str) -> int:
    value = values.value(key)
    assert isinstance(value, int)
    return value


def _retries(values: MechanismValues, keys: tuple[str, str]) -> Retries:
    from replica_manager.security.oauth_http import Retries

    backoff_ms, max_ms = (max(_number(values, key), 1) for key in keys)
    return Retries(backoff_ms / 1000, max_ms / 1000)


def _tls(url: str | None, options: Mapping[str, str]) -> ssl.SSLContext | None:
    """The TLS of an address ``https:``, by the options ``ssl.*`` of the login module."""
    if not (url or "").lower().startswith("https:"):
        return None
    return client_context(
        ClientValues({key: options[key] for key in options if key.startswith("ssl.")})
    )
