"""Looks up the offset of one partition for ListOffsets.

Source: Kafka ``Partition.fetchOffsetForTimestamp`` and ``legacyFetchOffsetsForTimestamp``.
"""

from __future__ import annotations

import asyncio
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH, TopicPartition
from kafka_common.protocol.records import NO_TIMESTAMP
from replica_manager.log.log_values import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
)
from replica_manager.log.offsets_by_time import TimestampSearch
from replica_manager.log.segment import TimestampedOffset
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.partition import Partition
from replica_manager.replication.partition_reads import (
    CONSUMER_REPLICA_ID,
    check_latest_offset,
    check_read,
)
from replica_manager.request_errors import RequestRefused
from replica_manager.server.context import BrokerContext

DEBUGGING_REPLICA_ID: Final = -2
"""The replica id of a debugging client, which may send the request to a follower, too."""
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1

_SEARCHES: Final = 3
"""The attempts of a search, which fails if retention or compaction deletes its files."""


class OffsetReader(NamedTuple):
    """The client or replica that sent a ListOffsets request."""

    replica_id: int
    isolation_level: int = READ_UNCOMMITTED
    """The isolation level of a client; a replica reads to the log end offset."""

    @property
    def is_client(self) -> bool:
        return self.replica_id == CONSUMER_REPLICA_ID

    @property
    def asks_leader_only(self) -> bool:
        return self.replica_id != DEBUGGING_REPLICA_ID

    def end_of(self, log: UnifiedLog) -> int:
        """The offset up to which the reader may read."""
        if not self.is_client:
            return log.log_end_offset
        if self.isolation_level == READ_COMMITTED:
            return log.last_stable_offset
        return log.high_watermark


class FoundOffset(NamedTuple):
    """The result for a partition; -1 in a field means that there is no value."""

    error: ErrorCode = ErrorCode.none
    timestamp: int = NO_TIMESTAMP
    offset: int = -1
    leader_epoch: int = NO_EPOCH
    old_style_offsets: tuple[int, ...] = ()
    """The result for version 0: base offsets of segments, newest first."""


def _readable(
    broker: BrokerContext, tp: TopicPartition, current_leader_epoch: int, reader: OffsetReader
) -> tuple[Partition, UnifiedLog]:
    partition = broker.records.replica_manager.get_partition_or_error(tp)
    if isinstance(partition, ErrorCode):
        raise RequestRefused(partition)
    refusal = check_read(partition, current_leader_epoch, leader_only=reader.asks_leader_only)
    if refusal is not ErrorCode.none:
        raise RequestRefused(refusal)
    log = broker.logs.log(tp)
    if log is None:
        raise RequestRefused(ErrorCode.not_leader_or_follower)
    return partition, log


async def find_offset(
    broker: BrokerContext,
    tp: TopicPartition,
    timestamp: int,
    reader: OffsetReader,
    current_leader_epoch: int = NO_EPOCH,
) -> FoundOffset:
    """The offset for a timestamp or a special value.

    Raises RequestRefused, KafkaStorage, or a RecordsRefused for a batch that cannot be read.
    """
    partition, log = _readable(broker, tp, current_leader_epoch, reader)
    end = reader.end_of(log)
    error = check_latest_offset(partition) if reader.is_client else ErrorCode.none
    if timestamp == LATEST_TIMESTAMP:
        if error is not ErrorCode.none:
            raise RequestRefused(error)
        return FoundOffset(offset=end, leader_epoch=partition.leader_epoch)
    found = await search(log, timestamp)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        assert found is not None, "every log begins somewhere"
        return _answer(found)
    if found is not None and found.offset < end:
        return _answer(found)
    # Nothing was found.  For a new leader the error is OFFSET_NOT_AVAILABLE: its high watermark
    # may still be lower than offsets that clients have seen.
    return FoundOffset(error)


async def search(log: UnifiedLog, timestamp: int) -> TimestampedOffset | None:
    """The log's offset for a timestamp, None if there is none; reads files in a thread."""
    for attempt in range(_SEARCHES):
        found = log.search_offset_by_timestamp(timestamp)
        if not isinstance(found, TimestampSearch):
            return found
        try:
            return await asyncio.to_thread(found.run)
        except FileNotFoundError as gone:
            if attempt == _SEARCHES - 1:
                raise log.search_failed(gone) from gone
        except OSError as error:
            raise log.search_failed(error) from error
    raise AssertionError("the last attempt answers")


def legacy_offsets(
    broker: BrokerContext,
    tp: TopicPartition,
    timestamp: int,
    max_num_offsets: int,
    reader: OffsetReader,
) -> FoundOffset:
    """The result for version 0; raises RequestRefused as :func:`find_offset` does."""
    _, log = _readable(broker, tp, NO_EPOCH, reader)
    if max_num_offsets < 0:
        raise RequestRefused(ErrorCode.unknown_server_error)
    offsets = log.legacy_offsets_before(timestamp, max_num_offsets)
    high_watermark = log.high_watermark
    if reader.is_client and any(offset > high_watermark for offset in offsets):
        offsets = [high_watermark, *(each for each in offsets if each <= high_watermark)]
    return FoundOffset(old_style_offsets=tuple(offsets))


def _answer(found: TimestampedOffset) -> FoundOffset:
    epoch = NO_EPOCH if found.leader_epoch is None else found.leader_epoch
    return FoundOffset(ErrorCode.none, found.timestamp, found.offset, epoch)
