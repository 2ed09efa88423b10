"""Size and retention of the metadata log.

Source: Kafka ``MetadataLogConfig``, ``KRaftConfigs``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from kafka_common.errors import ConfigInvalid
from kraft.raft.config import MAX_BATCH_BYTES
from replica_manager.log.log_config import LogConfig

_UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class MetadataLogConfig:
    """The keys ``metadata.log.*`` and ``metadata.max.retention.*``, with Kafka's defaults."""

    segment_bytes: int = 1024**3
    segment_min_bytes: int = MAX_BATCH_BYTES
    """The lower limit of ``segment_bytes``, so that every batch fits; lower only in tests."""
    segment_ms: int = 604_800_000
    retention_max_bytes: int = 104_857_600
    """The most bytes of log and snapshots together; below zero for no limit."""
    retention_ms: int = 604_800_000
    """The greatest age of a snapshot's last record, if a newer snapshot exists; below zero for no
    limit."""
    file_delete_delay_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.segment_bytes < self.segment_min_bytes:
            raise ConfigInvalid(
                "metadata.log.segment.bytes",
                self.segment_bytes,
                f"at least {self.segment_min_bytes}, so that every batch fits",
            )

    @property
    def log_config(self) -> LogConfig:
        """The configuration of the partition log, without retention and compaction."""
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            max_message_bytes=MAX_BATCH_BYTES,
            retention_bytes=_UNLIMITED,
            retention_ms=_UNLIMITED,
            file_delete_delay_ms=self.file_delete_delay_ms,
        )
