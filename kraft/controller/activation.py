"""The records that a controller writes first when it becomes active.

An empty log gets the bootstrap records of the cluster.  In any log, the records abort a transaction
that an earlier controller left open; in a log with records they end a migration from ZooKeeper.

Source: Kafka ``ActivationRecordsGenerator``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from kafka_common.errors import IllegalState
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.offsets import NONE
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.metadata.metadata_version import MINIMUM_KRAFT_VERSION, MetadataVersion
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
)

_ABORT: Final = VersionedRecord(AbortTransactionRecord("Controller failover"), 0)
_BEGIN: Final = VersionedRecord(BeginTransactionRecord("Bootstrap records"), 0)
_END: Final = VersionedRecord(EndTransactionRecord(), 0)


@dataclass(frozen=True, slots=True)
class LogState:
    """The content of the log when a controller becomes active."""

    is_empty: bool
    """Whether the log holds no record outside of an open transaction."""
    transaction_start_offset: int
    """The offset of the open transaction; NONE if none is open."""
    metadata_version: MetadataVersion
    zk_migration_state: ZkMigrationState

    @property
    def is_transaction_open(self) -> bool:
        return self.transaction_start_offset != NONE


def generate(log: LogState, bootstrap: BootstrapMetadata) -> ControllerResult[None]:
    """The records to write; :class:`IllegalState` if the controller must not become active."""
    return _for_empty_log(log, bootstrap) if log.is_empty else _for_non_empty_log(log)


def message(log: LogState, bootstrap: BootstrapMetadata) -> str:
    """What the controller is about to write, for the log."""
    return f"Performing controller activation. {' '.join(_parts(log, bootstrap))}"


def _parts(log: LogState, bootstrap: BootstrapMetadata) -> Iterator[str]:
    begun_at = log.transaction_start_offset
    if log.is_empty:
        version, count = bootstrap.metadata_version, len(bootstrap.records)
        in_transaction = "in metadata transaction "
        if log.is_transaction_open:
            yield f"Aborting partial bootstrap records transaction at offset {begun_at}."
            done, in_transaction = "Re-appending", "in new metadata transaction "
        else:
            yield "The metadata log appears to be empty."
            done = "Appending"
            if not version.is_metadata_transaction_supported:
                in_transaction = ""
        yield f"{done} {count} bootstrap record(s) {in_transaction}at metadata.version {version}"
        yield f"from bootstrap source '{bootstrap.source}'."
        if version.is_metadata_transaction_supported:
            yield "Setting the ZK migration state to NONE since this is a de-novo KRaft cluster."
        return
    if log.is_transaction_open:
        yield f"Aborting in-progress metadata transaction at offset {begun_at}."
    if log.metadata_version == MINIMUM_KRAFT_VERSION:
        yield "No metadata.version feature level record was found in the log."
        yield f"Treating the log as version {MINIMUM_KRAFT_VERSION}."
    if log.metadata_version.is_migration_supported:
        state = log.zk_migration_state
        yield f"Loaded ZK migration state of {state.name}."
        if state is ZkMigrationState.NONE:
            yield "This is expected because this is a de-novo KRaft cluster."
        elif state is ZkMigrationState.MIGRATION:
            yield "Completing the ZK migration since this controller was configured with"
            yield "'zookeeper.metadata.migration.enable' set to 'false'."


def _for_empty_log(log: LogState, bootstrap: BootstrapMetadata) -> ControllerResult[None]:
    version = bootstrap.metadata_version
    if not version.is_metadata_transaction_supported:
        _check_no_transaction(log, version)
        return ControllerResult.atomic_of(bootstrap.records, None)
    abort = [_ABORT] if log.is_transaction_open else []
    records = [*abort, _BEGIN, *bootstrap.records, ZkMigrationState.NONE.to_record(), _END]
    return ControllerResult.of(records, None)


def _for_non_empty_log(log: LogState) -> ControllerResult[None]:
    version = log.metadata_version
    records = []
    if log.is_transaction_open:
        if not version.is_metadata_transaction_supported:
            _check_no_transaction(log, version)
        records.append(_ABORT)
    if version.is_migration_supported and log.zk_migration_state is ZkMigrationState.MIGRATION:
        # A controller of Kafka ran the migration.  This one runs none, so the migration ends.
        records.append(ZkMigrationState.POST_MIGRATION.to_record())
    return ControllerResult.atomic_of(records, None)


def _check_no_transaction(log: LogState, version: MetadataVersion) -> None:
    if log.is_transaction_open:
        at = log.transaction_start_offset
        raise IllegalState(f"a transaction is open since {at}, which {version} does not have")
