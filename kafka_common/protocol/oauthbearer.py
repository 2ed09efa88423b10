"""The messages of SASL/OAUTHBEARER (KIP-255, RFC 7628).  Pure.

The client sends a token, and the server's response is empty.  If the server does not accept the
token, its response is a JSON text instead; the client acknowledges it with ``ERROR_RECEIVED``, and
only then the server reports the failed authentication.

Source: Kafka ``OAuthBearerClientInitialResponse``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from kafka_common.errors import SaslRefused

OAUTHBEARER: Final = "OAUTHBEARER"
ERROR_RECEIVED: Final = b"\x01"

_SEPARATOR: Final = "\x01"
_KEY: Final = "[A-Za-z]+"
_VALUE: Final = r"[\x21-\x7E \t\r\n]+"
_MESSAGE: Final = re.compile(
    r"n,(?:a=(?P<name>(?:[\x01-\x2B\x2D-\x3C\x3E-\x7F]|=2C|=3D)+))?,\x01"
    rf"(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01"
)
_AUTH: Final = re.compile(r"(?P<scheme>[A-Za-z0-9_]+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)")
_EXTENSION_KEY: Final = re.compile(_KEY)
_EXTENSION_VALUE: Final = re.compile(_VALUE)
_INVALID: Final = "Invalid OAUTHBEARER client first message"


class ClientInitialResponse(NamedTuple):
    """The client's first message: a token, and extensions that some servers expect."""

    token: str
    authorization_id: str = ""
    """Whom the client wants to be; empty for the token's principal."""
    extensions: Mapping[str, str] = {}

    def encode(self) -> bytes:
        """The message; SaslRefused if an extension has an invalid name or value."""
        _check_extensions(self.extensions)
        name = f"a={self.authorization_id}" if self.authorization_id else ""
        pairs = {"auth": f"Bearer {self.token}", **self.extensions}
        text = "".join(f"{key}={pairs[key]}{_SEPARATOR}" for key in pairs)
        return f"n,{name},{_SEPARATOR}{text}{_SEPARATOR}".encode()

    @classmethod
    def decode(cls, data: bytes) -> ClientInitialResponse:
        """The message in ``data``; SaslRefused if it is not valid."""
        message = _MESSAGE.fullmatch(data.decode("utf-8", "replace"))
        if message is None:
            raise SaslRefused(_INVALID)
        pairs = dict(pair.split("=", 1) for pair in message["pairs"].split(_SEPARATOR) if pair)
        auth = pairs.pop("auth", None)
        if auth is None:
            raise SaslRefused(f"{_INVALID}: 'auth' not specified")
        matched = _AUTH.fullmatch(auth)
        if matched is None:
            raise SaslRefused(f"{_INVALID}: invalid 'auth' format")
        if matched["scheme"].lower() != "bearer":
            raise SaslRefused(f"{_INVALID}: a scheme other than Bearer")
        return cls(matched["token"], message["name"] or "", pairs)


def _check_extensions(extensions: Mapping[str, str]) -> None:
    for key, value in extensions.items():
        if key == "auth" or _EXTENSION_KEY.fullmatch(key) is None:
            raise SaslRefused(f"Extension name {key} is invalid")
        if _EXTENSION_VALUE.fullmatch(value) is None:
            raise SaslRefused(f"The value of extension {key} is invalid")
