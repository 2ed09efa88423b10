"""Unsecured tokens of SASL/OAUTHBEARER: JSON Web Tokens without a signature.

Anyone can make such a token, so they are for tests.  The options are those of the login module
``OAuthBearerLoginModule``: ``unsecuredLogin…`` says which token a client makes,
``unsecuredValidator…`` which tokens a server accepts.

Source: Kafka ``OAuthBearerUnsecuredLoginCallbackHandler``, ``OAuthBearerUnsecuredJws``,
``OAuthBearerUnsecuredValidatorCallbackHandler`` (KIP-255).
"""

from __future__ import annotations

import base64
import binascii
import logging
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, cast

import orjson

from kafka_common.errors import ConfigInvalid, SaslRefused, one_line
from kafka_common.java import parse_int
from kafka_common.observability.java_values import java_list
from replica_manager.configuration.config_keys import ConfigValue, text_of
from zkcontroller.zookeeper.scala_order import java_hash_map_order

_LOGIN: Final = "unsecuredLogin"
_VALIDATOR: Final = "unsecuredValidator"
LOGIN_EXTENSION: Final = f"{_LOGIN}Extension_"
"""The prefix of options with SASL extensions."""
_DEFAULT_LIFETIME_S: Final = "3600"
_OWN_CLAIMS: Final = ("iat", "exp")
MOST_LOGGED: Final = 1_000
"""The most characters of a principal's name or of a token's claims in a log line."""
_MAX_LONG: Final = 2**63 - 1
_log = logging.getLogger(
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured."
    "OAuthBearerUnsecuredValidatorCallbackHandler"
)
_SCOPE: Final = re.compile(r"[\x23-\x5B\x5D-\x7E\x21]+")


class OAuthBearerToken(NamedTuple):
    """What the server needs from a valid token."""

    principal_name: str
    expires_at_ms: int
    """In ms since 1970."""


class IllegalToken(SaslRefused):
    """The server does not accept the token; ``scope`` is the required scope that it lacks."""

    def __init__(self, reason: str, scope: str | None = None) -> None:
        super().__init__(reason)
        self.scope = scope


# The token of a client


def unsecured_token(key: str, options: Mapping[str, str], now_ms: int) -> str:
    """The token that the options ``unsecuredLogin…`` describe; ConfigInvalid if they describe none.

    ``key`` is the name of the configuration key with the options, for the error text.
    """
    lifetime = options.get(f"{_LOGIN}LifetimeSeconds", _DEFAULT_LIFETIME_S)
    lifetime_s = parse_int(lifetime, 64)
    if lifetime_s is None:
        raise ConfigInvalid(key, lifetime, f"{_LOGIN}LifetimeSeconds as a whole number")
    claims: dict[str, object] = {"exp": now_ms / 1000 + lifetime_s, "iat": now_ms / 1000}
    for prefix, value_of in _CLAIMS.items():
        for option, text in options.items():
            name = option.removeprefix(prefix)
            if name in (option, ""):
                continue
            if name in _OWN_CLAIMS:
                raise ConfigInvalid(key, option, "other claims than iat and exp, which are set")
            try:
                claims[name] = value_of(text)
            except ValueError:
                raise ConfigInvalid(key, text, f"{option} as a number") from None
    principal_claim = _claim_name(options, f"{_LOGIN}PrincipalClaimName", "sub")
    principal = claims.get(principal_claim)
    if not isinstance(principal, str) or not principal.strip():
        allowed = f"an option {_LOGIN}StringClaim_{principal_claim}, the name to log in with"
        raise ConfigInvalid(key, "[hidden]", allowed)
    return f"{_segment({'alg': 'none'})}.{_segment(claims)}."


def extensions_of(options: Mapping[str, str], prefix: str) -> dict[str, str]:
    """The SASL extensions that a client sends with its token: the options with the ``prefix``."""
    return {
        name.removeprefix(prefix): value
        for name, value in options.items()
        if name.startswith(prefix)
    }


def _list_of(text: str) -> list[str]:
    """The elements of the text, whose first character separates them."""
    if len(text) <= 1:
        return []
    elements = text[1:].split(text[0])
    has_empty = "" in elements
    while elements and not elements[-1]:  # as String.split of Java
        elements.pop()
    return [*elements, ""] if has_empty else elements


_CLAIMS: Final[Mapping[str, Callable[[str], object]]] = {
    f"{_LOGIN}StringClaim_": str,
    f"{_LOGIN}NumberClaim_": float,
    f"{_LOGIN}ListClaim_": _list_of,
}


def _segment(value: Mapping[str, object]) -> str:
    # Not the alphabet for URLs, which a server of Kafka does not decode.
    return base64.b64encode(orjson.dumps(value)).rstrip(b"=").decode()


def _claim_name(options: Mapping[str, str], option: str, default: str) -> str:
    return options.get(option, "").strip() or default


# The tokens that a server accepts


class UnsecuredTokens:
    """Accepts unsecured tokens, as the options ``unsecuredValidator…`` say."""

    def __init__(self, key: str, options: Mapping[str, str], now_ms: Callable[[], int]) -> None:
        """ConfigInvalid, with the configuration's ``key``, if an option is invalid."""
        self._now_ms = now_ms
        self._principal_claim = _claim_name(options, f"{_VALIDATOR}PrincipalClaimName", "sub")
        self._scope_claim = _claim_name(options, f"{_VALIDATOR}ScopeClaimName", "scope")
        self._scopes = options.get(f"{_VALIDATOR}RequiredScope", "").split()
        for scope in self._scopes:
            if _SCOPE.fullmatch(scope) is None:
                raise ConfigInvalid(key, scope, f"{_VALIDATOR}RequiredScope: names of scopes")
        skew = options.get(f"{_VALIDATOR}AllowableClockSkewMs", "").strip() or "0"
        skew_ms = parse_int(skew)
        if skew_ms is None or skew_ms < 0:
            raise ConfigInvalid(key, skew, f"{_VALIDATOR}AllowableClockSkewMs of 0 or more")
        self._skew_ms = skew_ms

    def validate(self, token: str) -> OAuthBearerToken:
        """The principal and the end of the token; IllegalToken if it is not accepted."""
        claims = _claims_in(token)
        name = _claim(claims, self._principal_claim, str)
        if name is None or not name.strip():
            raise IllegalToken(f"No principal name in JWT claim: {self._principal_claim}")
        expires_s = _number(claims, "exp")
        if expires_s is None:
            raise IllegalToken("No expiration time in JWT")
        self._check_times(_number(claims, "iat"), expires_s)
        self._check_scopes(claims)
        _log.info(
            "Successfully validated token with principal %s: %s",
            one_line(name, MOST_LOGGED),
            one_line(_map_text(claims), MOST_LOGGED),
        )
        return OAuthBearerToken(name, round(min(expires_s * 1000, _MAX_LONG)))

    def _check_times(self, issued_s: float | None, expires_s: float) -> None:
        now_ms = self._now_ms()
        if issued_s is not None and 1000 * issued_s > now_ms + self._skew_ms:
            raise IllegalToken("the token is issued in the future")
        if now_ms - self._skew_ms >= 1000 * expires_s:
            raise IllegalToken("the token has expired")
        if issued_s is not None and expires_s <= issued_s:
            raise IllegalToken("the token expires before it is issued")

    def _check_scopes(self, claims: Mapping[str, object]) -> None:
        found = claims.get(self._scope_claim)
        scopes = [found] if isinstance(found, str) else _claim(claims, self._scope_claim, list)
        held = {each.strip() for each in scopes or ()}
        missing = next((each for each in self._scopes if each not in held), None)
        if missing is not None:
            raise IllegalToken(
                f"the token lacks the required scope {missing}", f"[{', '.join(self._scopes)}]"
            )


def _map_text(claims: Mapping[str, object]) -> str:
    """The claims as a Java map prints them."""
    texts = {
        name: java_list(value) if isinstance(value, list) else text_of(cast(ConfigValue, value))
        for name, value in claims.items()
    }
    return f"{{{', '.join(f'{name}={texts[name]}' for name in java_hash_map_order(list(texts)))}}}"


def _claims_in(token: str) -> dict[str, object]:
    """The claims of an unsecured token; IllegalToken if it is not one."""
    if ".." in token:
        raise IllegalToken("Malformed compact serialization contains '..'")
    segments = token.split(".")
    if len(segments) != 3:
        raise IllegalToken(
            "Unsecured JWS compact serializations must have 3 dot-separated Base64URL-encoded "
            "values"
        )
    header, claims = _json_in(segments[0]), _json_in(segments[1])
    if header.get("alg") != "none":
        raise IllegalToken("Unsecured JWS must have 'none' for an algorithm")
    if segments[2]:
        raise IllegalToken("Unsecured JWS must not contain a digital signature")
    return claims


def _json_in(segment: str) -> dict[str, object]:
    try:  # as Kafka with the plain alphabet, although JSON Web Tokens have the one for URLs
        found = orjson.loads(base64.b64decode(segment + "=" * (-len(segment) % 4), validate=True))
    except binascii.Error:
        raise IllegalToken("malformed Base64 URL encoded value") from None
    except orjson.JSONDecodeError:
        raise IllegalToken("malformed JSON") from None
    fields = found.items() if isinstance(found, dict) else ()
    return {name: _converted(value) for name, value in fields}


def _converted(value: Any) -> object:
    if isinstance(value, list):
        return [_as_text(each) for each in value]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else _as_text(value)


def _as_text(value: Any) -> str:
    """A JSON value as Jackson's ``asText``: empty for an object or a list."""
    if isinstance(value, dict | list):
        return ""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _number(claims: Mapping[str, object], name: str) -> float | None:
    value = claims.get(name)
    if value is None or isinstance(value, int | float):
        return value
    raise IllegalToken(f"The '{name}' claim was not of type Number")


def _claim(claims: Mapping[str, object], name: str, kind: type) -> Any:
    value = claims.get(name)
    if value is None or isinstance(value, kind):
        return value
    raise IllegalToken(f"The '{name}' claim was not of type {kind.__name__}")
