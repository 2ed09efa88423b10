"""The log of production in the replication simulator: real segments, indexes, epochs, in a folder.

Each record is a batch of its own.  A fetch gives so many bytes, so its last batch is often cut off,
as it is in production.  A restart opens the log again as after a kill.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from kafka_common.protocol.record_batch import encode_batch, iterate_batch, iterate_batches
from kafka_common.protocol.records import Record as DataRecord
from replica_manager.log.environment import DeferredTasks, LogEnvironment
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.log.log_config import LogConfig
from replica_manager.log.log_values import FetchIsolation, LogAppendInfo
from replica_manager.log.truncation_plans import TruncationPlan
from replica_manager.log.unified_log import UnifiedLog
from tests.simulation.replication_log import Record

BYTES_OF_A_BATCH = 75


class DiskLog:
    """A partition's log in ``directory``."""

    def __init__(self, directory: Path, now_ms: Callable[[], int]) -> None:
        self._directory = directory
        self._now_ms = now_ms
        # Few records to a segment, so that truncations meet the borders of segments.
        self._config = LogConfig(segment_bytes=1024)
        self.changes = 0
        self._checkpointed_high_watermark = 0
        self._records: tuple[int, list[Record]] = (-1, [])
        self._log = self._open()

    def _open(self) -> UnifiedLog:
        environment = LogEnvironment(
            self._now_ms,
            self._now_ms,
            DeferredTasks(),
            Random(4),
            verifies_transactions=lambda: False,
        )
        return UnifiedLog.open(self._directory, self._config, environment, had_clean_shutdown=False)

    @property
    def log_start_offset(self) -> int:
        return self._log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        return self._log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self._log.high_watermark

    @property
    def last_stable_offset(self) -> int:
        return self._log.last_stable_offset

    @property
    def latest_epoch(self) -> int | None:
        return self._log.latest_epoch

    @property
    def records(self) -> list[Record]:
        """Everything in the log, read anew after each change."""
        if self._records[0] != self.changes:
            found: list[Record] = []
            for segment in self._log.segments:
                data = segment.file.read(0, segment.size)
                for position, header in iterate_batches(data):
                    for record in iterate_batch(data, position, header):
                        assert record.value is not None
                        epoch = header.partition_leader_epoch
                        found.append(Record(record.offset, epoch, record.value.decode()))
            self._records = (self.changes, found)
        return self._records[1]

    def record_at(self, offset: int) -> Record | None:
        """The record at ``offset``, if the log has one there."""
        records = self.records
        return records[offset] if 0 <= offset < len(records) else None

    def read(self, offset: int, most: int) -> bytes:
        """About ``most`` records from ``offset`` on, the last one perhaps cut off."""
        found = self._log.read(
            offset, most * BYTES_OF_A_BATCH, FetchIsolation.LOG_END, min_one_message=True
        )
        return b"" if found.slice is None else found.slice.read()

    def append_as_leader(self, value: str, leader_epoch: int) -> int:
        """Appends a record; its offset."""
        self.changes += 1
        batch = encode_batch([DataRecord(0, self._now_ms(), None, value.encode())])
        return self._log.append_as_leader(batch, leader_epoch).last_offset

    def append_as_follower(self, records: bytes | memoryview) -> LogAppendInfo:
        self.changes += bool(records)
        return self._log.append_as_follower(records)

    def assign_epoch_start_offset(self, epoch: int, start_offset: int) -> None:
        self.changes += 1
        self._log.assign_epoch_start_offset(epoch, start_offset)

    def end_offset_for_epoch(self, epoch: int) -> EpochEndOffset | None:
        return self._log.end_offset_for_epoch(epoch)

    def maybe_increment_high_watermark(self, offset: int) -> bool:
        has_moved = self._log.maybe_increment_high_watermark(offset)
        self.changes += has_moved
        return has_moved

    def update_high_watermark(self, offset: int) -> bool:
        has_moved = self._log.update_high_watermark(offset)
        self.changes += has_moved
        return has_moved

    def maybe_increment_log_start_offset(self, offset: int, reason: str) -> bool:
        return self._log.maybe_increment_log_start_offset(offset, reason)

    def plan_truncation(self, offset: int) -> TruncationPlan | None:
        return self._log.plan_truncation(offset)

    def truncate_to(self, offset: int) -> bool:
        self.changes += 1
        return self._log.truncate_to(offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.changes += 1
        self._log.truncate_fully_and_start_at(offset)

    def checkpoint_high_watermark(self) -> None:
        """What the broker does every five seconds."""
        self._checkpointed_high_watermark = self.high_watermark

    def restart(self) -> None:
        """The process was killed and the log is loaded again: every record is still there."""
        self.changes += 1
        self._log.close()
        self._log = self._open()
        self._log.update_high_watermark(self._checkpointed_high_watermark)

    def close(self) -> None:
        """Lets the files go."""
        self._log.close()
