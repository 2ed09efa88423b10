"""An issuer of signed tokens: its keys, their public halves as a key set, and an HTTP server."""

from __future__ import annotations

import json
import threading
import time
import warnings
from base64 import b64decode, urlsafe_b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from jwt.warnings import InsecureKeyLengthWarning
from typing_extensions import override

ISSUER: Final = "https://issuer.example.org"
AUDIENCE: Final = "kafka"
SECRET: Final = b"a secret that both sides share, long enough for SHA-256"
HOUR_S: Final = 3_600


class TokenIssuer:
    """Keys of several kinds by key id; ``unknown`` is in no key set."""

    def __init__(self) -> None:
        self.keys: dict[str, tuple[str, Any]] = {
            "rsa": ("RS256", rsa.generate_private_key(65537, 2048)),
            "short": ("RS256", rsa.generate_private_key(65537, 1024)),
            "ec": ("ES256", ec.generate_private_key(ec.SECP256R1())),
            "shared": ("HS256", SECRET),
            "unknown": ("RS256", rsa.generate_private_key(65537, 2048)),
        }
        self.published = ["rsa", "short", "ec", "shared"]

    def key_set(self) -> dict[str, object]:
        """The JSON Web Key Set of the published keys."""
        return {"keys": [{**self._public(each), "kid": each} for each in self.published]}

    def _public(self, key_id: str) -> dict[str, Any]:
        key: Any = self.keys[key_id][1]
        if isinstance(key, bytes):
            return {"kty": "oct", "k": urlsafe_b64encode(key).decode().rstrip("=")}
        kind = RSAAlgorithm if isinstance(key, rsa.RSAPrivateKey) else ECAlgorithm
        return dict(kind.to_jwk(key.public_key(), as_dict=True))

    def claims(self, **others: object) -> dict[str, object]:
        """The claims of a valid token, with some of them changed; None leaves one out."""
        now_s = int(time.time())
        known = {
            "sub": "alice", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s, "exp": now_s + HOUR_S,
            **others,
        }  # fmt: skip
        return {name: value for name, value in known.items() if value is not None}

    def token(
        self,
        key_id: str = "rsa",
        algorithm: str | None = None,
        *,
        headers: Mapping[str, object] | None = None,
        **others: object,
    ) -> str:
        """A token with the changed claims, signed by that key, which its header names."""
        usual, key = self.keys[key_id]
        named = {"kid": key_id, **(headers or {})}
        kept = {name: value for name, value in named.items() if value is not None}
        with warnings.catch_warnings(action="ignore", category=InsecureKeyLengthWarning):
            return jwt.encode(self.claims(**others), key, algorithm or usual, kept)


class IssuerServer(ThreadingHTTPServer):
    """Serves ``/keys``, and tokens at ``/token`` to client ``kafka`` with the secret ``s+cret``."""

    daemon_threads = True

    def __init__(self, issuer: TokenIssuer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.issuer = issuer
        self.failures: list[int] = []
        """HTTP codes of the next responses."""
        self.requests: list[str] = []
        """Paths that were asked for, with the scope for tokens."""

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.server_port}{path}"


class _Handler(BaseHTTPRequestHandler):
    server: IssuerServer

    def do_GET(self) -> None:
        self.server.requests.append(self.path)
        self._respond(200, self.server.issuer.key_set())

    def do_POST(self) -> None:
        body = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        self.server.requests.append(f"{self.path} {' '.join(body.get('scope', []))}".strip())
        given = b64decode(self.headers["Authorization"].removeprefix("Basic "))
        if self.path == "/moved":
            self._respond(302, {}, Location="/token")
        elif given != b"kafka:s+cret" or body["grant_type"] != ["client_credentials"]:
            self._respond(401, {"error": "invalid_client"})
        else:
            self._respond(200, {"access_token": self.server.issuer.token(sub="broker")})

    def _respond(self, code: int, body: object, **headers: str) -> None:
        if self.server.failures:
            code = self.server.failures.pop(0)
        data = json.dumps(body).encode()
        self.send_response(code)
        for name, value in {"Content-Length": str(len(data)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    @override
    def log_message(self, *_: object) -> None:
        """Nothing: a test prints no line for each request."""


@contextmanager
def issuer_server(issuer: TokenIssuer) -> Iterator[IssuerServer]:
    """A running server on loopback."""
    with IssuerServer(issuer) as server:
        serving = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        serving.start()
        try:
            yield server
        finally:
            server.shutdown()
            serving.join()
