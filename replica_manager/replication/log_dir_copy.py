"""One step of a replica's move to another log directory: copies records to the future log.

The future log follows the current log as a follower follows its leader, by leader epochs and
offsets.  Before each copy the two logs are compared.  So if the current log was truncated, even
before a restart, the future log is truncated as well.

Source: Kafka ``ReplicaAlterLogDirsThread``, ``Partition.maybeReplaceCurrentWithFutureReplica``;
KIP-113.  Kafka marks partitions for truncation instead of comparing the logs each time.
"""

from __future__ import annotations

import logging

from replica_manager.log.local_log import LogRead
from replica_manager.log.log_values import FetchIsolation
from replica_manager.log.truncation_plans import TruncationPlan
from replica_manager.log.unified_log import UnifiedLog
from replica_manager.replication.fetch_state import truncation_for
from replica_manager.replication.replica_fetcher import append_as_follower, raise_log_start_offset

_log = logging.getLogger("kafka.server.ReplicaAlterLogDirsThread")


def has_caught_up(current: UnifiedLog, future: UnifiedLog) -> bool:
    """Whether the future log has all records, so that it can replace the current log now."""
    return current.log_end_offset == future.log_end_offset


def align(current: UnifiedLog, future: UnifiedLog) -> TruncationPlan | None:
    """Truncates the future log where it differs from the current log.

    Returns a plan to run in a thread before the next call; None if the logs agree.
    """
    while (epoch := future.latest_epoch) is not None:
        leaders = current.end_offset_for_epoch(epoch)
        if leaders is None:
            # The current log no longer has records of that epoch.
            plan = _truncate(future, future.epoch_entries[-1].start_offset)
            if plan is not None:
                return plan
            continue
        cut = truncation_for(leaders, future, future.high_watermark)
        if cut.offset < future.log_end_offset or not cut.is_complete:
            plan = _truncate(future, cut.offset)
            if plan is not None:
                return plan
        if cut.is_complete:
            break
    if future.log_end_offset > current.log_end_offset:
        plan = _truncate(future, current.log_end_offset)
        if plan is not None:
            return plan
    if future.log_end_offset < current.log_start_offset:
        future.truncate_fully_and_start_at(current.log_start_offset)
    return None


def _truncate(future: UnifiedLog, offset: int) -> TruncationPlan | None:
    plan = future.plan_truncation(offset)
    if plan is None:
        _log.info("Truncating future log %s to offset %d", future.name, offset)
        future.truncate_to(offset)
    return plan


def read_next(current: UnifiedLog, future: UnifiedLog, max_bytes: int) -> LogRead:
    """The next records to copy, at least one whole batch; the future log must be aligned."""
    return current.read(
        future.log_end_offset, max_bytes, FetchIsolation.LOG_END, min_one_message=True
    )


def append(current: UnifiedLog, future: UnifiedLog, records: bytes | memoryview) -> bool:
    """Appends records to the future log; returns whether its log start offset moved.

    Raises CorruptRecord if the bytes are damaged, KafkaStorage if the disk fails.
    """
    old_start = future.log_start_offset
    if records:
        append_as_follower(future, records)
    future.update_high_watermark(current.high_watermark)
    raise_log_start_offset(future, current.log_start_offset)
    return future.log_start_offset != old_start


def take_over_epochs(current: UnifiedLog, future: UnifiedLog) -> None:
    """Copies the leader epochs after the future log's newest one: they have no records."""
    latest = -1 if future.latest_epoch is None else future.latest_epoch
    for entry in current.epoch_entries:
        if entry.epoch > latest:
            future.assign_epoch_start_offset(entry.epoch, entry.start_offset)
