"""Retention of metadata snapshots: whether the oldest one may be deleted.

Source: Kafka ``KafkaMetadataLog.maybeClean`` (KIP-630).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kraft.node.snapshot_files import MetadataSnapshotFiles
from kraft.raft.values import OffsetAndEpoch


class SnapshotBreach(Protocol):
    """A retention limit, checked for one snapshot after the other, the oldest first."""

    def reason(self, snapshot_id: OffsetAndEpoch) -> str | None:
        """Why that snapshot may be deleted; None if it must stay."""


class SizeBreach:
    """The limit by size: log and snapshots together have more than ``limit`` bytes.

    A negative ``limit`` means no limit.
    """

    def __init__(
        self, limit: int, snapshots: MetadataSnapshotFiles, log_bytes: Callable[[], int]
    ) -> None:
        self._limit = limit
        self._log_bytes = log_bytes
        self._sizes = {known: snapshots.size_of(known) or 0 for known in snapshots.ids}
        self._total = sum(self._sizes.values())

    def reason(self, snapshot_id: OffsetAndEpoch) -> str | None:
        """See :class:`SnapshotBreach`; a snapshot with a reason counts as deleted afterwards."""
        if self._limit < 0 or self._log_bytes() + self._total <= self._limit:
            return None
        snapshots_bytes = self._total
        self._total -= self._sizes[snapshot_id]
        return (
            f"the log size ({self._log_bytes()}) and snapshots size ({snapshots_bytes}) is greater "
            f"than {self._limit}"
        )


class AgeBreach:
    """The limit by age: a snapshot's last record is older than ``limit`` milliseconds.

    A negative ``limit`` means no limit.
    """

    def __init__(self, limit: int, snapshots: MetadataSnapshotFiles, now_ms: int) -> None:
        self._limit = limit
        self._snapshots = snapshots
        self._now_ms = now_ms

    def reason(self, snapshot_id: OffsetAndEpoch) -> str | None:
        """See :class:`SnapshotBreach`."""
        if self._limit < 0:
            return None
        timestamp = self._snapshots.last_contained_log_timestamp(snapshot_id)
        if timestamp is None or self._now_ms - timestamp <= self._limit:
            return None
        return (
            f"its timestamp ({timestamp}) is now ({self._now_ms}) older than the retention "
            f"({self._limit})"
        )
