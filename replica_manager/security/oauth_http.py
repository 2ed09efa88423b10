"""Reads over HTTP what OAUTHBEARER needs: the keys of an issuer, and tokens of a token endpoint.

Source: Kafka ``HttpAccessTokenRetriever``, ``Retry``, ``ConfigurationUtils`` (KIP-768).
"""

from __future__ import annotations

import ssl
import time
from http.client import HTTPException
from typing import Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit
from urllib.request import (
    BaseHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    Request,
    build_opener,
)

from typing_extensions import override

from kafka_common.errors import ConfigInvalid, ZkControllerError

MOST_BYTES: Final = 1_000_000
"""The longest response, or file in its place, that is read."""
DEFAULT_TIMEOUT_S: Final = 10.0
_NOT_RETRIED: Final = frozenset({
    400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505,
})  # fmt: skip
"""Responses with these HTTP codes will not become better."""


class HttpFailed(ZkControllerError):
    """The response could not be read, or is not what was expected."""


class Retries(NamedTuple):
    """How often a request is repeated: after pauses that double, within ``max_s`` altogether."""

    backoff_s: float
    max_s: float
    timeout_s: float = DEFAULT_TIMEOUT_S
    """The longest wait for a response."""

    def once(self) -> Retries:
        """The same without a repetition."""
        return self._replace(max_s=0.0)


class _NoRedirection(HTTPRedirectHandler):
    @override
    def redirect_request(self, *_: object) -> None:
        """None: the response counts as an error."""


def file_of(key: str, url: str | None) -> str | None:
    """The path in an address ``file:``, None for HTTP; ConfigInvalid for any other address."""
    parts = urlsplit((url or "").strip())
    if parts.scheme == "file":
        return unquote(parts.path)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigInvalid(key, url, "an address that begins with http://, https:// or file:/")
    return None


def fetched(
    url: str,
    retries: Retries,
    tls: ssl.SSLContext | None = None,
    *,
    body: bytes | None = None,
    authorization: str | None = None,
) -> bytes:
    """The body of the response to a GET, or with a ``body`` to a POST.  Blocks.

    HttpFailed, without secrets, if no response of at most ``MOST_BYTES`` came.  With an
    ``authorization`` no redirection is followed: the secret is for this address.
    """
    headers = {"Accept": "application/json", "Cache-Control": "no-cache"}
    handlers: list[BaseHandler] = [HTTPSHandler(context=tls)]
    if authorization is not None:
        headers["Authorization"] = authorization
        handlers.append(_NoRedirection())
    opener = build_opener(*handlers)
    end_s = time.monotonic() + retries.max_s
    pause_s = retries.backoff_s
    while True:
        try:
            request = Request(url, body, headers)
            with opener.open(request, timeout=retries.timeout_s) as response:
                data: bytes = response.read(MOST_BYTES + 1)
        except HTTPError as error:
            error.close()
            reason = f"HTTP response {error.code}"
            if error.code in _NOT_RETRIED:
                raise HttpFailed(reason) from None
        except (OSError, ValueError, HTTPException) as error:
            # Not kept as an exception: it would keep this frame, and with it all callers' objects.
            reason = str(error)
        else:
            if len(data) > MOST_BYTES:
                raise HttpFailed(f"a response of more than {MOST_BYTES} bytes")
            return data
        if time.monotonic() + pause_s > end_s:
            raise HttpFailed(reason) from None
        time.sleep(pause_s)
        pause_s *= 2
