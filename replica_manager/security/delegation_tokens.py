"""The delegation tokens that a broker knows, and logins with them.

A client logs in by SCRAM with the token's id as its name, the HMAC in base64 as its password, and
the extension ``tokenauth=true``; it is then the owner of the token.

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
    """``delegation.token.…`` of a configuration; the secret's old name counts where it has none."""
    secret = values["delegation.token.secret.key"] or values["delegation.token.master.key"]
    return DelegationTokenConfig(
        str(secret) if secret else None,
        int(str(values["delegation.token.max.lifetime.ms"])),
        int(str(values["delegation.token.expiry.time.ms"])),
    )


class TokenLogin(NamedTuple):
    """The data for verifying a login with a token."""

    owner_name: str
    credential: ScramCredential
    lifetime_ms: int
    """The session lasts no longer; not above zero for a token that has expired."""


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token and its HMAC."""

    znode: DelegationTokenZnode
    hmac: bytes = field(repr=False)
    credentials: dict[str, ScramCredential] = field(default_factory=dict, repr=False)
    """By mechanism, made with the first login: each takes some milliseconds."""

    def credential(self, mechanism_name: str) -> ScramCredential:
        """The SCRAM credential whose password is the HMAC."""
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
    """Every token.  ``known`` is replaced, never changed, so any thread may read it."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        """``now_ms``: the machine's clock, whatever it was when the broker started."""
        self._now_ms = now_ms
        self.known: Mapping[str, KnownToken] = {}
        """By id."""

    def by_hmac(self, hmac: bytes) -> KnownToken | None:
        """The token with that HMAC."""
        return next((token for token in self.known.values() if token.hmac == hmac), None)

    def login(self, mechanism_name: str, token_id: str) -> TokenLogin | None:
        """The data for verifying a client that names that token; None if there is none."""
        token = self.known.get(token_id)
        if token is None:
            return None
        _, _, owner_name = token.znode.owner.partition(":")
        lifetime_ms = token.znode.expiry_timestamp - self._now_ms()
        return TokenLogin(owner_name, token.credential(mechanism_name), lifetime_ms)
