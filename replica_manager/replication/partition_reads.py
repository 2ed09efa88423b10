"""Checks before a partition is read: leader epoch, divergence, a new leader's watermark.

A request contains the leader epoch that its sender knows.  An older epoch is fenced, a newer one is
not known here yet; this check comes first, on a follower as well.  A follower also sends the epoch
of its last record.  If that epoch ends earlier in the leader's log, the follower's log has
diverged.

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
from replica_manager.replication.replica_log import ABSENT_LOG

CONSUMER_REPLICA_ID: Final = -1
"""Replica id of a Fetch or ListOffsets request that does not come from a broker."""


class LogReadInfo(NamedTuple):
    """The offsets of a log before it is read, for the response."""

    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    log_end_offset: int
    """A follower that fetches at this offset is caught up: appends during the read do not count."""


def check_leader_epoch(requested: int, current: int) -> ErrorCode:
    """NONE, FENCED_LEADER_EPOCH or UNKNOWN_LEADER_EPOCH; NONE if ``requested`` is -1."""
    if requested in (NO_EPOCH, current):
        return ErrorCode.none
    if requested < current:
        return ErrorCode.fenced_leader_epoch
    return ErrorCode.unknown_leader_epoch


def check_read(partition: Partition, current_leader_epoch: int, *, leader_only: bool) -> ErrorCode:
    """The error of a request that must not read the partition, else NONE.

    The leader epoch is checked before the role.  A partition whose log is not open yet is led
    nowhere, as Kafka says.
    """
    error = check_leader_epoch(current_leader_epoch, partition.leader_epoch)
    if error is ErrorCode.none and leader_only and not partition.is_leader:
        return ErrorCode.not_leader_or_follower
    if error is ErrorCode.none and partition.log is ABSENT_LOG:
        return ErrorCode.not_leader_or_follower
    return error


def end_offset_for_leader_epoch(
    partition: Partition,
    current_leader_epoch: int,
    leader_epoch: int,
    *,
    leader_only: bool = True,
) -> tuple[ErrorCode, EpochEndOffset]:
    """The error and the end offset of ``leader_epoch``, for OffsetsForLeaderEpoch.

    The end offset is UNDEFINED after an error, or if the epoch is newer than all epochs here.
    """
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
    """The offsets before the read of a Fetch request, or a response that needs no read.

    No read is needed after an error or a divergence.
    """
    error = check_read(partition, fetch_info.current_leader_epoch, leader_only=leader_only)
    if error is not ErrorCode.none:
        return FetchPartitionData(error)
    if replica_id >= 0 and replica_id not in partition.remote_replicas:
        return FetchPartitionData(_unknown_replica_error(fetch_info))
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
    """Whether the follower has records that this log does not have.

    ``end`` is the end in this log of ``fetch_info.last_fetched_epoch``, or of the largest smaller
    epoch if this log has no record of that epoch.
    """
    return end.epoch < fetch_info.last_fetched_epoch or end.end_offset < fetch_info.fetch_offset


def check_latest_offset(partition: Partition) -> ErrorCode:
    """OFFSET_NOT_AVAILABLE while a new leader's high watermark may be too low, else NONE.

    The high watermark of a new leader is the one it had as a follower, so it may be below an offset
    that the old leader returned to clients.  The same holds for a timestamp that is not found.
    A follower's request needs no such check: it gets the log end offset.
    """
    start_offset = partition.leader_epoch_start_offset
    if start_offset is not None and start_offset > partition.log.high_watermark:
        return ErrorCode.offset_not_available
    return ErrorCode.none


def _unknown_replica_error(fetch_info: FetchPartition) -> ErrorCode:
    """The error for a broker that is not a replica of the partition.

    If the request has a leader epoch, the broker may know a newer assignment than this leader;
    after UNKNOWN_LEADER_EPOCH it tries again.
    """
    if fetch_info.current_leader_epoch == NO_EPOCH:
        return ErrorCode.not_leader_or_follower
    return ErrorCode.unknown_leader_epoch
