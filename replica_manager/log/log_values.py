"""Arguments and results of log operations, as values.

Source: Kafka ``LogAppendInfo``, ``FetchIsolation``, ``ListOffsetsRequest``.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, NamedTuple

from replica_manager.log.segment import LogSegment

EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
"""The special timestamps of ListOffsets, with the four above."""

NO_LOG_APPEND_TIME: Final = -1


class FetchIsolation(Enum):
    """The offset at which a read ends.  Source: Kafka ``FetchIsolation``."""

    LOG_END = auto()
    """The log end offset, for followers."""
    HIGH_WATERMARK = auto()
    """The high watermark, for consumers that read uncommitted records."""
    TXN_COMMITTED = auto()
    """The last stable offset, for consumers that read committed records."""


class RecordConversions(NamedTuple):
    """The cost of message conversions.  Source: Kafka ``RecordValidationStats``."""

    records: int = 0
    """Records encoded anew: in another format, or with another codec."""
    duration_ns: int = 0
    memory_bytes: int = 0
    """Bytes of batches decompressed for validation and of batches encoded anew."""

    def and_also(self, other: RecordConversions) -> RecordConversions:
        """The sum of both costs."""
        if other is NO_CONVERSIONS:
            return self
        return RecordConversions(
            self.records + other.records,
            self.duration_ns + other.duration_ns,
            self.memory_bytes + other.memory_bytes,
        )


NO_CONVERSIONS: Final = RecordConversions()


class LogAppendInfo(NamedTuple):
    """The result of an append."""

    first_offset: int
    last_offset: int
    max_timestamp: int
    log_append_time: int
    """For the Produce response: the timestamp with LogAppendTime or of a duplicate, else -1."""
    log_start_offset: int
    valid_bytes: int
    """Bytes of complete batches in the given records; 0 if nothing was appended."""
    last_leader_epoch: int | None = None
    is_duplicate: bool = False
    """Whether the batch was appended before; the offsets are then the ones of that append."""
    is_flush_due: bool = False
    """Whether ``flush.messages`` is reached; if so, flush before the append is acknowledged."""
    conversions: RecordConversions = NO_CONVERSIONS


class Replacement(NamedTuple):
    """A compacted segment and the segments that it replaces."""

    new: LogSegment
    old: tuple[LogSegment, ...]
    old_size: int
    """The size of the old segments in bytes when the cleaning read them."""
