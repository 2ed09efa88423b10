"""How far a cluster is on its way from ZooKeeper.

Source: Kafka ``ZkMigrationState``, ``MigrationRecordConsumer`` (KIP-866).
"""

from __future__ import annotations

from enum import IntEnum

from zkcontroller.kraft.controller.result import VersionedRecord
from zkcontroller.kraft.metadata.metadata_version import MetadataVersion
from zkcontroller.kraft.metadata.records import (
    BeginTransactionRecord,
    EndTransactionRecord,
    ZkMigrationStateRecord,
)


class ZkMigrationState(IntEnum):
    """With the numbers of the log; what 3.4 wrote before it began (1) reads as a migration."""

    NONE = 0
    """The cluster was made without ZooKeeper; also what an empty log means."""
    MIGRATION = 1
    """The log holds everything, and ZooKeeper still gets it too."""
    PRE_MIGRATION = 2
    """The controller waits until everybody is ready; the log does not hold the cluster yet."""
    POST_MIGRATION = 3
    """ZooKeeper is left behind."""

    @property
    def is_in_progress(self) -> bool:
        return self in (ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION)

    def to_record(self) -> VersionedRecord:
        """The record that brings a log into this state."""
        return VersionedRecord(ZkMigrationStateRecord(int(self)), 0)


def records_before_migration(version: MetadataVersion) -> tuple[VersionedRecord, ...]:
    """What goes in front of the cluster's records; nothing where there are no transactions."""
    if not version.is_metadata_transaction_supported:
        return ()
    return (VersionedRecord(BeginTransactionRecord("ZK Migration"), 0),)


def records_after_migration(version: MetadataVersion) -> tuple[VersionedRecord, ...]:
    """What goes behind them: the migration has taken place."""
    migrated = ZkMigrationState.MIGRATION.to_record()
    if not version.is_metadata_transaction_supported:
        return (migrated,)
    return (migrated, VersionedRecord(EndTransactionRecord(), 0))
