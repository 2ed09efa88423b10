"""The records that a controller writes first when it becomes active.

Into an empty log: how the cluster begins.  Else: what puts in order what its predecessor left.

Source: Kafka ``ActivationRecordsGenerator``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_common.errors import IllegalState
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.offsets import NONE
from kraft.controller.result import ControllerResult, VersionedRecord
from kraft.metadata.bootstrap import BootstrapMetadata
from kraft.metadata.metadata_version import MetadataVersion
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
    """Whether no record was ever replayed."""
    transaction_start_offset: int
    """Of the transaction that is open, or NONE."""
    metadata_version: MetadataVersion
    zk_migration_state: ZkMigrationState

    @property
    def is_transaction_open(self) -> bool:
        return self.transaction_start_offset != NONE


def generate(
    log: LogState, bootstrap: BootstrapMetadata, *, is_zk_migration_enabled: bool
) -> ControllerResult[None]:
    """The records of the activation; :class:`IllegalState` if it must not become active."""
    if log.is_empty:
        return _for_empty_log(log, bootstrap, is_zk_migration_enabled)
    return _for_non_empty_log(log, is_zk_migration_enabled)


def _for_empty_log(
    log: LogState, bootstrap: BootstrapMetadata, is_zk_migration_enabled: bool
) -> ControllerResult[None]:
    version = bootstrap.metadata_version
    if not version.is_metadata_transaction_supported:
        _check_no_transaction(log, version)
        if is_zk_migration_enabled:
            raise IllegalState(f"no migration from ZooKeeper can begin at {version}")
        return ControllerResult.atomic_of(bootstrap.records, None)
    state = ZkMigrationState.NONE
    if is_zk_migration_enabled:
        state = ZkMigrationState.PRE_MIGRATION
    abort = [_ABORT] if log.is_transaction_open else []
    records = [*abort, _BEGIN, *bootstrap.records, state.to_record(), _END]
    return ControllerResult.of(records, None)


def _for_non_empty_log(log: LogState, is_zk_migration_enabled: bool) -> ControllerResult[None]:
    version, state = log.metadata_version, log.zk_migration_state
    records = []
    if log.is_transaction_open:
        if not version.is_metadata_transaction_supported:
            _check_no_transaction(log, version)
        records.append(_ABORT)
    if not version.is_migration_supported:
        if is_zk_migration_enabled:
            raise IllegalState(f"no migration from ZooKeeper can be under way at {version}")
    elif is_zk_migration_enabled and state is ZkMigrationState.NONE:
        raise IllegalState("a cluster that began without ZooKeeper has nothing to migrate")
    elif not is_zk_migration_enabled and state is ZkMigrationState.MIGRATION:
        # Another controller ended the migration, or the setting went while none led.
        records.append(ZkMigrationState.POST_MIGRATION.to_record())
    return ControllerResult.atomic_of(records, None)


def _check_no_transaction(log: LogState, version: MetadataVersion) -> None:
    if log.is_transaction_open:
        at = log.transaction_start_offset
        raise IllegalState(f"a transaction is open since {at}, which {version} does not have")
