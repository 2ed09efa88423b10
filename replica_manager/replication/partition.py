"""A partition on a broker: role, epochs, assignment, ISR and high watermark.

Pure: no socket; time comes in as ``now_ms``.  :mod:`.leader_and_isr` calls ``make_leader`` and
``make_follower`` with the controller's decision; each returns a record of the change.  In between a
leader records the fetches of its followers.  If a method returns a proposed ISR, the caller sends
it to the controller; if a method says that the high watermark moved, the caller checks the waiting
requests.  A follower has no remote replicas.

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
    partition_state_text,
    proposed_expand,
    proposed_shrink,
)
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from zkcontroller.state_changes.record import Kind, Reason, StateChange

ALL_IN_SYNC: Final = -1
"""``acks`` of a Produce request that waits for all in-sync replicas."""
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
    """For a leader: it was not the leader before.  For a follower: the leader epoch is new."""
    record: StateChange
    high_watermark_moved: bool = False
    """Only for a leader: if the ISR is the leader alone, the high watermark moves immediately."""


class FetchEffect(NamedTuple):
    """The effects of a follower's fetch."""

    proposal: PendingIsr | None = None
    """An ISR change to send to the controller; None if there is none."""
    high_watermark_moved: bool = False
    low_watermark_moved: bool = False


class ProposalOutcome(NamedTuple):
    """The effects of a proposal's result."""

    retry: PendingIsr | None = None
    """The proposal to send again, unchanged; None if there is none."""
    high_watermark_moved: bool = False
    has_failed: bool = False
    """Counted by the meter ``FailedIsrUpdatesPerSec``."""
    was_accepted: bool = False
    """Counted by the meter ``IsrExpandsPerSec`` or ``IsrShrinksPerSec``."""


def every_broker(_: int) -> bool:
    """True for every broker: none is known to be dead."""
    return True


class Partition:
    """One partition on this broker.  A new object has no leader, and its leader epoch is -1."""

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
        """Log end offset when this leader began its leader epoch; None on a follower."""
        self.isr_state: IsrState = CommittedIsr()
        """The ISR and its pending change; empty on a follower."""
        self.remote_replicas: dict[int, RemoteReplica] = {}
        """The followers by broker id; empty unless this broker is the leader."""

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
        """Whether this leader's ISR is smaller than ``effective_min_isr``.

        Then appends with acks=all are refused, and the high watermark does not move.
        """
        return self.is_leader and len(self.in_sync_replicas) < self.effective_min_isr

    @property
    def is_at_min_isr(self) -> bool:
        """Whether this leader's ISR has exactly the size ``effective_min_isr``."""
        return self.is_leader and len(self.in_sync_replicas) == self.effective_min_isr

    @property
    def is_under_replicated(self) -> bool:
        """Whether this leader has fewer in-sync replicas than assigned ones.

        Replicas that a reassignment is adding do not count as assigned.
        """
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

    # LeaderAndIsr: this broker becomes leader or follower.

    def create_replica(self, topic_id: UUID | None) -> None:
        """Stores the topic id of the local replica, unless it has one."""
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

        ``base`` has the fields that all records of the request share.  If the leader epoch is not
        new, only the ISR and the assignment change, and the followers keep their state.  The ISR of
        the request always replaces a pending ISR change.
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
                # As in Kafka: ``self.leader`` is still the old one, so this is set only for a
                # broker that was the leader before.
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
        # After quick elections a follower may have records of a newer epoch than any record here.
        # It learns where to truncate only if this log knows the new leader epoch.
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
        """Makes this broker a follower, unless the request is outdated.

        If the result has ``has_changed``, the caller restarts fetching.
        """
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
            # Kafka logs the new leader and epoch as the previous ones here; so does this record.
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
        """The record of a request that is skipped because its partition epoch is too old."""
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
        """The record of a request whose leader epoch is not newer than the current one."""
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

    # Appends, fetches and ISR changes of a leader.

    def append_refusal(self, acks: int) -> ErrorCode:
        """The error of an append with these ``acks``; NONE if it is allowed."""
        if not self.is_leader:
            return ErrorCode.not_leader_or_follower
        if acks == ALL_IN_SYNC and len(self.in_sync_replicas) < self.effective_min_isr:
            return ErrorCode.not_enough_replicas
        return ErrorCode.none

    def maybe_increment_high_watermark(self, now_ms: int) -> bool:
        """Raises the leader's high watermark as far as its replicas allow; True if it moved.

        Called after an append.  While the ISR is too small, the high watermark does not move, so
        that no consumer reads records without enough replicas.
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
        """Records a follower's fetch: the follower has all records below ``fetch_offset``.

        Called only for a read that succeeded without divergence, and only for the first read of a
        request: a second read says nothing new about the follower's log.
        """
        old = self.remote_replicas[replica_id]
        # Only a new log start offset can move the low watermark, which is slow to compute.
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
        """Proposes to remove lagging replicas; None if there are none or a change is pending.

        Called every half ``replica.lag.time.max.ms``.
        """
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
        """Applies an accepted proposal; changes nothing if the ISR has changed meanwhile."""
        if self.isr_state != pending:
            return ProposalOutcome()
        if altered.leader_epoch != self.leader_epoch:
            return ProposalOutcome(has_failed=True)
        if altered.partition_epoch < self.partition_epoch:
            return ProposalOutcome(has_failed=True)
        self.isr_state = CommittedIsr(altered.isr)
        self.partition_epoch = altered.partition_epoch
        _log.info(
            "[Partition %s broker=%d] ISR updated to %s %s and version updated to %d",
            self.topic_partition,
            self.broker_id,
            _joined(altered.isr),
            "(under-min-isr)" if self.is_under_min_isr else "",
            self.partition_epoch,
        )
        moved = self.maybe_increment_high_watermark(now_ms)
        return ProposalOutcome(high_watermark_moved=moved, was_accepted=True)

    def proposal_refused(self, pending: PendingIsr, error: ErrorCode) -> ProposalOutcome:
        """Handles a refused proposal by its error; changes nothing if the ISR has changed since."""
        if self.isr_state != pending:
            return ProposalOutcome()
        consequence = consequence_of(error)
        if consequence is Consequence.RETRY:
            _log.warning(
                "[Partition %s broker=%d] Failed to update ISR to %s due to unexpected %s. "
                "Retrying.",
                self.topic_partition,
                self.broker_id,
                partition_state_text(pending, self.broker_id),
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
                partition_state_text(pending, self.broker_id),
                error.name.upper(),
                partition_state_text(self.isr_state, self.broker_id),
            )
        return ProposalOutcome(has_failed=True)

    def check_enough_replicas_reach(self, required_offset: int) -> tuple[bool, ErrorCode]:
        """Whether the records below ``required_offset`` are committed (acks=all), and an error."""
        if not self.is_leader:
            return False, ErrorCode.not_leader_or_follower
        if self.log.high_watermark < required_offset:
            return False, ErrorCode.none
        if self.effective_min_isr > len(self.isr_state.maximal_isr):
            # The ISR was large enough at the append, and shrank since.
            return True, ErrorCode.not_enough_replicas_after_append
        return True, ErrorCode.none

    def _position(self, broker: int) -> str:
        follower = self.remote_replicas.get(broker)
        end_offset = "unknown" if follower is None else follower.log_end_offset
        caught_up = "unknown" if follower is None else follower.last_caught_up_time_ms
        return f"(brokerId: {broker}, endOffset: {end_offset}, lastCaughtUpTimeMs: {caught_up})"


def _joined(brokers: tuple[int, ...]) -> str:
    return ",".join(str(broker) for broker in brokers)
