"""The delegation tokens in a broker's memory, and the data to authenticate clients with them.

A client authenticates by SCRAM with the token id as its name, the HMAC in base64 as its password,
and the extension ``tokenauth=true``.  Its principal is then the owner of the token.

Source: Kafka ``DelegationTokenCache``, ``ScramServerCallbackHandler``,
``DelegationTokenManager.prepareScramCredentials`` (KIP-48).
"""

from __future__ import annotations

import base64
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from kafka_common.protocol.delegation_tokens import DelegationTokenConfig
from kafka_common.protocol.scram import (
    MECHANISMS,
    MIN_ITERATIONS,
    ScramCredential,
    salt_password,
)
from zkcontroller.zookeeper.delegation_token_znodes import DelegationTokenZnode

_SALT_BYTES: Final = 20


def token_settings(values: Mapping[str, object]) -> DelegationTokenConfig:
    """The keys ``delegation.token.*`` of a configuration.

    Without ``delegation.token.secret.key``, ``delegation.token.master.key`` is the secret.
    """
    secret = values["delegation.token.secret.key"] or values["delegation.token.master.key"]
    return DelegationTokenConfig(
        str(secret) if secret else None,
        int(str(values["delegation.token.max.lifetime.ms"])),
        int(str(values["delegation.token.expiry.time.ms"])),
    )


class TokenLogin(NamedTuple):
    """The data to authenticate a client with a token."""

    owner_name: str
    credential: ScramCredential
    lifetime_ms: int
    """The longest session in ms, until the token expires; 0 or less for an expired token."""


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A delegation token with its HMAC."""

    znode: DelegationTokenZnode
    hmac: bytes = field(repr=False)
    credentials: dict[str, ScramCredential] = field(default_factory=dict, repr=False)
    """SCRAM credentials by mechanism, made when first needed: each takes some milliseconds."""

    def credential(self, mechanism_name: str) -> ScramCredential:
        """The SCRAM credential of the token, whose password is the HMAC."""
        if mechanism_name not in self.credentials:
            mechanism = MECHANISMS[mechanism_name]
            salt = secrets.token_bytes(_SALT_BYTES)
            password = base64.b64encode(self.hmac).decode()
            salted = salt_password(mechanism, password, salt, MIN_ITERATIONS)
            self.credentials[mechanism_name] = ScramCredential.of_salted_password(
                mechanism, salt, salted, MIN_ITERATIONS
            )
        return self.credentials[mechanism_name]


class DelegationTokens:
    """All delegation tokens.  ``known`` is replaced, never changed, so any thread may read it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms``: the system clock in ms since 1970, with later changes of the clock."""
        self._now_ms = now_ms
        self.known: Mapping[str, KnownToken] = {}
        """The tokens by token id."""

    def by_hmac(self, hmac: bytes) -> KnownToken | None:
        """The token with the HMAC, None if there is none."""
        return next((token for token in self.known.values() if token.hmac == hmac), None)

    def login(self, mechanism_name: str, token_id: str) -> TokenLogin | None:
        """The data to authenticate a client with the token; None if there is no such token."""
        token = self.known.get(token_id)
        if token is None:
            return None
        _, _, owner_name = token.znode.owner.partition(":")
        lifetime_ms = token.znode.expiry_timestamp - self._now_ms()
        return TokenLogin(owner_name, token.credential(mechanism_name), lifetime_ms)
