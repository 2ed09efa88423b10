"""The server's side of PLAIN, SCRAM and OAUTHBEARER, token by token.

Pure: nonces and clocks are passed as arguments.

A failure has two texts: one for the client, and the reason for the broker's log.  Neither shows a
user name, a password or a key.

Source: Kafka ``PlainSaslServer``, ``PlainServerCallbackHandler``, ``ScramSaslServer``,
``ScramServerCallbackHandler``, ``OAuthBearerSaslServer``.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping
from typing import Final, Protocol

from kafka_common.errors import SaslRefused, one_line
from kafka_common.protocol import scram
from kafka_common.protocol.oauthbearer import ERROR_RECEIVED, OAUTHBEARER, ClientInitialResponse
from kafka_common.protocol.scram import MIN_ITERATIONS, ScramCredential, ScramMechanism
from replica_manager.security.delegation_tokens import TokenLogin
from replica_manager.security.oauth_tokens import IllegalToken, OAuthBearerToken

PLAIN = "PLAIN"
MAX_LIFETIME_MS: Final = 86_400_000 * 365_000
"""The longest session, a thousand years: a later end of a token has no effect."""
_oauth_log = logging.getLogger(
    "org.apache.kafka.common.security.oauthbearer.internals.OAuthBearerSaslServer"
)


class LoginFailed(SaslRefused):
    """Authentication failed.

    ``client_text`` is the error text for the client; None for the general text.
    """

    def __init__(self, reason: str, *, client_text: str | None = None) -> None:
        super().__init__(reason)
        self.client_text = client_text


class SaslServer(Protocol):
    """The server's state of one authentication."""

    mechanism_name: str
    username: str | None
    """The authenticated user; None until authentication is complete."""
    is_token: bool
    """Whether the client uses a delegation token; ``username`` is then the token's owner."""
    lifetime_ms: int | None
    """The longest session in ms, until the token expires; None without a token.

    Such a token is a delegation token or one of OAUTHBEARER.
    """

    def step(self, token: bytes) -> bytes:
        """Handles a client's token; returns the server's, or raises LoginFailed or SaslRefused."""


class PlainServer:
    """PLAIN: compares the password with option ``user_<name>`` of the listener's JAAS entry."""

    mechanism_name = PLAIN
    is_token = False
    lifetime_ms: int | None = None

    def __init__(self, passwords: Mapping[str, str]) -> None:
        self.username: str | None = None
        self._passwords = passwords

    def step(self, token: bytes) -> bytes:
        """Returns an empty token if the password is correct, else raises LoginFailed."""
        tokens = token.decode("utf-8", "replace").split("\0")
        if len(tokens) != 3:
            raise _refused(
                f"Invalid SASL/PLAIN response: expected 3 tokens, got {min(len(tokens), 4)}"
            )
        authorization_id, username, password = tokens
        if not username:
            raise _refused("Authentication failed: username not specified")
        if not password:
            raise _refused("Authentication failed: password not specified")
        expected = self._passwords.get(username)
        # The comparison takes the same time for an unknown user.
        is_right = hmac.compare_digest(password.encode(), (expected or "").encode())
        if expected is None or not is_right:
            raise _refused("Authentication failed: Invalid username or password")
        _check_authorization_id(authorization_id, username)
        self.username = username
        return b""


class ScramServer:
    """SCRAM: sends salt and nonce, verifies the client's proof, sends the server's signature."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credential_of: Callable[[str], ScramCredential | None],
        nonce: str,
        token_of: Callable[[str], TokenLogin | None] = lambda _: None,
    ) -> None:
        """``token_of`` returns the login data of a delegation token by its id."""
        self.mechanism_name = mechanism.mechanism_name
        self.username: str | None = None
        self.is_token = False
        self.lifetime_ms: int | None = None
        self._token_of = token_of
        self._name = ""
        self._mechanism = mechanism
        self._credential_of = credential_of
        self._server_nonce = nonce
        self._exchange: tuple[scram.ClientFirst, ScramCredential, scram.ServerFirst] | None = None

    def step(self, token: bytes) -> bytes:
        """Returns the server's first message, then its final message."""
        if self._exchange is None:
            return self._first(scram.ClientFirst.decode(token))
        return self._final(*self._exchange, scram.ClientFinal.decode(token))

    def _first(self, client_first: scram.ClientFirst) -> bytes:
        credential = self._credential(client_first)
        if credential is None:
            raise LoginFailed("Authentication failed: Invalid user credentials")
        _check_authorization_id(client_first.authorization_id, client_first.username)
        if credential.iterations < MIN_ITERATIONS:
            raise LoginFailed(
                f"Iterations {credential.iterations} is less than the minimum {MIN_ITERATIONS} "
                f"for {self.mechanism_name}"
            )
        server_first = scram.ServerFirst(
            client_first.nonce + self._server_nonce, credential.salt, credential.iterations
        )
        self._exchange = client_first, credential, server_first
        return server_first.encode().encode()

    def _credential(self, client_first: scram.ClientFirst) -> ScramCredential | None:
        self._name = client_first.username
        if not client_first.is_token:
            return self._credential_of(client_first.username)
        token = self._token_of(client_first.username)
        if token is None:
            raise LoginFailed("Token Authentication failed: Invalid tokenId")
        self._name, self.lifetime_ms = token.owner_name, token.lifetime_ms
        self.is_token = True
        return token.credential

    def _final(
        self,
        client_first: scram.ClientFirst,
        credential: ScramCredential,
        server_first: scram.ServerFirst,
        client_final: scram.ClientFinal,
    ) -> bytes:
        # librdkafka before 2.7 sends the client nonce twice, which Kafka accepts.
        if not client_final.nonce.endswith(server_first.nonce):
            raise LoginFailed("Invalid client nonce in the final client message.")
        auth_message = f"{client_first.bare},{server_first.encode()},{client_final.without_proof}"
        if not scram.is_proof(self._mechanism, credential, auth_message, client_final.proof):
            raise LoginFailed("Invalid client credentials")
        self.username = self._name
        return scram.server_final(
            scram.server_signature(self._mechanism, credential.server_key, auth_message)
        )


class OAuthBearerServer:
    """OAUTHBEARER: the client shows a token, which names the user and expires."""

    mechanism_name = OAUTHBEARER
    is_token = False

    def __init__(
        self, validate: Callable[[str], OAuthBearerToken], now_ms: Callable[[], int]
    ) -> None:
        """``validate`` raises IllegalToken.  ``now_ms``: the system clock in ms since 1970."""
        self.username: str | None = None
        self.lifetime_ms: int | None = None
        self._validate = validate
        self._now_ms = now_ms
        self._error: str | None = None

    def step(self, token: bytes) -> bytes:
        """Returns an empty token if the client's is valid, else an error text in JSON.

        Raises LoginFailed when the client has received that text.
        """
        if self._error is not None and token == ERROR_RECEIVED:
            raise _refused(self._error)
        self._error = None
        response = ClientInitialResponse.decode(token)
        try:
            valid = self._validate(response.token)
        except IllegalToken as illegal:
            self._error = _error_text(illegal)
            _oauth_log.debug("%s: %s", self._error, illegal)
            return self._error.encode()
        name = valid.principal_name
        if response.authorization_id not in ("", name):
            text = (
                "Authentication failed: Client requested an authorization id "
                f"({response.authorization_id}) that is different from the token's principal name "
                f"({name})"
            )
            raise LoginFailed(one_line(text), client_text=text)
        self.username = name
        self.lifetime_ms = min(valid.expires_at_ms - self._now_ms(), MAX_LIFETIME_MS)
        return b""


def _error_text(illegal: IllegalToken) -> str:
    if illegal.scope is None:
        return '{"status":"invalid_token"}'
    return f'{{"status":"insufficient_scope", "scope":"{illegal.scope}"}}'


def _refused(text: str) -> LoginFailed:
    return LoginFailed(text, client_text=text)


def _check_authorization_id(authorization_id: str, username: str) -> None:
    if authorization_id not in ("", username):
        raise _refused(
            "Authentication failed: Client requested an authorization id that is different from "
            "username"
        )
