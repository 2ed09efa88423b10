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
"""Special timestamps of ListOffsets."""

NO_LOG_APPEND_TIME: Final = -1


class FetchIsolation(Enum):
    """The limit of a read.  Source: Kafka ``FetchIsolation``."""

    LOG_END = auto()
    """Followers."""
    HIGH_WATERMARK = auto()
    """Consumers that read uncommitted records."""
    TXN_COMMITTED = auto()
    """Consumers that read committed records: up to the last stable offset."""


class RecordConversions(NamedTuple):
    """The cost of message conversions.  Source: Kafka ``RecordValidationStats``."""

    records: int = 0
    """Those that were packed anew: in another format, or with another codec."""
    duration_ns: int = 0
    memory_bytes: int = 0
    """Batches unpacked to be looked at, and batches made; not what came in or goes out."""

    def and_also(self, other: RecordConversions) -> RecordConversions:
        """The sum of both."""
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
    """When the broker stamped the records, -1 if it did not: Produce answers it."""
    log_start_offset: int
    valid_bytes: int
    """How much of what was given was whole batches."""
    last_leader_epoch: int | None = None
    is_duplicate: bool = False
    """The batch was appended before; the offsets are those that it got then."""
    is_flush_due: bool = False
    """``flush.messages`` is reached: flush before the append is acknowledged."""
    conversions: RecordConversions = NO_CONVERSIONS


class Replacement(NamedTuple):
    """A segment and those that it replaces."""

    new: LogSegment
    old: tuple[LogSegment, ...]
    old_size: int
    """Bytes of those when they were read."""
