"""The client's side of SASL DIGEST-MD5, ZooKeeper's login with name and password.  Pure.

DIGEST-MD5 is the only SASL mechanism of ZooKeeper besides Kerberos.  It does not send the password,
but an attacker who records a login can find a weak password by trying.  Use TLS to protect it.

Source: RFC 2831; ZooKeeper 3.9 ``SecurityUtils.createSaslClient``.
"""

from __future__ import annotations

import hmac
import re
from hashlib import md5
from typing import Final

from kafka_common.errors import SaslRefused

MAX_CHALLENGE_BYTES: Final = 2048
"""The largest challenge, as in RFC 2831."""
ZOOKEEPER_URI: Final = "zookeeper/zk-sasl-md5"
"""The digest-uri that every ZooKeeper server has, independent of its host name."""
_FIRST: Final = "00000001"
_DIRECTIVE: Final = re.compile(
    r'[\s,]*([a-zA-Z0-9-]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]*))', re.DOTALL
)


class DigestMd5Login:
    """One login; ``is_complete`` becomes true when the server has sent a valid proof."""

    def __init__(
        self, username: str, password: str, cnonce: str, digest_uri: str = ZOOKEEPER_URI
    ) -> None:
        """``cnonce``: random text, never used before."""
        self.is_complete = False
        self._username = username
        self._password = password
        self._cnonce = cnonce
        self._digest_uri = digest_uri
        self._expected_proof: str | None = None

    def first(self) -> bytes:
        """An empty message, because the server sends the first challenge."""
        return b""

    def step(self, challenge: bytes) -> bytes:
        """The client's proof; on the second call empty bytes, if the server's proof is valid.

        Raises SaslRefused for an invalid challenge or proof.
        """
        said = _directives(challenge)
        if self._expected_proof is None:
            return self._proof(said)
        if not hmac.compare_digest(said.get("rspauth", "").encode(), self._expected_proof.encode()):
            raise SaslRefused("the server does not know this user's password")
        self.is_complete = True
        return b""

    def _proof(self, said: dict[str, str]) -> bytes:
        realm, nonce = said.get("realm", ""), said.get("nonce")
        if not nonce or said.get("algorithm", "md5-sess") != "md5-sess":
            raise SaslRefused("the server's challenge is not one of DIGEST-MD5")
        if "auth" not in said.get("qop", "auth").split(","):
            raise SaslRefused("the server asks for more than authentication")
        secret = md5(b":".join(map(_latin_1, (self._username, realm, self._password)))).digest()
        session_key = _hex(secret + f":{nonce}:{self._cnonce}".encode())

        def proof(method: str) -> str:
            what = _hex(f"{method}:{self._digest_uri}".encode())
            words = (session_key, nonce, _FIRST, self._cnonce, "auth", what)
            return _hex(":".join(words).encode())

        self._expected_proof = proof("")
        return ",".join(
            (
                "charset=utf-8",
                f'username="{_quoted(self._username)}"',
                f'realm="{_quoted(realm)}"',
                f'nonce="{_quoted(nonce)}"',
                f"nc={_FIRST}",
                f'cnonce="{self._cnonce}"',
                f'digest-uri="{self._digest_uri}"',
                "maxbuf=65536",
                f"response={proof('AUTHENTICATE')}",
                "qop=auth",
            )
        ).encode()


def _directives(challenge: bytes) -> dict[str, str]:
    if len(challenge) > MAX_CHALLENGE_BYTES:
        raise SaslRefused(f"a challenge of {len(challenge)} bytes")
    try:
        text = challenge.decode()
    except UnicodeDecodeError:
        raise SaslRefused("a challenge that is no text") from None
    return {
        match[1].lower(): re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
        for match in _DIRECTIVE.finditer(text)
    }


def _latin_1(text: str) -> bytes:
    """The text in ISO 8859-1 if that has all its characters, otherwise in UTF-8 (RFC 2831)."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        return text.encode()


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _hex(data: bytes) -> str:
    return md5(data).hexdigest()
