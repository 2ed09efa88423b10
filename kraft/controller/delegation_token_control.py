"""Delegation tokens of a KRaft cluster, with which clients log in instead of their password.

A client proves its token with the HMAC of the token's id, made with a secret that all controllers
share.  No record contains the HMAC or the secret.

Source: Kafka ``DelegationTokenControlManager`` (KIP-48, KIP-900).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.protocol.delegation_tokens import (
    LAST_TIMESTAMP,
    USER_TYPE,
    DelegationTokenConfig,
    is_expired,
    token_hmac,
)
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    DelegationTokenRecord,
    RemoveDelegationTokenRecord,
)


@dataclass(frozen=True, slots=True)
class CreatedDelegationToken:
    """A new token and its HMAC."""

    record: DelegationTokenRecord
    hmac: bytes = field(repr=False)


class DelegationTokenControlManager:
    """Generates token records and holds the committed tokens; principals are texts."""

    def __init__(
        self,
        registry: SnapshotRegistry,
        metadata_version: Callable[[], MetadataVersion],
        new_token_id: Callable[[], str],
        config: DelegationTokenConfig,
    ) -> None:
        self._metadata_version = metadata_version
        self._logger = registry.logger("DelegationTokenControlManager")
        self._new_token_id = new_token_id
        self._config = config
        self._tokens: TimelineDict[str, DelegationTokenRecord] = TimelineDict(registry)
        self._ids_by_hmac: TimelineDict[bytes, str] = TimelineDict(registry)

    @property
    def is_enabled(self) -> bool:
        return self._config.is_enabled

    def create_delegation_token(
        self,
        requester: str,
        owner: str | None,
        renewers: Sequence[tuple[str, str]],
        max_lifetime_ms: int,
        now_ms: int,
    ) -> ControllerResult[CreatedDelegationToken]:
        """Creates a token for the owner, by default the requester.

        ``renewers`` are pairs of principal type and name.  ``max_lifetime_ms`` is limited by the
        configured lifetime, which also counts for 0 and negative values.
        Raises ApiException: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
        INVALID_PRINCIPAL_TYPE.
        """
        secret = self._secret()
        if any(principal_type != USER_TYPE for principal_type, _ in renewers):
            raise ApiException(ErrorCode.invalid_principal_type)
        lifetime = min(self._config.max_lifetime_ms, LAST_TIMESTAMP - now_ms)
        if max_lifetime_ms > 0:
            lifetime = min(lifetime, max_lifetime_ms)
        token_id = self._new_token_id()
        record = DelegationTokenRecord(
            owner or requester,
            requester,
            tuple(f"{principal_type}:{name}" for principal_type, name in renewers),
            now_ms,
            now_ms + lifetime,
            now_ms + min(lifetime, self._config.expiry_time_ms),
            token_id,
        )
        created = CreatedDelegationToken(record, token_hmac(secret, token_id))
        return ControllerResult.atomic_of([VersionedRecord(record, 0)], created)

    def renew_delegation_token(
        self, requester: str, token_hmac: bytes, renew_period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """Renews a token; the response is its new expiry time, at most the end of its lifetime.

        Raises ApiException: DELEGATION_TOKEN_AUTH_DISABLED, UNSUPPORTED_VERSION,
        DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, DELEGATION_TOKEN_OWNER_MISMATCH.
        """
        token = self._token(token_hmac)
        _check_alive(token, now_ms)
        _check_renewer(token, requester)
        period = self._config.expiry_time_ms
        if renew_period_ms > 0:
            period = min(period, renew_period_ms)
        return _expiring(token, now_ms + period)

    def expire_delegation_token(
        self, requester: str, token_hmac: bytes, expiry_period_ms: int, now_ms: int
    ) -> ControllerResult[int]:
        """Changes the expiry time and returns the new one; a negative period deletes the token.

        Raises ApiException with the errors of :meth:`renew_delegation_token`.
        """
        token = self._token(token_hmac)
        _check_renewer(token, requester)
        if expiry_period_ms < 0:
            return ControllerResult.atomic_of([_removed(token)], now_ms)
        _check_alive(token, now_ms)
        return _expiring(token, now_ms + expiry_period_ms)

    def sweep_expired_delegation_tokens(self, now_ms: int) -> list[VersionedRecord]:
        """The records that delete all expired tokens."""
        expired = [token for token in self._tokens.values() if _is_expired(token, now_ms)]
        for token in expired:
            self._logger.info(
                "Delegation token expired for token: %s for owner: %s", token.token_id, token.owner
            )
        return list(map(_removed, expired))

    def replay(self, record: DelegationTokenRecord | RemoveDelegationTokenRecord) -> None:
        """Replays a committed token record."""
        self._logger.info("Replayed %s for %s.", type(record).__name__, record.token_id)
        if isinstance(record, RemoveDelegationTokenRecord):
            # The token may be removed already: Kafka's controller can write a removal twice, if it
            # sweeps again before the first one is replayed.
            self._tokens.pop(record.token_id)
            if self._config.secret_key is not None:
                self._ids_by_hmac.pop(token_hmac(self._config.secret_key, record.token_id))
            return
        self._tokens[record.token_id] = record
        if self._config.secret_key is not None:
            proof = token_hmac(self._config.secret_key, record.token_id)
            self._ids_by_hmac[proof] = record.token_id

    def state_records(self, epoch: int, version: MetadataVersion) -> Iterator[VersionedRecord]:
        """A record for each token that existed at the log offset ``epoch``."""
        for token in self._tokens.values(epoch=epoch):
            if not version.is_delegation_token_supported:
                version.refuse_loss("delegation tokens")
            yield VersionedRecord(token, 0)

    def _secret(self) -> str:
        secret = self._config.secret_key
        if secret is None:
            raise ApiException(ErrorCode.delegation_token_auth_disabled)
        if not self._metadata_version().is_delegation_token_supported:
            raise ApiException(ErrorCode.unsupported_version)
        return secret

    def _token(self, token_hmac: bytes) -> DelegationTokenRecord:
        self._secret()
        token_id = self._ids_by_hmac.get(token_hmac)
        token = None if token_id is None else self._tokens.get(token_id)
        if token is None:
            raise ApiException(ErrorCode.delegation_token_not_found)
        return token


def _is_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    return is_expired(token.max_timestamp, token.expiration_timestamp, now_ms)


def _check_alive(token: DelegationTokenRecord, now_ms: int) -> None:
    if _is_expired(token, now_ms):
        raise ApiException(ErrorCode.delegation_token_expired)


def _check_renewer(token: DelegationTokenRecord, requester: str) -> None:
    if requester != token.owner and requester not in token.renewers:
        raise ApiException(ErrorCode.delegation_token_owner_mismatch)


def _expiring(token: DelegationTokenRecord, expiry_ms: int) -> ControllerResult[int]:
    expiry_ms = min(token.max_timestamp, expiry_ms)
    record = replace(token, expiration_timestamp=expiry_ms)
    return ControllerResult.atomic_of([VersionedRecord(record, 0)], expiry_ms)


def _removed(token: DelegationTokenRecord) -> VersionedRecord:
    return VersionedRecord(RemoveDelegationTokenRecord(token.token_id), 0)
