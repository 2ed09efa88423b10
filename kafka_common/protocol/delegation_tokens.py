"""HMAC and expiry of delegation tokens, for ZooKeeper mode and KRaft.

The HMAC of a token is that of its id, with a secret key that all brokers or controllers share.  A
client proves with the HMAC that it has the token.  No znode and no record holds the HMAC.

Source: Kafka ``DelegationTokenManager.createHmac`` (KIP-48).
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass, field
from typing import Final

USER_TYPE = "User"
"""The one type of principal that may renew a token."""


LAST_TIMESTAMP: Final = 2**63 - 1
"""The latest expiry of a token, in milliseconds since 1970: the field has 64 bits."""


@dataclass(frozen=True, slots=True)
class DelegationTokenConfig:
    """The ``delegation.token.…`` configuration; tokens are disabled without ``secret_key``."""

    secret_key: str | None = field(default=None, repr=False)
    max_lifetime_ms: int = 7 * 24 * 3_600_000
    expiry_time_ms: int = 24 * 3_600_000

    @property
    def is_enabled(self) -> bool:
        """Whether delegation tokens are enabled."""
        return self.secret_key is not None


def token_hmac(secret: str, token_id: str) -> bytes:
    """The HMAC of the token with that id."""
    return hmac.digest(secret.encode(), token_id.encode(), "sha512")


def is_expired(max_timestamp: int, expiry_timestamp: int, now_ms: int) -> bool:
    """Whether the token's maximum lifetime or its last renewal is over; times in milliseconds."""
    return max_timestamp < now_ms or expiry_timestamp < now_ms
