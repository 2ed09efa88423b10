"""When a node makes a snapshot of the metadata log: after so many bytes, or so much time.

Source: Kafka ``SnapshotGenerator``, ``MetadataLogConfig`` (KIP-630, KIP-876).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SnapshotConfig:
    """``metadata.log.max.…``, by Kafka's defaults."""

    max_record_bytes_between_snapshots: int = 20 * 1024 * 1024
    max_snapshot_interval_ms: int = 3_600_000
    """0: time alone is no reason."""


class SnapshotTrigger:
    """Counts what has been read since the last snapshot, and how long that is ago."""

    def __init__(self, config: SnapshotConfig, now_ms: int) -> None:
        self._config = config
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        """A snapshot has been made, or read."""
        self._bytes_read = 0
        self._since_ms = now_ms

    def has_read(self, size_in_bytes: int) -> None:
        """So much of the log has been taken in."""
        self._bytes_read += size_in_bytes

    def reason(self, now_ms: int) -> str | None:
        """Why a snapshot is due; None if none is."""
        max_bytes = self._config.max_record_bytes_between_snapshots
        interval_ms = self._config.max_snapshot_interval_ms
        if self._bytes_read >= max_bytes:
            return f"we have replayed at least {max_bytes} bytes"
        if interval_ms and now_ms - self._since_ms >= interval_ms:
            return f"we have waited at least {interval_ms // 60_000} minute(s)"
        return None
