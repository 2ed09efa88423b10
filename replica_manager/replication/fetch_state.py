"""A follower's fetch state of one partition, and where a diverging log is truncated.

A partition starts *truncating* if its log has no leader epochs or if Fetch responses do not report
divergence; else it starts *fetching*.  After OFFSET_OUT_OF_RANGE the follower is *finding the end*
of the leader's log and, if that is not below its own end, *finding the start*.  In every stage a
partition can be *delayed* after an error.  A partition that cannot continue is *failed*: the
fetcher drops it until the controller sends a new leader epoch.

Source: Kafka ``PartitionFetchState``, ``AbstractFetcherThread`` (``getOffsetTruncationState``,
``partitionFetchState``); KIP-101, KIP-279, KIP-595.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple
from uuid import UUID

from typing_extensions import override

from kafka_common.java import kafka_abs, signed, string_hash
from kafka_common.model import NO_EPOCH, TopicPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_values import UNKNOWN_OFFSET
from replica_manager.replication.replica_log import ReplicaLog


class FetchStage(Enum):
    """What a fetcher does next for a partition."""

    TRUNCATING = "ask where the epoch ends, then truncate"
    FETCHING = "fetch records"
    FINDING_END = "ask for the leader's log end offset"
    FINDING_START = "ask for the leader's log start offset"


class InitialFetchState(NamedTuple):
    """A fetcher's initial values for a new partition."""

    topic_id: UUID | None
    leader: int
    current_leader_epoch: int
    initial_offset: int


class PartitionFetchState(NamedTuple):
    """The fetch state of one partition."""

    topic_id: UUID | None
    fetch_offset: int
    current_leader_epoch: int
    stage: FetchStage
    last_fetched_epoch: int | None = None
    lag: int | None = None
    """Records behind the leader's high watermark; None until the first Fetch response."""
    delayed_until_ms: int | None = None

    def is_delayed(self, now_ms: int) -> bool:
        """Whether the partition is paused after an error."""
        return self.delayed_until_ms is not None and now_ms < self.delayed_until_ms

    def is_in(self, stage: FetchStage, now_ms: int) -> bool:
        """Whether the partition is in that stage and not delayed."""
        return self.stage is stage and not self.is_delayed(now_ms)


class Truncation(NamedTuple):
    """Where to truncate a log."""

    offset: int
    is_complete: bool
    """False: after truncating, ask the leader again for the end of the log's newest epoch."""

    @override
    def __str__(self) -> str:
        completed = "true" if self.is_complete else "false"
        return f"TruncationState(offset={self.offset}, completed={completed})"


def initial_offset(log: ReplicaLog, *, truncates_on_fetch: bool) -> int:
    """The first fetch offset: the log end if Fetch reports divergence, else the high watermark.

    A log without leader epochs also starts at the high watermark.

    Source: Kafka ``ReplicaManager.initialFetchOffset``.
    """
    if truncates_on_fetch and log.latest_epoch is not None:
        return log.log_end_offset
    return log.high_watermark


def first_state(
    initial: InitialFetchState, log: ReplicaLog, *, truncates_on_fetch: bool
) -> PartitionFetchState:
    """The initial fetch state of a partition."""
    last_epoch = log.latest_epoch if truncates_on_fetch else None
    stage = FetchStage.TRUNCATING if last_epoch is None else FetchStage.FETCHING
    return PartitionFetchState(
        initial.topic_id, initial.initial_offset, initial.current_leader_epoch, stage, last_epoch
    )


def truncation_for(leaders: EpochEndOffset, log: ReplicaLog, fetch_offset: int) -> Truncation:
    """Where to truncate ``log``, given the end offset of a leader epoch on the leader.

    ``fetch_offset`` is the high watermark of the follower when the truncation began.
    """
    log_end = log.log_end_offset
    if leaders.end_offset == UNKNOWN_OFFSET:
        # The leader does not know the epoch: only records below the high watermark are safe.
        return Truncation(fetch_offset, True)
    if leaders.epoch == NO_EPOCH:
        # Version 0 of the response has no epoch.
        return Truncation(min(leaders.end_offset, log_end), True)
    own = log.end_offset_for_epoch(leaders.epoch)
    if own is None:
        return Truncation(min(leaders.end_offset, log_end), True)
    if own.epoch != leaders.epoch:
        # The follower's log lacks the leader's epoch: drop later epochs, then ask again.
        return Truncation(min(own.end_offset, log_end), False)
    return Truncation(min(own.end_offset, leaders.end_offset, log_end), True)


def fetcher_id(partition: TopicPartition, fetchers: int) -> int:
    """The fetcher, out of ``num.replica.fetchers``, that fetches the partition.

    Source: Kafka ``AbstractFetcherManager.getFetcherId``.
    """
    mixed = 31 * string_hash(partition.topic) + partition.partition
    return kafka_abs(signed(mixed)) % fetchers
