"""The ISR: followers' positions, pending changes, and the high watermark rule.

A leader never changes its ISR; it proposes a change to the controller and waits for the response.
Meanwhile the ISR may be the old or the new one, and each decision must be right for both:

- an *expansion* counts immediately: it only makes the high watermark wait for one more replica;
- a *shrinkage* counts once it is committed: until then the controller may still elect a replica
  that leaves, so that replica must have every acknowledged record.

The set that is right for both is the *maximal ISR*.  The high watermark is the smallest log end
offset of its replicas.  It also waits for replicas that are about to join; otherwise they might
never catch up with it.

Source: Kafka ``Replica``, ``Partition`` (``PartitionState``, ``maybeIncrementLeaderHW``,
``handleAlterPartitionError``), KIP-497.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import LEADER_RECOVERY_STATES, RECOVERED, UNKNOWN_BROKER_EPOCH, LeaderAndIsr
from replica_manager.replication.fetch_values import UNKNOWN_OFFSET
from zkcontroller.core.journal import scala_set
from zkcontroller.state_changes.kafka_values import leader_and_isr_of


class RemoteReplica(NamedTuple):
    """A leader's view of one follower; the default values are those before its first fetch."""

    log_end_offset: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET
    last_fetch_leader_log_end_offset: int = 0
    """The leader's log end offset when the follower last fetched."""
    last_fetch_time_ms: int = 0
    last_caught_up_time_ms: int = 0
    """The latest time at which the follower had every record of the leader; 0 if never."""
    broker_epoch: int = UNKNOWN_BROKER_EPOCH

    def after_fetch(
        self,
        fetch_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        now_ms: int,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
    ) -> RemoteReplica:
        """The state after a fetch at ``fetch_offset``: the follower has all records below it.

        ``leader_end_offset`` is the leader's log end offset before the read, so that records
        appended during the read do not make the follower lag.
        """
        caught_up_ms = self.last_caught_up_time_ms
        if fetch_offset >= leader_end_offset:
            caught_up_ms = max(caught_up_ms, now_ms)
        elif fetch_offset >= self.last_fetch_leader_log_end_offset:
            # Under a steady load a follower is always one batch behind.  It has caught up if it
            # now has every record that the leader had at the fetch before.
            caught_up_ms = max(caught_up_ms, self.last_fetch_time_ms)
        return RemoteReplica(
            fetch_offset,
            log_start_offset,
            max(leader_end_offset, self.last_fetch_leader_log_end_offset),
            now_ms,
            caught_up_ms,
            broker_epoch,
        )

    def at_election(
        self, epoch_start_offset: int, now_ms: int, *, is_new_leader: bool, is_in_sync: bool
    ) -> RemoteReplica:
        """The follower's state when this broker begins a new leader epoch.

        A new leader forgets the follower's offsets: they are of an older leader epoch, and the
        follower may have truncated its log since.  A replica in the ISR counts as caught up now,
        so it may lag for ``replica.lag.time.max.ms``.  Any other replica counts as never caught
        up, so the high watermark does not wait for it.
        """
        grace_ms = now_ms if is_in_sync else 0
        if is_new_leader:
            return _forgotten(grace_ms)
        return RemoteReplica(
            self.log_end_offset,
            self.log_start_offset,
            epoch_start_offset,
            grace_ms,
            grace_ms,
            self.broker_epoch,
        )

    def is_caught_up(self, leader_end_offset: int, now_ms: int, max_lag_ms: int) -> bool:
        """Whether the follower had all records of the leader within the last ``max_lag_ms``."""
        if self.log_end_offset == leader_end_offset:
            return True
        return now_ms - self.last_caught_up_time_ms <= max_lag_ms


@lru_cache(maxsize=2)
def _forgotten(grace_ms: int) -> RemoteReplica:
    """The state of a follower of a new leader; ``grace_ms`` is when it counts as caught up.

    Cached: a failover makes thousands of leaders, and all their followers share two values.
    """
    return RemoteReplica(
        last_fetch_leader_log_end_offset=UNKNOWN_OFFSET, last_caught_up_time_ms=grace_ms
    )


NEVER_FETCHED: Final = RemoteReplica()
"""The state of a follower that has not fetched yet."""


class CommittedIsr(Struct, frozen=True):
    """The ISR last set by the controller; no change is pending."""

    isr: tuple[int, ...] = ()

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR: no replica is about to join."""
        return self.isr


class PendingExpand(Struct, frozen=True):
    """A proposal that a replica joins the ISR; the high watermark already waits for it."""

    committed: CommittedIsr
    new_in_sync_replica: int
    proposal: IsrProposal

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR and the replica that is to join."""
        return (*self.committed.isr, self.new_in_sync_replica)


class PendingShrink(Struct, frozen=True):
    """A proposal that replicas leave the ISR; the high watermark still waits for them."""

    committed: CommittedIsr
    out_of_sync_replicas: tuple[int, ...]
    proposal: IsrProposal

    @property
    def isr(self) -> tuple[int, ...]:
        """The committed ISR."""
        return self.committed.isr

    @property
    def maximal_isr(self) -> tuple[int, ...]:
        """The committed ISR, which contains the replicas that are to leave."""
        return self.committed.isr


PendingIsr: TypeAlias = PendingExpand | PendingShrink
IsrState: TypeAlias = CommittedIsr | PendingIsr


class IsrProposal(NamedTuple):
    """One partition of an AlterPartition request."""

    leader_epoch: int
    new_isr: tuple[int, ...]
    partition_epoch: int
    """The partition epoch of the ISR to replace; the controller refuses any other epoch."""
    leader_recovery_state: int = RECOVERED


def partition_state_text(state: IsrState, broker_id: int) -> str:
    """The state as Kafka prints it; ``broker_id`` is the leader.

    Source: ``toString`` of ``PendingExpandIsr``, ``PendingShrinkIsr``, ``CommittedPartitionState``.
    """
    recovery = f"leaderRecoveryState={LEADER_RECOVERY_STATES[RECOVERED]}"
    if isinstance(state, CommittedIsr):
        return f"CommittedPartitionState(isr={scala_set(state.isr)}, {recovery})"
    proposal = state.proposal
    sent = LeaderAndIsr(
        broker_id, proposal.leader_epoch, proposal.new_isr, proposal.partition_epoch, 0
    )
    change = (
        f"PendingExpandIsr(newInSyncReplicaId={state.new_in_sync_replica}"
        if isinstance(state, PendingExpand)
        else f"PendingShrinkIsr(outOfSyncReplicaIds={scala_set(state.out_of_sync_replicas)}"
    )
    committed = partition_state_text(state.committed, broker_id)
    return (
        f"{change}, sentLeaderAndIsr={leader_and_isr_of(sent)}, {recovery},"
        f" lastCommittedState={committed})"
    )


class AlteredIsr(NamedTuple):
    """The controller's response to an accepted proposal."""

    leader_epoch: int
    isr: tuple[int, ...]
    partition_epoch: int


class Consequence(Enum):
    """The leader's reaction to a refused proposal."""

    REVERT = "the controller says that nothing was written, so the committed ISR is the ISR"
    STAY_PENDING = "what was written is not known here; only a LeaderAndIsr request can tell"
    RETRY = "the same proposal is sent again"


_CONSEQUENCES: Final[Mapping[ErrorCode, Consequence]] = {
    ErrorCode.operation_not_attempted: Consequence.REVERT,
    ErrorCode.ineligible_replica: Consequence.REVERT,
    ErrorCode.unknown_topic_or_partition: Consequence.STAY_PENDING,
    ErrorCode.unknown_topic_id: Consequence.STAY_PENDING,
    ErrorCode.fenced_leader_epoch: Consequence.STAY_PENDING,
    ErrorCode.invalid_update_version: Consequence.STAY_PENDING,
    ErrorCode.invalid_request: Consequence.STAY_PENDING,
    ErrorCode.new_leader_elected: Consequence.STAY_PENDING,
}


def consequence_of(error: ErrorCode) -> Consequence:
    """The leader's reaction to a proposal refused with that error.

    After INVALID_UPDATE_VERSION the ISR may have changed as proposed: the first response was lost,
    the request was sent again, and its partition epoch was no longer the newest.  So the proposal
    stays pending.

    Source: Kafka ``Partition.handleAlterPartitionError``.
    """
    return _CONSEQUENCES.get(error, Consequence.RETRY)


def proposed_expand(
    committed: CommittedIsr, replica: int, leader_epoch: int, partition_epoch: int
) -> PendingExpand:
    """A proposal that ``replica`` joins the ISR; ValueError if it is in the ISR already."""
    if replica in committed.isr:
        raise ValueError(f"replica {replica} is in the ISR {committed.isr}")
    new_isr = (*committed.isr, replica)
    return PendingExpand(committed, replica, IsrProposal(leader_epoch, new_isr, partition_epoch))


def proposed_shrink(
    committed: CommittedIsr, leaving: tuple[int, ...], leader_epoch: int, partition_epoch: int
) -> PendingShrink:
    """A proposal that the replicas ``leaving`` leave the ISR; ValueError if there are none."""
    if not leaving:
        raise ValueError("a shrink of the ISR without a replica that leaves")
    new_isr = tuple(broker for broker in committed.isr if broker not in leaving)
    return PendingShrink(committed, leaving, IsrProposal(leader_epoch, new_isr, partition_epoch))


def out_of_sync_replicas(
    isr: Iterable[int],
    leader: int,
    followers: Mapping[int, RemoteReplica],
    leader_end_offset: int,
    now_ms: int,
    max_lag_ms: int,
) -> tuple[int, ...]:
    """Members of the ISR that have not caught up for longer than ``max_lag_ms``.

    A member that is not in ``followers`` is no longer assigned, and is out of sync as well.
    """
    return tuple(
        broker
        for broker in isr
        if broker != leader
        and (
            broker not in followers
            or not followers[broker].is_caught_up(leader_end_offset, now_ms, max_lag_ms)
        )
    )


def may_join_isr(
    follower: RemoteReplica, high_watermark: int, leader_epoch_start_offset: int | None
) -> bool:
    """Whether a follower meets the conditions to join the ISR.

    It must have reached the start of the leader epoch as well as the high watermark: a new leader's
    high watermark lags behind, and records between it and the epoch's start may be committed.
    """
    if leader_epoch_start_offset is None:
        return False
    return follower.log_end_offset >= max(high_watermark, leader_epoch_start_offset)


def high_watermark_by_isr(
    isr_state: IsrState,
    followers: Mapping[int, RemoteReplica],
    leader_end_offset: int,
    now_ms: int,
    max_lag_ms: int,
    is_alive: Callable[[int], bool],
) -> int:
    """The smallest log end offset of the maximal ISR.

    Replicas outside it count too if they are caught up and alive: they are about to join, and a
    high watermark above their log end offset would keep them out.
    """
    maximal_isr = isr_state.maximal_isr
    high_watermark = leader_end_offset
    for broker, follower in followers.items():
        if follower.log_end_offset < high_watermark and (
            broker in maximal_isr
            or (follower.is_caught_up(leader_end_offset, now_ms, max_lag_ms) and is_alive(broker))
        ):
            high_watermark = follower.log_end_offset
    return high_watermark
