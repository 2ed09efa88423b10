"""What a Kafka controller writes around the records of a migration from ZooKeeper.

Source: Kafka ``MigrationRecordConsumer`` (KIP-866).
"""

from __future__ import annotations

from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.result import VersionedRecord
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import BeginTransactionRecord, EndTransactionRecord


def records_before_migration(version: MetadataVersion) -> tuple[VersionedRecord, ...]:
    """The records before the migrated ones; none where transactions are unsupported."""
    if not version.is_metadata_transaction_supported:
        return ()
    return (VersionedRecord(BeginTransactionRecord("ZK Migration"), 0),)


def records_after_migration(version: MetadataVersion) -> tuple[VersionedRecord, ...]:
    """The records after the migrated ones: the migration is complete."""
    migrated = ZkMigrationState.MIGRATION.to_record()
    if not version.is_metadata_transaction_supported:
        return (migrated,)
    return (migrated, VersionedRecord(EndTransactionRecord(), 0))
