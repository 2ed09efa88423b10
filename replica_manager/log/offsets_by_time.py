"""ListOffsets lookups in a log: by timestamp, or by a special value such as "earliest".

Source: Kafka ``UnifiedLog.fetchOffsetByTimestamp`` and ``legacyFetchOffsetsBefore``.
"""

from __future__ import annotations

from typing import NamedTuple

from kafka_common.protocol.records import NO_TIMESTAMP
from replica_manager.log.leader_epoch_file_cache import LeaderEpochFileCache
from replica_manager.log.local_log import LocalLog
from replica_manager.log.log_values import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
)
from replica_manager.log.segment import LogSegment, TimestampedOffset


class TimestampSearch(NamedTuple):
    """A search for a timestamp in the segments of a log, for a thread.

    Records appended to the log during the search need not be found.
    """

    segments: tuple[LogSegment, ...]
    log_start_offset: int
    timestamp: int

    def run(self) -> TimestampedOffset | None:
        """The first record with at least the timestamp, None if there is none.  Blocks.

        For MAX_TIMESTAMP, the first record with the largest timestamp.  Raises FileNotFoundError if
        a segment was deleted or replaced during the search; the caller then searches again.
        """
        if self.timestamp == MAX_TIMESTAMP:
            newest = max(self.segments, key=lambda s: s.largest_timestamp_so_far.timestamp)
            return newest.find_offset_of_largest_timestamp()
        for segment in self.segments:
            if segment.largest_timestamp >= self.timestamp:
                return segment.find_offset_by_timestamp(self.timestamp, self.log_start_offset)
        return None


def offset_by_timestamp(
    local: LocalLog, epochs: LeaderEpochFileCache, log_start_offset: int, timestamp: int
) -> TimestampedOffset | TimestampSearch:
    """The offset for most special timestamps; for MAX_TIMESTAMP and real timestamps, a search."""
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        entries = epochs.entries
        is_known = bool(entries) and entries[0].start_offset <= log_start_offset
        return TimestampedOffset(
            NO_TIMESTAMP, log_start_offset, entries[0].epoch if is_known else None
        )
    if timestamp == LATEST_TIMESTAMP:
        return TimestampedOffset(NO_TIMESTAMP, local.log_end_offset, epochs.latest_epoch)
    if timestamp == LATEST_TIERED_TIMESTAMP:
        return TimestampedOffset(NO_TIMESTAMP, -1, -1)
    # Loads the value on the event loop: if the search loaded it in its thread, it could overwrite a
    # newer value from an append.
    _ = local.segments.active.largest_timestamp_so_far
    return TimestampSearch(tuple(local.segments), log_start_offset, timestamp)


def legacy_offsets_before(
    local: LocalLog, log_start_offset: int, timestamp: int, max_count: int, now_ms: int
) -> list[int]:
    """Base offsets of segments written before ``timestamp``, newest first, for ListOffsets v0."""
    times = [
        (max(s.base_offset, log_start_offset), s.file.last_modified_ms()) for s in local.segments
    ]
    if local.segments.active.size:
        times.append((local.log_end_offset, now_ms))
    if timestamp == EARLIEST_TIMESTAMP:
        times = times[:1]
    elif timestamp != LATEST_TIMESTAMP:
        while times and times[-1][1] > timestamp:
            times.pop()
    return sorted((offset for offset, _ in times[::-1][:max_count]), reverse=True)
