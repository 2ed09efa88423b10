"""The state of a migration from ZooKeeper to KRaft.

Kafka's controllers write it.  This controller runs no migration, and ends one that is in progress.

Source: Kafka ``ZkMigrationState`` (KIP-866).
"""

from __future__ import annotations

from enum import IntEnum

from kraft.controller.result import VersionedRecord
from kraft.metadata.records import ZkMigrationStateRecord


class ZkMigrationState(IntEnum):
    """The states with their numbers in the log; Kafka 3.4's PRE_MIGRATION reads as MIGRATION."""

    NONE = 0
    """The cluster was created without ZooKeeper; also the state of an empty log."""
    MIGRATION = 1
    """The log holds all metadata, which is still written to ZooKeeper too."""
    PRE_MIGRATION = 2
    """The controller waits until every node is ready; the log does not hold the cluster yet."""
    POST_MIGRATION = 3
    """The migration has ended; ZooKeeper is not written any more."""

    @property
    def is_in_progress(self) -> bool:
        return self in (ZkMigrationState.PRE_MIGRATION, ZkMigrationState.MIGRATION)

    def to_record(self) -> VersionedRecord:
        """The record that sets this state."""
        return VersionedRecord(ZkMigrationStateRecord(int(self)), 0)
