"""A partition on a broker: role, epochs, assignment, ISR and high watermark.

Pure: no socket; time comes in as ``now_ms``.  :mod:`.replica_manager` calls ``make_leader`` and
``make_follower`` with what the controller decided; each returns a record of what happened.
Between two of them a leader follows its replicas' fetches: the caller sends a proposed ISR to the
controller, and wakes the waiting requests where a method says that the high watermark moved.  A
follower has no remote replicas.

Source: Kafka ``kafka.cluster.Partition``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import NO_EPOCH, UNKNOWN_BROKER_EPOCH, TopicPartition
from replica_manager.replication.isr import (
    NEVER_FETCHED,
    AlteredIsr,
    CommittedIsr,
    Consequence,
    IsrState,
    PendingIsr,
    RemoteReplica,
    consequence_of,
    high_watermark_by_isr,
    may_join_isr,
    out_of_sync_replicas,
    proposed_expand,
    proposed_shrink,
)
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from zkcontroller.state_changes.record import Kind, Reason, StateChange

ALL_IN_SYNC: Final = -1
"""``acks`` of a Produce request that waits for the ISR."""
INITIAL_PARTITION_EPOCH: Final = 0
DEFAULT_REPLICA_LAG_TIME_MAX_MS: Final = 30_000

_log = logging.getLogger("kafka.cluster.Partition")


class LeaderAndIsrPartitionState(NamedTuple):
    """One partition of a LeaderAndIsr request."""

    controller_epoch: int
    """Epoch of the controller that made the decision."""
    leader: int
    leader_epoch: int
    in_sync_replicas: tuple[int, ...]
    partition_epoch: int
    """zk_version of the state znode."""
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    is_new: bool
    leader_recovery_state: int


class Role(Enum):
    """The role of this broker's replica."""

    NONE = "none"
    LEADER = "leader"
    FOLLOWER = "follower"


class Transition(NamedTuple):
    """The outcome of ``make_leader`` or ``make_follower``."""

    has_changed: bool
    """Leader: it was not the leader before.  Follower: the leader epoch grew."""
    record: StateChange
    high_watermark_moved: bool = False
    """Only of a leader: an ISR of one has everything at once."""


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


class Partition:
    """One partition on this broker.  A fresh one has no leader and leader epoch -1."""

    __slots__ = (
        "adding_replicas",
        "broker_id",
        "controller_epoch",
        "is_alive",
        "isr_state",
        "leader",
        "leader_epoch",
        "leader_epoch_start_offset",
        "log",
        "min_in_sync_replicas",
        "partition_epoch",
        "remote_replicas",
        "removing_replicas",
        "replica_lag_time_max_ms",
        "replicas",
        "topic_id",
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
        self.topic_id: UUID | None = None
        self.broker_id = broker_id
        self.log = log
        self.replica_lag_time_max_ms = replica_lag_time_max_ms
        self.min_in_sync_replicas = 1
        self.is_alive = is_alive
        self.controller_epoch = 0
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()
        self.leader: int | None = None
        self.leader_epoch = NO_EPOCH
        self.partition_epoch = INITIAL_PARTITION_EPOCH
        self.leader_epoch_start_offset: int | None = None
        """Offset at which this broker began to lead; None while it does not."""
        self.isr_state: IsrState = CommittedIsr()
        """Empty on a follower: only the leader knows who is in sync."""
        self.remote_replicas: dict[int, RemoteReplica] = {}
        """The followers; empty unless this broker leads."""

    @property
    def role(self) -> Role:
        if self.leader is None:
            return Role.NONE
        return Role.LEADER if self.is_leader else Role.FOLLOWER

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
    def is_under_replicated(self) -> bool:
        """Whether this leader has fewer in-sync replicas than assigned, adding ones left out."""
        wanted = len(self.replicas) - len(self.adding_replicas)
        return self.role is Role.LEADER and wanted > len(self.in_sync_replicas)

    @property
    def is_reassigning(self) -> bool:
        """Whether this leader has replicas being added or removed."""
        return self.role is Role.LEADER and bool(self.adding_replicas or self.removing_replicas)

    @property
    def low_watermark(self) -> int:
        """The smallest log start offset of the live replicas; DeleteRecords waits for it."""
        followers = (
            follower.log_start_offset
            for broker, follower in self.remote_replicas.items()
            if self.is_alive(broker)
        )
        return min((self.log.log_start_offset, *followers))

    # The controller decided: leader or follower.

    def create_replica(self, topic_id: UUID | None) -> None:
        """Creates the local replica if there is none; keeps its topic id."""
        if self.topic_id is None:
            self.topic_id = topic_id

    def make_leader(
        self,
        state: LeaderAndIsrPartitionState,
        topic_id: UUID | None,
        base: StateChange,
        now_ms: int,
    ) -> Transition:
        """Makes this broker the leader, unless the request is outdated.

        ``base`` has the fields every record of the request shares.  The leader epoch may be the one
        we have already (the ISR or the assignment changed); then only these are taken over, and
        what is known of the followers stays.  A pending change of the ISR is given up in any case:
        the request contains the ISR.
        """
        if state.partition_epoch < self.partition_epoch:
            return Transition(False, self._skipped(base, state, topic_id, "leader"))
        is_new_leader = self.role is not Role.LEADER
        previous_leader, previous_epoch = self.leader, self.leader_epoch
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.controller_epoch = state.controller_epoch
        self._assign(state)
        self.isr_state = CommittedIsr(state.in_sync_replicas)
        self.remote_replicas = {
            broker: self.remote_replicas.get(broker, NEVER_FETCHED)
            for broker in state.replicas
            if broker != self.broker_id
        }
        self.create_replica(topic_id)
        if is_new_epoch:
            self._begin_leader_epoch(state, now_ms, is_new_leader=is_new_leader)
            started = self._described(base, Kind.LEADER_STARTED, state, topic_id, "leader")
            record = started._replace(
                offset=self.log_end_offset,
                high_watermark=self.high_watermark,
                previous_leader=previous_leader,
                previous_leader_epoch=previous_epoch,
                # As in Kafka: only an earlier leader can get this here.
                under_min_isr=True if self.is_under_min_isr else None,
            )
        else:
            record = self._already(base, state, topic_id, Reason.ALREADY_LEADER, "leader")
        self.partition_epoch = state.partition_epoch
        self.leader = self.broker_id
        return Transition(is_new_leader, record, self.maybe_increment_high_watermark(now_ms))

    def _begin_leader_epoch(
        self, state: LeaderAndIsrPartitionState, now_ms: int, *, is_new_leader: bool
    ) -> None:
        start_offset = self.log_end_offset
        # Followers may have records of later epochs than any record here, if elections followed
        # each other quickly.  They find out where to truncate only if this epoch is known.
        self.log.assign_epoch_start_offset(state.leader_epoch, start_offset)
        isr = state.in_sync_replicas
        for broker, follower in self.remote_replicas.items():
            self.remote_replicas[broker] = follower.at_election(
                start_offset, now_ms, is_new_leader=is_new_leader, is_in_sync=broker in isr
            )
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = start_offset

    def make_follower(
        self, state: LeaderAndIsrPartitionState, topic_id: UUID | None, base: StateChange
    ) -> Transition:
        """Makes this broker a follower; ``has_changed``: fetching must restart."""
        if state.partition_epoch < self.partition_epoch:
            return Transition(False, self._skipped(base, state, topic_id, "follower"))
        is_new_epoch = state.leader_epoch > self.leader_epoch
        self.controller_epoch = state.controller_epoch
        self.leader = state.leader
        self.leader_epoch = state.leader_epoch
        self.leader_epoch_start_offset = None
        self.partition_epoch = state.partition_epoch
        self._assign(state)
        self.isr_state = CommittedIsr()
        self.remote_replicas = {}
        self.create_replica(topic_id)
        if is_new_epoch:
            # Kafka prints the new leader and epoch as the previous ones here; so do we.
            started = self._described(base, Kind.FOLLOWER_STARTED, state, topic_id, "follower")
            record = started._replace(
                offset=self.log_end_offset,
                high_watermark=self.high_watermark,
                previous_leader=self.leader,
                previous_leader_epoch=self.leader_epoch,
            )
        else:
            record = self._already(base, state, topic_id, Reason.ALREADY_FOLLOWER, "follower")
        return Transition(is_new_epoch, record)

    def _assign(self, state: LeaderAndIsrPartitionState) -> None:
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas

    def _skipped(
        self, base: StateChange, state: LeaderAndIsrPartitionState, topic_id: UUID | None, role: str
    ) -> StateChange:
        """What is logged of a request that is skipped: its partition epoch is older than ours."""
        skipped = self._described(base, Kind.TRANSITION_SKIPPED, state, topic_id, role)
        return skipped._replace(
            reason=Reason.STALE_PARTITION_EPOCH, current_partition_epoch=self.partition_epoch
        )

    def _already(
        self,
        base: StateChange,
        state: LeaderAndIsrPartitionState,
        topic_id: UUID | None,
        reason: Reason,
        role: str,
    ) -> StateChange:
        """The record of a request with a leader epoch that is known already."""
        skipped = self._described(base, Kind.TRANSITION_SKIPPED, state, topic_id, role)
        return skipped._replace(
            reason=reason,
            high_watermark=self.high_watermark,
            current_leader_epoch=self.leader_epoch,
        )

    def _described(
        self,
        base: StateChange,
        kind: Kind,
        state: LeaderAndIsrPartitionState,
        topic_id: UUID | None,
        role: str,
    ) -> StateChange:
        return base._replace(
            kind=kind,
            topic=self.topic_partition.topic,
            partition=self.topic_partition.partition,
            topic_id=topic_id,
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            isr=state.in_sync_replicas,
            zk_version=state.partition_epoch,
            leader_recovery_state=state.leader_recovery_state,
            state_controller_epoch=state.controller_epoch,
            replicas=state.replicas,
            adding_replicas=state.adding_replicas,
            removing_replicas=state.removing_replicas,
            is_new=state.is_new,
            role=role,
        )

    # What a leader does between two decisions.

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

    def _maybe_expand_isr(self, replica_id: int, follower: RemoteReplica) -> PendingIsr | None:
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
