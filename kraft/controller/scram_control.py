"""SCRAM credentials of users; the log holds derived keys, never a password.

Source: Kafka ``ScramControlManager`` (KIP-554, KIP-900).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.errors import IllegalState
from kafka_common.protocol.scram import (
    MAX_ITERATIONS,
    MECHANISMS_BY_TYPE,
    MIN_ITERATIONS,
    ScramCredential,
)
from kraft.controller.result import (
    BoundedRecords,
    ControllerResult,
    VersionedRecord,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)


@dataclass(frozen=True, slots=True)
class ScramCredentialDeletion:
    """Delete a credential; ``mechanism`` is the mechanism's number on the wire."""

    name: str
    mechanism: int


@dataclass(frozen=True, slots=True)
class ScramCredentialUpsertion:
    """Create or replace a credential."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes = field(repr=False)
    salted_password: bytes = field(repr=False)


ScramAlteration: TypeAlias = ScramCredentialDeletion | ScramCredentialUpsertion


class ScramControlManager:
    """Generates credential records and holds the committed credentials."""

    def __init__(
        self, registry: SnapshotRegistry, metadata_version: Callable[[], MetadataVersion]
    ) -> None:
        self._metadata_version = metadata_version
        self._logger = registry.logger("ScramControlManager")
        self._credentials: TimelineDict[tuple[str, int], ScramCredential] = TimelineDict(registry)

    def alter_credentials(
        self,
        deletions: Sequence[ScramCredentialDeletion],
        upsertions: Sequence[ScramCredentialUpsertion],
    ) -> ControllerResult[dict[str, ApiError]]:
        """One result per user; a user that is named twice gets an error, and no change."""
        wanted: dict[str, ScramAlteration] = {}
        results: dict[str, ApiError] = {}
        alterations: tuple[ScramAlteration, ...] = (*deletions, *upsertions)
        for alteration in alterations:
            name = alteration.name
            if name in results and results[name].is_failure:
                continue
            if wanted.pop(name, None) is not None:
                results[name] = ApiError(
                    ErrorCode.duplicate_resource,
                    "A user credential cannot be altered twice in the same request",
                )
                continue
            try:
                self._check(alteration)
            except ApiException as refused:
                results[name] = refused.to_error()
            else:
                wanted[name] = alteration
                results[name] = NO_ERROR
        records = BoundedRecords()
        for accepted in wanted.values():
            records.append(VersionedRecord(_record(accepted), 0))
        return ControllerResult.atomic_of(records.to_tuple(), results)

    def _check(self, alteration: ScramAlteration) -> None:
        if not self._metadata_version().is_scram_supported:
            raise ApiException(
                ErrorCode.unsupported_version,
                "The current metadata.version does not support SCRAM",
            )
        if not alteration.name:
            raise ApiException(ErrorCode.unacceptable_credential, "Username must not be empty")
        if alteration.mechanism not in MECHANISMS_BY_TYPE:
            raise ApiException(ErrorCode.unsupported_sasl_mechanism, "Unknown SCRAM mechanism")
        if isinstance(alteration, ScramCredentialDeletion):
            if (alteration.name, alteration.mechanism) not in self._credentials:
                raise ApiException(
                    ErrorCode.resource_not_found,
                    "Attempt to delete a user credential that does not exist",
                )
        elif alteration.iterations < MIN_ITERATIONS:
            raise ApiException(ErrorCode.unacceptable_credential, "Too few iterations")
        elif alteration.iterations > MAX_ITERATIONS:
            raise ApiException(ErrorCode.unacceptable_credential, "Too many iterations")

    def replay(self, record: UserScramCredentialRecord | RemoveUserScramCredentialRecord) -> None:
        """Replays a committed change; IllegalState for the deletion of an unknown credential."""
        key = (record.name, record.mechanism)
        known = MECHANISMS_BY_TYPE.get(record.mechanism)
        mechanism = "UNKNOWN" if known is None else known.name
        if isinstance(record, UserScramCredentialRecord):
            is_known = key in self._credentials
            self._logger.info(
                "Replayed UserScramCredentialRecord %s entry for %s with mechanism %s.",
                "modifying existing" if is_known else "creating new", record.name, mechanism,
            )  # fmt: skip
            self._credentials[key] = ScramCredential(
                record.salt, record.stored_key, record.server_key, record.iterations
            )
        elif self._credentials.pop(key) is None:
            raise IllegalState(f"Unable to find credential to delete: {key}")
        else:
            self._logger.info(
                "Replayed RemoveUserScramCredentialRecord for %s with mechanism %s.",
                record.name, mechanism,
            )  # fmt: skip

    def state_records(self, epoch: int, version: MetadataVersion) -> Iterator[VersionedRecord]:
        """A record for every credential at offset ``epoch``."""
        for (name, mechanism), credential in self._credentials.items(epoch=epoch):
            if not version.is_scram_supported:
                version.refuse_loss("SCRAM credentials")
            yield VersionedRecord(
                UserScramCredentialRecord(
                    name,
                    mechanism,
                    credential.salt,
                    credential.stored_key,
                    credential.server_key,
                    credential.iterations,
                ),
                0,
            )

    def credential(self, name: str, mechanism: int) -> ScramCredential | None:
        """The user's credential for a mechanism; None if there is none."""
        return self._credentials.get((name, mechanism))


def _record(
    alteration: ScramAlteration,
) -> UserScramCredentialRecord | RemoveUserScramCredentialRecord:
    if isinstance(alteration, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(alteration.name, alteration.mechanism)
    credential = ScramCredential.of_salted_password(
        MECHANISMS_BY_TYPE[alteration.mechanism],
        alteration.salt,
        alteration.salted_password,
        alteration.iterations,
    )
    return UserScramCredentialRecord(
        alteration.name,
        alteration.mechanism,
        credential.salt,
        credential.stored_key,
        credential.server_key,
        credential.iterations,
    )
