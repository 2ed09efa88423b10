"""Decides when a node makes a snapshot of the metadata log: after some bytes or time.

Source: Kafka ``SnapshotGenerator``, ``MetadataLogConfig`` (KIP-630, KIP-876).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotConfig:
    """The keys ``metadata.log.max.…``, with Kafka's defaults."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 3_600_000
    """The longest time between two snapshots; 0 for no limit."""


class SnapshotTrigger:
    """Counts the bytes read and the time since the last snapshot."""

    def __init__(self, config: SnapshotConfig, now_ms: int) -> None:
        self._config = config
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """Begins to count anew, when a snapshot was made or loaded."""
        self._bytes_read = 0
        self._since_ms = now_ms

    def has_read(self, size_in_bytes: int) -> None:
        """Counts bytes of the log that were read."""
        self._bytes_read += size_in_bytes

    def reason(self, now_ms: int) -> str | None:
        """Why a snapshot is due; None if it is not."""
        max_bytes = self._config.max_record_bytes_between_snapshots
        interval_ms = self._config.max_snapshot_interval_ms
        if self._bytes_read >= max_bytes:
            return f"we have replayed at least {max_bytes} bytes"
        if interval_ms and now_ms - self._since_ms >= interval_ms:
            return f"we have waited at least {interval_ms // 60_000} minute(s)"
        return None
