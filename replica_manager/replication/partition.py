"""A partition on a broker: role, epochs and assignment.

Pure: no socket, no clock.  ``make_leader`` and ``make_follower`` take what the controller decided
and answer with a record of what happened; :mod:`.replica_manager` decides which of them is called.
What a leader does between two of them is in :mod:`.partition_replicas`.

Source: Kafka ``kafka.cluster.Partition``.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from replica_manager.replication.isr import NEVER_HEARD_OF, CommittedIsr
from replica_manager.replication.partition_replicas import (
    DEFAULT_REPLICA_LAG_TIME_MAX_MS,
    PartitionReplicas,
    every_broker,
)
from replica_manager.replication.replica_log import ABSENT_LOG, ReplicaLog
from zkcontroller.model import TopicPartition
from zkcontroller.state_changes.record import Kind, Reason, StateChange


class PartitionState(NamedTuple):
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


class Partition(PartitionReplicas):
    """One partition on this broker.  A fresh one has no leader and leader epoch -1."""

    __slots__ = (
        "adding_replicas",
        "controller_epoch",
        "removing_replicas",
        "replicas",
        "topic_id",
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
        super().__init__(
            topic_partition,
            broker_id,
            log=log,
            replica_lag_time_max_ms=replica_lag_time_max_ms,
            is_alive=is_alive,
        )
        self.topic_id: UUID | None = None
        self.controller_epoch = 0
        self.replicas: tuple[int, ...] = ()
        self.adding_replicas: tuple[int, ...] = ()
        self.removing_replicas: tuple[int, ...] = ()

    @property
    def role(self) -> Role:
        if self.leader is None:
            return Role.NONE
        return Role.LEADER if self.is_leader else Role.FOLLOWER

    @property
    def is_under_replicated(self) -> bool:
        """Whether this leader has fewer in-sync replicas than assigned, adding ones left out."""
        wanted = len(self.replicas) - len(self.adding_replicas)
        return self.role is Role.LEADER and wanted > len(self.in_sync_replicas)

    @property
    def is_reassigning(self) -> bool:
        """Whether this leader has replicas being added or removed."""
        return self.role is Role.LEADER and bool(self.adding_replicas or self.removing_replicas)

    def create_replica(self, topic_id: UUID | None) -> None:
        """Creates the local replica if there is none; keeps its topic id."""
        if self.topic_id is None:
            self.topic_id = topic_id

    def make_leader(
        self, state: PartitionState, topic_id: UUID | None, base: StateChange, now_ms: int
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
            broker: self.remote_replicas.get(broker, NEVER_HEARD_OF)
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
        self, state: PartitionState, now_ms: int, *, is_new_leader: bool
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
        self, state: PartitionState, topic_id: UUID | None, base: StateChange
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

    def _assign(self, state: PartitionState) -> None:
        self.replicas = state.replicas
        self.adding_replicas = state.adding_replicas
        self.removing_replicas = state.removing_replicas

    def _skipped(
        self, base: StateChange, state: PartitionState, topic_id: UUID | None, role: str
    ) -> StateChange:
        """The record of a request that is older than this partition epoch."""
        skipped = self._described(base, Kind.TRANSITION_SKIPPED, state, topic_id, role)
        return skipped._replace(
            reason=Reason.STALE_PARTITION_EPOCH, current_partition_epoch=self.partition_epoch
        )

    def _already(
        self,
        base: StateChange,
        state: PartitionState,
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
        state: PartitionState,
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
