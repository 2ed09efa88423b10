"""Checks before a partition is read: leader epoch, divergence, a new leader's watermark.

A reader says which leader epoch it believes in.  An older one is fenced, a newer one is unknown
here yet; both are returned before anything else, also by a follower.  A follower also says which
epoch its last record has; where that epoch ends in the leader's log is where the follower's own log
may have gone astray.

Source: Kafka ``Partition`` (``checkCurrentLeaderEpoch``, ``getLocalLog``, ``readRecords``,
``followerReplicaOrThrow``, ``lastOffsetForLeaderEpoch``, ``fetchOffsetForTimestamp``); KIP-101,
KIP-320, KIP-595.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.leader_epoch_file_cache import UNDEFINED, EpochEndOffset
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.partition import Partition

CONSUMER_REPLICA_ID: Final = -1
"""Replica id of a Fetch or ListOffsets request that no broker sent."""


class LogReadInfo(NamedTuple):
    """A fetch that may read: the offsets before the read, for the response."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    """What a follower is measured by: appends during the read do not make it late."""


def check_leader_epoch(requested: int, current: int) -> ErrorCode:
    """NONE, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; -1 is not checked."""
    if requested in (NO_EPOCH, current):
        return ErrorCode.none
    if requested < current:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch


def check_read(partition: Partition, current_leader_epoch: int, *, leader_only: bool) -> ErrorCode:
    """The error if this reader must not read here, else NONE; the epoch is checked first."""
    error = check_leader_epoch(current_leader_epoch, partition.leader_epoch)
    if error is ErrorCode.none and leader_only and not partition.is_leader:
        return ErrorCode.not_leader_or_follower
    return error


def end_offset_for_leader_epoch(
    partition: Partition,
    current_leader_epoch: int,
    leader_epoch: int,
    *,
    leader_only: bool = True,
) -> tuple[ErrorCode, EpochEndOffset]:
    """The end of ``leader_epoch`` in this log, for OffsetsForLeaderEpoch."""
    error = check_read(partition, current_leader_epoch, leader_only=leader_only)
    if error is not ErrorCode.none:
        return error, UNDEFINED
    return error, partition.log.end_offset_for_epoch(leader_epoch) or UNDEFINED


def prepare_read(
    partition: Partition,
    fetch_info: FetchPartition,
    *,
    replica_id: int = CONSUMER_REPLICA_ID,
    leader_only: bool = True,
) -> LogReadInfo | FetchPartitionData:
    """How to read for a fetch, or the response that needs no read."""
    error = check_read(partition, fetch_info.current_leader_epoch, leader_only=leader_only)
    if error is not ErrorCode.none:
        return FetchPartitionData(error)
    if replica_id >= 0 and replica_id not in partition.remote_replicas:
        return FetchPartitionData(_stranger(fetch_info))
    log = partition.log
    if fetch_info.last_fetched_epoch != NO_EPOCH:
        end = log.end_offset_for_epoch(fetch_info.last_fetched_epoch)
        if end is None or fetch_info.fetch_offset < log.log_start_offset:
            return FetchPartitionData(ErrorCode.offset_out_of_range)
        if diverges(fetch_info, end):
            return FetchPartitionData(
                ErrorCode.none,
                high_watermark=log.high_watermark,
                last_stable_offset=log.last_stable_offset,
                log_start_offset=log.log_start_offset,
                diverging_epoch=end,
            )
    if not log.log_start_offset <= fetch_info.fetch_offset <= log.log_end_offset:
        return FetchPartitionData(ErrorCode.offset_out_of_range)
    return LogReadInfo(
        log.high_watermark, log.last_stable_offset, log.log_start_offset, log.log_end_offset
    )


def diverges(fetch_info: FetchPartition, end: EpochEndOffset) -> bool:
    """Whether the reader has records that this log does not have.

    ``end`` is where the epoch of its last record ends here, or the epoch before, if this log has
    no record of that one.
    """
    return end.epoch < fetch_info.last_fetched_epoch or end.end_offset < fetch_info.fetch_offset


def check_latest_offset(partition: Partition) -> ErrorCode:
    """Whether a client may see the end of the log: OFFSET_NOT_AVAILABLE while it lags.

    A new leader's high watermark is that of its time as a follower; what it returns to clients now
    might be below what its predecessor returned.  The same holds for a timestamp that is not found.
    Replicas get the log end offset in any case.
    """
    start_offset = partition.leader_epoch_start_offset
    if start_offset is not None and start_offset > partition.log.high_watermark:
        return ErrorCode.offset_not_available
    return ErrorCode.none


def _stranger(fetch_info: FetchPartition) -> ErrorCode:
    """The error for a broker that is no known replica.

    With an epoch it may know more than this leader: then it asks again.
    """
    if fetch_info.current_leader_epoch == NO_EPOCH:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.unknown_leader_epoch
