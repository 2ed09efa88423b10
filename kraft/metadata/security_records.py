"""Records about security: ACLs, SCRAM credentials, delegation tokens.

Source: Kafka 3.9 ``AccessControlEntryRecord.json`` and its neighbours (KIP-801, KIP-900, KIP-1025).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from kraft.metadata.record_values import ZERO_UUID


@dataclass(frozen=True, slots=True)
class AccessControlEntryRecord:
    """An ACL is created; the numbers are those of Kafka's enums."""

    id: UUID = ZERO_UUID
    resource_type: int = 0
    resource_name: str = ""
    pattern_type: int = 0
    principal: str = ""
    host: str = ""
    operation: int = 0
    permission_type: int = 0


@dataclass(frozen=True, slots=True)
class RemoveAccessControlEntryRecord:
    """An ACL is deleted."""

    id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class UserScramCredentialRecord:
    """A user's SCRAM credential is set; its secrets are not in the ``repr``."""

    name: str = ""
    mechanism: int = 0
    """1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""
    salt: bytes = field(default=b"", repr=False)
    stored_key: bytes = field(default=b"", repr=False)
    server_key: bytes = field(default=b"", repr=False)
    iterations: int = 0


@dataclass(frozen=True, slots=True)
class RemoveUserScramCredentialRecord:
    """A user's SCRAM credential is deleted."""

    name: str = ""
    mechanism: int = 0


@dataclass(frozen=True, slots=True)
class DelegationTokenRecord:
    """A delegation token is created, renewed or expired; times are milliseconds since 1970."""

    owner: str = ""
    requester: str = ""
    renewers: tuple[str, ...] = ()
    issue_timestamp: int = 0
    max_timestamp: int = 0
    expiration_timestamp: int = 0
    token_id: str = ""


@dataclass(frozen=True, slots=True)
class RemoveDelegationTokenRecord:
    """A delegation token is deleted."""

    token_id: str = ""
