"""The token that a client of SASL/OAUTHBEARER shows, from a file or a token endpoint (KIP-768).

A token endpoint issues it for the client's own id and secret.

Source: Kafka ``OAuthBearerLoginCallbackHandler``, ``HttpAccessTokenRetriever``,
``FileTokenRetriever``, ``ExpiringCredentialRefreshingLogin``.
"""

from __future__ import annotations

import base64
import ssl
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote_plus

import orjson

from kafka_common.errors import ConfigInvalid, SaslRefused
from kafka_common.wall_time import wall_time_ms
from replica_manager.regular_files import read_configured
from replica_manager.security.oauth_http import (
    MOST_BYTES,
    HttpFailed,
    Retries,
    fetched,
    file_of,
)

SHOWN_FOR: Final = 0.8
"""The share of its life for which a token is shown; then another one is fetched."""
_ID, _SECRET, _SCOPE = "clientId", "clientSecret", "scope"


class FileTokens:
    """Reads the token anew for each login, so that it can be replaced."""

    def __init__(self, path: str) -> None:
        self._path = path

    def token(self) -> str:
        """The token; SaslRefused if the file cannot be read."""
        try:
            return read_configured(Path(self._path), MOST_BYTES).decode().strip()
        except (OSError, ValueError) as error:
            raise SaslRefused(f"no token in {self._path}: {error}") from None


class EndpointTokens:
    """Fetches a token by the OAuth grant ``client_credentials``.  For any thread."""

    def __init__(
        self,
        key: str,
        url: str,
        options: Mapping[str, str],
        retries: Retries,
        tls: ssl.SSLContext | None,
    ) -> None:
        """Fetches nothing.  ConfigInvalid, with the ``key`` of the options, if one is missing."""
        for name in (_ID, _SECRET):
            if not options.get(name, "").strip():
                raise ConfigInvalid(key, "[hidden]", f"{_ID} and {_SECRET}, for the token endpoint")
        self._url = url
        self._retries = retries
        self._tls = tls
        text = f"{options[_ID].strip()}:{options[_SECRET].strip()}"
        self._authorization = f"Basic {base64.b64encode(text.encode()).decode()}"
        scope = options.get(_SCOPE, "").strip()
        self._body = "grant_type=client_credentials" + (f"&scope={quote_plus(scope)}" * bool(scope))
        self._fetching = threading.Lock()
        self._token = ""
        self._until_ms = 0

    def token(self) -> str:
        """A token that is valid for a while; SaslRefused if none comes.  Blocks."""
        with self._fetching:
            now_ms = wall_time_ms()
            if now_ms >= self._until_ms:
                self._token = self._fetched()
                self._until_ms = _shown_until_ms(self._token, now_ms)
            return self._token

    def _fetched(self) -> str:
        try:
            response = fetched(
                self._url,
                self._retries,
                self._tls,
                body=self._body.encode(),
                authorization=self._authorization,
            )
            token = orjson.loads(response)["access_token"]
        except HttpFailed as failed:
            raise SaslRefused(f"no token from {self._url}: {failed}") from None
        except (orjson.JSONDecodeError, KeyError, TypeError):
            token = None
        if not isinstance(token, str) or not token.strip():
            raise SaslRefused(f"no token from {self._url}: its response has no access_token")
        return token.strip()


def _shown_until_ms(token: str, now_ms: int) -> int:
    """How long the token is shown; not beyond this login if it does not say when it ends."""
    import jwt  # as late as oauth_signed_tokens does

    try:
        claims = jwt.decode(token, options={"verify_signature": False})
        return now_ms + int(max(claims["exp"] * 1000 - now_ms, 0) * SHOWN_FOR)
    except (jwt.PyJWTError, KeyError, TypeError):
        return now_ms


def token_source(
    key: str,
    url_key: str,
    url: str | None,
    options: Mapping[str, str],
    retries: Retries,
    tls: ssl.SSLContext | None,
) -> FileTokens | EndpointTokens:
    """The source of tokens at ``url``; ConfigInvalid if it or an option is invalid."""
    path = file_of(url_key, url)
    if path is not None:
        return FileTokens(path)
    assert url is not None
    return EndpointTokens(key, url, options, retries, tls)
