"""The replicas of one partition, from the leader's view: ISR and high watermark.

Pure: time comes in as ``now_ms``, and the caller sends what a method proposes to the controller
and wakes who waits where a method says that the high watermark moved.  A follower has the same
object without remote replicas; :mod:`.partition` moves it between the two roles.

Source: Kafka ``kafka.cluster.Partition``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from kio.schema.errors import ErrorCode

from replica_manager.replication.isr import (
    AlteredIsr,
    CommittedIsr,
    Consequence,
    IsrState,
    PendingIsr,
    ReplicaState,
    consequence_of,
    high_watermark_by_isr,
    may_join_isr,
    out_of_sync_replicas,
    proposed_expand,
    proposed_shrink,
)
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from zkcontroller.model import NO_EPOCH, UNKNOWN_BROKER_EPOCH, TopicPartition

ALL_IN_SYNC: Final = -1
"""``acks`` of a Produce request that waits for the ISR."""
INITIAL_PARTITION_EPOCH: Final = 0
DEFAULT_REPLICA_LAG_TIME_MAX_MS: Final = 30_000

_log = logging.getLogger("kafka.cluster.Partition")


class FetchEffect(NamedTuple):
    """The effects of a follower's fetch."""

    proposal: PendingIsr | None = None
    """To be sent to the controller."""
    high_watermark_moved: bool = False
    low_watermark_moved: bool = False


class ProposalOutcome(NamedTuple):
    """The effects of a proposal's result."""

    retry: PendingIsr | None = None
    """To be sent again, unchanged."""
    high_watermark_moved: bool = False
    has_failed: bool = False
    """Meter ``FailedIsrUpdatesPerSec``."""
    was_accepted: bool = False
    """Meters ``IsrExpandsPerSec`` and ``IsrShrinksPerSec``."""


def every_broker(_: int) -> bool:
    """True for every broker: none is known to be dead."""
    return True


class PartitionReplicas:
    """The local replica, the state of the others, and the ISR with its pending change."""

    __slots__ = (
        "broker_id",
        "is_alive",
        "isr_state",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "min_in_sync_replicas",
        "partition_epoch",
        "remote_replicas",
        "replica_lag_time_max_ms",
        "topic_partition",
    )

    def __init__(
        self,
        topic_partition: TopicPartition,
        broker_id: int,
        *,
        log: ReplicaLog = ABSENT_LOG,
        replica_lag_time_max_ms: int = DEFAULT_REPLICA_LAG_TIME_MAX_MS,
        is_alive: Callable[[int], bool] = every_broker,
    ) -> None:
        """``is_alive`` returns whether the metadata cache has a live broker of that id."""
        self.topic_partition = topic_partition
        self.broker_id = broker_id
        self.log = log
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        self.min_in_sync_replicas = 1
        self.is_alive = is_alive
        self.leader: int | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = INITIAL_PARTITION_EPOCH
        self.leader_epoch_start_offset: int | None = None
        """Offset at which this broker began to lead; None while it does not."""
        self.isr_state: IsrState = CommittedIsr()
        """Empty on a follower: only the leader knows who is in sync."""
        self.remote_replicas: dict[int, ReplicaState] = {}
        """The followers; empty unless this broker leads."""

    @property
    def is_leader(self) -> bool:
        return self.leader == self.broker_id

    @property
    def in_sync_replicas(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.isr_state.isr

    @property
    def log_end_offset(self) -> int:
        return self.log.log_end_offset

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def effective_min_isr(self) -> int:
        """``min.insync.replicas``, at most the number of replicas."""
        return min(self.min_in_sync_replicas, len(self.remote_replicas) + 1)

    @property
    def is_under_min_isr(self) -> bool:
        """Whether the ISR is too small: acks=all is refused, the high watermark does not move."""
        return self.is_leader and len(self.in_sync_replicas) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """Whether the ISR has exactly the minimal size."""
        return self.is_leader and len(self.in_sync_replicas) == self.effective_min_isr

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas; DeleteRecords waits for it."""
        followers = (
            follower.log_start_offset
            for broker, follower in self.remote_replicas.items()
            if self.is_alive(broker)
        )
        return min((self.log.log_start_offset, *followers))

    def append_refusal(self, acks: int) -> ErrorCode:
        """The error if records must not be appended here; NONE if they may."""
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == ALL_IN_SYNC and len(self.in_sync_replicas) < self.effective_min_isr:
            return ErrorCode.not_enough_replicas
        return ErrorCode.none

    def maybe_increment_high_watermark(self, now_ms: int) -> bool:
        """Raises the high watermark as far as the replicas allow; call it after an append.

        While the ISR is too small it stands still: what is not replicated often enough must not be
        seen by anybody.
        """
        log = self.log
        if log.high_watermark == log.log_end_offset or not self.is_leader or self.is_under_min_isr:
            return False
        new = high_watermark_by_isr(
            self.isr_state,
            self.remote_replicas,
            log.log_end_offset,
            now_ms,
            self.replica_lag_time_max_ms,
            self.is_alive,
        )
        return log.maybe_increment_high_watermark(new)

    def record_fetch(
        self,
        replica_id: int,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> FetchEffect:
        """Records a follower's fetch: it has everything below ``fetch_offset``.

        Only for reads that succeeded and did not diverge, and not again when a parked fetch is read
        a second time: everything else says nothing about the follower's log.
        """
        old = self.remote_replicas[replica_id]
        # Nothing else in a fetch can move it, and this checks every replica.
        may_move = log_start_offset != old.log_start_offset
        old_low_watermark = self.low_watermark if may_move else 0
        new = self.remote_replicas[replica_id] = old.after_fetch(
            fetch_offset, log_start_offset, leader_end_offset, now_ms, broker_epoch
        )
        proposal = self._maybe_expand_isr(replica_id, new)
        moved = old.log_end_offset != new.log_end_offset
        return FetchEffect(
            proposal,
            moved and self.maybe_increment_high_watermark(now_ms),
            may_move and self.low_watermark > old_low_watermark,
        )

    def _maybe_expand_isr(self, replica_id: int, follower: ReplicaState) -> PendingIsr | None:
        committed = self.isr_state
        if not self.is_leader or not isinstance(committed, CommittedIsr):
            return None
        if replica_id in committed.isr or not self.is_alive(replica_id):
            return None
        if not may_join_isr(follower, self.log.high_watermark, self.leader_epoch_start_offset):
            return None
        self.isr_state = pending = proposed_expand(
            committed, replica_id, self.leader_epoch, self.partition_epoch
        )
        return pending

    def maybe_shrink_isr(self, now_ms: int) -> PendingIsr | None:
        """Proposes to remove lagging replicas; called every half ``replica.lag.time.max.ms``."""
        committed = self.isr_state
        if not self.is_leader or not isinstance(committed, CommittedIsr):
            return None
        leaving = out_of_sync_replicas(
            committed.isr,
            self.broker_id,
            self.remote_replicas,
            self.log.log_end_offset,
            now_ms,
            self.replica_lag_time_max_ms,
        )
        if not leaving:
            return None
        self.isr_state = pending = proposed_shrink(
            committed, leaving, self.leader_epoch, self.partition_epoch
        )
        _log.info(
            "[Partition %s broker=%d] Shrinking ISR from %s to %s. Leader: (highWatermark: %d, "
            "endOffset: %d). Out of sync replicas: %s.",
            self.topic_partition,
            self.broker_id,
            _joined(committed.isr),
            _joined(pending.proposal.new_isr),
            self.log.high_watermark,
            self.log.log_end_offset,
            " ".join(self._position(broker) for broker in leaving),
        )
        return pending

    def proposal_accepted(
        self, pending: PendingIsr, altered: AlteredIsr, now_ms: int
    ) -> ProposalOutcome:
        """Applies an accepted proposal; an outdated result changes nothing."""
        if self.isr_state != pending:
            return ProposalOutcome()
        if altered.leader_epoch != self.leader_epoch:
            return ProposalOutcome(has_failed=True)
        if altered.partition_epoch < self.partition_epoch:
            return ProposalOutcome(has_failed=True)
        self.isr_state = CommittedIsr(altered.isr)
        self.partition_epoch = altered.partition_epoch
        _log.info(
            "[Partition %s broker=%d] ISR updated to %s %sand version updated to %d",
            self.topic_partition,
            self.broker_id,
            _joined(altered.isr),
            "(under-min-isr) " if self.is_under_min_isr else "",
            self.partition_epoch,
        )
        moved = self.maybe_increment_high_watermark(now_ms)
        return ProposalOutcome(high_watermark_moved=moved, was_accepted=True)

    def proposal_refused(self, pending: PendingIsr, error: ErrorCode) -> ProposalOutcome:
        """Handles a refused proposal by its error, unless the state has changed meanwhile."""
        if self.isr_state != pending:
            return ProposalOutcome()
        consequence = consequence_of(error)
        if consequence is Consequence.RETRY:
            _log.warning(
                "[Partition %s broker=%d] Failed to update ISR to %s due to unexpected %s. "
                "Retrying.",
                self.topic_partition,
                self.broker_id,
                pending,
                error.name.upper(),
            )
            return ProposalOutcome(retry=pending, has_failed=True)
        if consequence is Consequence.REVERT:
            self.isr_state = pending.committed
            _log.info(
                "[Partition %s broker=%d] Failed to alter partition to %s since the controller "
                "rejected the request with %s. Partition state has been reset to the latest "
                "committed state %s.",
                self.topic_partition,
                self.broker_id,
                pending,
                error.name.upper(),
                self.isr_state,
            )
        return ProposalOutcome(has_failed=True)

    def check_enough_replicas_reach(self, required_offset: int) -> tuple[bool, ErrorCode]:
        """Whether an acks=all append up to ``required_offset`` is complete, and its error."""
        if not self.is_leader:
            return False, ErrorCode.not_leader_or_follower
        if self.log.high_watermark < required_offset:
            return False, ErrorCode.none
        if self.effective_min_isr > len(self.isr_state.maximal_isr):
            # Appended while the ISR was large enough; it shrank since.
            return True, ErrorCode.not_enough_replicas_after_append
        return True, ErrorCode.none

    def _position(self, broker: int) -> str:
        follower = self.remote_replicas.get(broker)
        end_offset = "unknown" if follower is None else follower.log_end_offset
        caught_up = "unknown" if follower is None else follower.last_caught_up_time_ms
        return f"(brokerId: {broker}, endOffset: {end_offset}, lastCaughtUpTimeMs: {caught_up})"


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(str(broker) for broker in brokers)
