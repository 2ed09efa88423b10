"""Signed tokens of SASL/OAUTHBEARER: JSON Web Tokens, verified by keys of the issuer (KIP-768).

The keys are a JSON Web Key Set in a file, or at an HTTP address that is read again from time to
time and when a token names an unknown key.

Source: Kafka ``OAuthBearerValidatorCallbackHandler``, ``ValidatorAccessTokenValidator``,
``RefreshingHttpsJwks``, ``JwksFileVerificationKeyResolver``; ``jose4j`` for the rules of a token.
"""

from __future__ import annotations

import logging
import ssl
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from time import monotonic
from typing import Any, Final, NamedTuple

import orjson
from typing_extensions import override

from kafka_common.errors import ConfigInvalid, one_line
from replica_manager.regular_files import read_configured
from replica_manager.security.oauth_http import (
    MOST_BYTES,
    HttpFailed,
    Retries,
    fetched,
    file_of,
)
from replica_manager.security.oauth_tokens import IllegalToken, OAuthBearerToken

MIN_RSA_BITS: Final = 2048
MOST_MISSING_KEYS: Final = 16
"""The most unknown key ids that are remembered; each leads to at most one reading in a minute."""
MISSING_KEY_S: Final = 60.0
MOST_KEY_ID_CHARACTERS: Final = 1_000
_KEY_TYPES: Final[Mapping[str, str]] = {"RS": "RSA", "PS": "RSA", "ES": "EC", "HS": "oct"}
"""Key type by the beginning of the algorithm's name."""
_log = logging.getLogger(
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"
)
_keys_log = logging.getLogger(
    "org.apache.kafka.common.security.oauthbearer.internals.secured.RefreshingHttpsJwks"
)


class Claims(NamedTuple):
    """What a token must say."""

    audiences: tuple[str, ...]
    """One of them must be in ``aud``; if there are none, the token may have no ``aud``."""
    issuer: str | None
    skew_s: int
    principal_claim: str
    scope_claim: str


class JwksKeys:
    """The keys of a set that does not change."""

    def __init__(self, keys: Sequence[Mapping[str, Any]]) -> None:
        self.keys = keys

    def miss(self, key_id: str | None) -> None:
        """A token names a key that is not there."""


class JwksEndpoint(JwksKeys):
    """The keys at an HTTP address.

    A daemon thread reads them every ``refresh_s``, until this object is no longer used.
    """

    def __init__(
        self, key: str, url: str, refresh_s: float, retries: Retries, tls: ssl.SSLContext | None
    ) -> None:
        """Reads the keys; ConfigInvalid, with the configuration's ``key``, if that fails."""
        try:
            super().__init__(_keys_in(fetched(url, retries.once(), tls)))
        except HttpFailed as failed:
            raise ConfigInvalid(key, url, f"the address of a key set: {failed}") from None
        self.url = url
        self._retries = retries
        self._tls = tls
        self._missing: OrderedDict[str, float] = OrderedDict()
        self._wake = threading.Event()
        weakref.finalize(self, self._wake.set)
        threading.Thread(
            target=_refresh_for_ever,
            args=(weakref.ref(self), self._wake, refresh_s),
            name="oauth-jwks-refresh",
            daemon=True,
        ).start()
        _keys_log.info(
            "JWKS validation key refresh thread started with a refresh interval of %d ms",
            round(refresh_s * 1000),
        )

    @override
    def miss(self, key_id: str | None) -> None:
        """Lets the keys be read again, at most once in a minute for each key id."""
        if key_id is None or len(key_id) > MOST_KEY_ID_CHARACTERS:
            return
        now_s = monotonic()
        if self._missing.get(key_id, 0.0) <= now_s:
            self._missing[key_id] = now_s + MISSING_KEY_S
            while len(self._missing) > MOST_MISSING_KEYS:
                self._missing.popitem(last=False)
            self._wake.set()

    def refresh(self) -> None:
        """Reads the keys again; if that fails, those of before stay."""
        _keys_log.info("OAuth JWKS refresh of %s starting", self.url)
        try:
            self.keys = _keys_in(fetched(self.url, self._retries, self._tls))
        except HttpFailed as failed:
            _keys_log.warning(
                "OAuth JWKS refresh of %s encountered an error; not updating local JWKS cache: %s",
                self.url,
                str(failed),
            )
        else:
            _keys_log.info("OAuth JWKS refresh of %s complete", self.url)


def _refresh_for_ever(
    endpoint: Callable[[], JwksEndpoint | None], wake: threading.Event, refresh_s: float
) -> None:
    while True:
        wake.wait(refresh_s)
        wake.clear()
        used = endpoint()
        if used is None:
            return
        used.refresh()
        del used  # not kept by this thread


def keys_at(
    key: str, url: str | None, refresh_s: float, retries: Retries, tls: ssl.SSLContext | None
) -> JwksKeys:
    """The keys at an address ``file:`` or ``http(s):``; ConfigInvalid if there are none."""
    path = file_of(key, url)
    if path is None:
        assert url is not None
        return JwksEndpoint(key, url, refresh_s, retries, tls)
    try:
        return JwksKeys(_keys_in(read_configured(Path(path), MOST_BYTES)))
    except (OSError, HttpFailed) as failed:
        raise ConfigInvalid(key, url, f"a readable file with a key set: {failed}") from None


class SignedTokens:
    """Accepts tokens that are signed with one of the keys."""

    def __init__(self, keys: JwksKeys, claims: Claims) -> None:
        self._keys = keys
        self._claims = claims

    def validate(self, token: str) -> OAuthBearerToken:
        """The principal and the end of the token; IllegalToken if it is not accepted."""
        try:
            return self._token(self._verified(token))
        except IllegalToken as illegal:
            _log.warning("Could not validate the access token: %s", one_line(str(illegal)))
            raise

    def _verified(self, token: str) -> Mapping[str, Any]:
        # Not imported at the start of every broker.
        import jwt

        claims = self._claims
        try:
            header = jwt.get_unverified_header(token)
            algorithm, key_id = str(header["alg"]), header.get("kid")
            key = jwt.PyJWK(dict(self._key(algorithm, key_id)), algorithm)
            if key.key_type == "RSA" and key.key.key_size < MIN_RSA_BITS:
                raise IllegalToken(f"an RSA key of less than {MIN_RSA_BITS} bits")
            found: Mapping[str, Any] = jwt.decode(
                token,
                key,
                [algorithm],
                audience=claims.audiences or None,
                issuer=claims.issuer,
                leeway=claims.skew_s,
                options={
                    "require": ["exp", "iat"],
                    "verify_iat": False,  # Kafka does not compare it with the clock
                    "verify_sub": False,
                    "verify_jti": False,
                },
            )
        except (jwt.PyJWTError, ValueError, TypeError, KeyError, OverflowError) as failed:
            raise IllegalToken(f"{type(failed).__name__}: {failed}") from None
        return found

    def _key(self, algorithm: str, key_id: object) -> Mapping[str, Any]:
        """The first key that may have signed the token."""
        key_type = _KEY_TYPES.get(algorithm[:2])
        for key in self._keys.keys:
            if (
                key.get("kty") == key_type
                and (key_id is None or key.get("kid") == key_id)
                and key.get("use", "sig") == "sig"
                and key.get("alg", algorithm) == algorithm
            ):
                return key
        self._keys.miss(key_id if isinstance(key_id, str) else None)
        raise IllegalToken(f"no key for algorithm {algorithm[:20]} and key id {str(key_id)[:100]}")

    def _token(self, found: Mapping[str, Any]) -> OAuthBearerToken:
        claims = self._claims
        expires_s, issued_s = int(found["exp"]), int(found["iat"])
        if expires_s < issued_s or issued_s < 0:
            raise IllegalToken("the token expires before it is issued")
        principal = found.get(claims.principal_claim)
        if not isinstance(principal, str) or not principal.strip():
            raise IllegalToken(f"{claims.principal_claim} value must be a non-empty text")
        _check_scopes(claims.scope_claim, found.get(claims.scope_claim))
        return OAuthBearerToken(principal.strip(), expires_s * 1000)


def _check_scopes(name: str, value: object) -> None:
    """Raises IllegalToken if scopes are empty or repeated; Kafka requires none."""
    scopes = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [each.strip() if isinstance(each, str) else "" for each in scopes]
    if "" in texts or len(set(texts)) < len(texts):
        raise IllegalToken(f"{name} value must be non-empty texts without duplicates")


def _keys_in(data: bytes) -> Sequence[Mapping[str, Any]]:
    """The keys of a JSON Web Key Set; HttpFailed if it is not one."""
    try:
        found = orjson.loads(data)["keys"]
    except (orjson.JSONDecodeError, KeyError, TypeError):
        raise HttpFailed("not a JSON Web Key Set") from None
    keys = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    if not keys:
        raise HttpFailed("a JSON Web Key Set without keys")
    return keys
