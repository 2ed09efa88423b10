"""Secures a connection to a broker: TLS, then SASL, each if the listener requires it.

Source: Kafka ``SslChannelBuilder``, ``SaslChannelBuilder``, ``SaslClientAuthenticator``.
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.errors import SaslRefused
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.error_codes import error_name
from kafka_common.protocol.messages import read_response, request_type, write
from kafka_common.protocol.oauthbearer import OAUTHBEARER, ClientInitialResponse
from kafka_common.protocol.sasl_client import (
    OAuthBearerClient,
    PlainClient,
    SaslClient,
    ScramClient,
)
from kafka_common.protocol.scram import MECHANISMS

PLAIN: Final = "PLAIN"
SUPPORTED_MECHANISMS: Final = (PLAIN, *MECHANISMS, OAUTHBEARER)
MAX_ROUNDS: Final = 8
"""The most SaslAuthenticate requests of one login; no mechanism here needs more than three."""

RELOGIN_AT: Final = 0.85
"""The share of a SASL session's lifetime after which it is renewed; Kafka: 0.85 to 0.95."""

_HANDSHAKE_VERSION: Final = 1
_AUTHENTICATE_VERSION: Final = 1
Call: TypeAlias = Callable[[int, int, tuple[bytes, ...]], Awaitable[bytes]]
"""Sends (api key, version, body) and returns the body of the response."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """SASL mechanism, name and password of a login."""

    mechanism: str
    username: str
    password: str = field(repr=False)
    is_token: bool = False
    """Whether the name is the id of a delegation token, and the password its HMAC (KIP-48)."""

    @property
    def subject(self) -> str:
        """Who logs in, for an error text."""
        return f"user {self.username}"

    def client(self) -> SaslClient:
        """The client's side of one login."""
        if self.mechanism == PLAIN:
            return PlainClient(self.username, self.password)
        return ScramClient(
            MECHANISMS[self.mechanism],
            self.username,
            self.password,
            secrets.token_urlsafe(24),
            is_token=self.is_token,
        )


@dataclass(frozen=True, slots=True)
class OAuthBearerCredentials:
    """What a login by SASL/OAUTHBEARER shows: a token."""

    mechanism: ClassVar[str] = OAUTHBEARER
    token: Callable[[], str]
    """Makes or fetches the token for one login; raises SaslRefused.  May block."""
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def subject(self) -> str:
        """Who logs in, for an error text."""
        return "a token"

    def client(self) -> SaslClient:
        """The client's side of one login; SaslRefused if there is no token.  May block."""
        return OAuthBearerClient(ClientInitialResponse(self.token(), extensions=self.extensions))

    def check(self) -> None:
        """Raises SaslRefused if the extensions are invalid."""
        ClientInitialResponse("", extensions=self.extensions).encode()


AnyCredentials: TypeAlias = Credentials | OAuthBearerCredentials


@dataclass(slots=True, eq=False)
class ClientSecurity:
    """The TLS and SASL that a listener requires of a client; None where it requires none."""

    tls: ssl.SSLContext | None = None
    """The TLS context; it may be replaced, and later connections use the new one."""
    credentials: AnyCredentials | None = None

    @property
    def protocol(self) -> str:
        """The ``security.protocol`` of such a listener."""
        transport = "PLAINTEXT" if self.tls is None else "SSL"
        return transport if self.credentials is None else f"SASL_{transport}"


PLAINTEXT: Final = ClientSecurity()


class LoginRefused(ConnectionError):
    """The broker refuses the login, or cannot prove that it knows the credential."""


async def log_in(credentials: AnyCredentials, peer: str, call: Call) -> float | None:
    """Logs in over ``call``; returns the session's lifetime in seconds, None if unlimited.

    Raises LoginRefused if the broker refuses, or cannot prove that it knows the credential.
    """
    handshake: Any = request_type(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION)
    body = write(handshake(mechanism=credentials.mechanism))
    response: Any = read_response(
        ApiKey.SASL_HANDSHAKE,
        _HANDSHAKE_VERSION,
        await call(ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, (body,)),
    )
    if response.error_code is not ErrorCode.none:
        raise LoginRefused(
            f"{peer} does not log in by {credentials.mechanism} "
            f"({error_name(response.error_code.value)}), but by: {', '.join(response.mechanisms)}"
        )
    try:
        client = await asyncio.to_thread(credentials.client)
        token = client.first()
        for _ in range(MAX_ROUNDS):
            challenge, lifetime_s = await _authenticate(token, credentials, peer, call)
            if client.is_complete:
                return lifetime_s
            # Compute the token in another thread, because salting a password takes milliseconds.
            token = await asyncio.to_thread(client.step, challenge)
            if client.is_complete and not token:
                return lifetime_s
    except SaslRefused as refused:
        raise LoginRefused(f"the login at {peer} failed: {refused}") from None
    raise LoginRefused(f"the login at {peer} came to no end")


async def _authenticate(
    token: bytes, credentials: AnyCredentials, peer: str, call: Call
) -> tuple[bytes, float | None]:
    request: Any = request_type(ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION)
    response: Any = read_response(
        ApiKey.SASL_AUTHENTICATE,
        _AUTHENTICATE_VERSION,
        await call(
            ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, (write(request(auth_bytes=token)),)
        ),
    )
    if response.error_code is not ErrorCode.none:
        raise LoginRefused(
            f"{peer} refuses {credentials.subject}: {response.error_message or ''} "
            f"({error_name(response.error_code.value)})"
        )
    lifetime_s: float = response.session_lifetime.total_seconds()
    return response.auth_bytes, lifetime_s or None
