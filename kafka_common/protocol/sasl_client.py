"""The client's side of SASL, message by message.  Pure; the nonce is an argument.

Source: Kafka ``PlainSaslClient``, ``ScramSaslClient``, ``OAuthBearerSaslClient``.
"""

from __future__ import annotations

import hmac
from typing import Protocol

from kafka_common.errors import SaslRefused
from kafka_common.protocol import scram
from kafka_common.protocol.oauthbearer import ERROR_RECEIVED, ClientInitialResponse
from kafka_common.protocol.scram import MAX_CLIENT_ITERATIONS, MIN_ITERATIONS, ScramMechanism


class SaslClient(Protocol):
    """One login.

    ``is_complete`` becomes true with the first message of PLAIN, in SCRAM when the server's
    signature was verified, and in OAUTHBEARER when the server has accepted the token.
    """

    is_complete: bool

    def first(self) -> bytes:
        """The first message of the client."""

    def step(self, challenge: bytes) -> bytes:
        """The client's next message; SaslRefused if the server's ``challenge`` is invalid.

        Computing it may take some milliseconds.
        """


class PlainClient:
    """PLAIN: sends name and password as they are."""

    def __init__(self, username: str, password: str) -> None:
        self.is_complete = False
        self._message = b"\0" + username.encode() + b"\0" + password.encode()

    def first(self) -> bytes:
        """The client's only message: name and password."""
        self.is_complete = True
        return self._message

    def step(self, _challenge: bytes) -> bytes:
        """Raises SaslRefused: PLAIN has one message only."""
        raise SaslRefused("the server asks on after PLAIN")


class ScramClient:
    """SCRAM: client and server prove to each other that they know the credential."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        username: str,
        password: str,
        nonce: str,
        *,
        is_token: bool = False,
    ) -> None:
        self.is_complete = False
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._first_bare = scram.client_first_bare(username, nonce, is_token=is_token)
        self._expected_signature: bytes | None = None

    def first(self) -> bytes:
        """The client's first message: its name and its nonce."""
        return f"n,,{self._first_bare}".encode()

    def step(self, challenge: bytes) -> bytes:
        """The client's proof; on the second call empty bytes, if the signature is valid."""
        if self._expected_signature is None:
            return self._proof(challenge)
        signature = scram.decode_server_final(challenge)
        if not hmac.compare_digest(signature, self._expected_signature):
            raise SaslRefused("the server does not know this user's credential")
        self.is_complete = True
        return b""

    def _proof(self, challenge: bytes) -> bytes:
        server_first = scram.ServerFirst.decode(challenge)
        nonce, salt, iterations = server_first
        if not nonce.startswith(self._nonce):
            raise SaslRefused("the server's nonce does not begin with the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
            raise SaslRefused(
                f"{iterations} iterations, at least {MIN_ITERATIONS} and at most "
                f"{MAX_CLIENT_ITERATIONS} are accepted"
            )
        salted = scram.salt_password(self._mechanism, self._password, salt, iterations)
        # "biws" is "n,,": no channel binding.
        without_proof = f"c=biws,r={nonce}"
        auth_message = f"{self._first_bare},{server_first.encode()},{without_proof}"
        self._expected_signature = scram.server_signature(
            self._mechanism, scram.server_key_of(self._mechanism, salted), auth_message
        )
        return scram.client_final(
            without_proof, scram.client_proof(self._mechanism, salted, auth_message)
        )


class OAuthBearerClient:
    """OAUTHBEARER: shows a token."""

    def __init__(self, response: ClientInitialResponse) -> None:
        self.is_complete = False
        self._message = response.encode()

    def first(self) -> bytes:
        """The token, with its extensions."""
        return self._message

    def step(self, challenge: bytes) -> bytes:
        """Empty bytes if the token was accepted; else the answer that lets the server refuse."""
        if challenge:
            return ERROR_RECEIVED
        self.is_complete = True
        return b""
