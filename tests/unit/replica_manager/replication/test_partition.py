"""A partition's replicas: who is in sync, what is committed, who may read.

Source of the behaviours: Kafka ``PartitionTest``.
"""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from kafka_common.protocol.fetch import FetchPartition
from replica_manager.log.leader_epoch_file_cache import EpochEndOffset
from replica_manager.replication.fetch_values import FetchPartitionData
from replica_manager.replication.isr import (
    AlteredIsr,
    CommittedIsr,
    Consequence,
    PendingExpand,
    PendingShrink,
    RemoteReplica,
    consequence_of,
)
from replica_manager.replication.partition import ALL_IN_SYNC, LeaderAndIsrPartitionState, Partition
from replica_manager.replication.partition_reads import (
    LogReadInfo,
    check_latest_offset,
    check_read,
    end_offset_for_leader_epoch,
    prepare_read,
)
from tests.simulation.replication_log import InMemoryLog
from zkcontroller.state_changes.record import Kind, StateChange

LAG_MS = 1_000
BASE = StateChange(Kind.LEADER_AND_ISR_HANDLING, "broker", 1, 1, 1)


class Replica:
    """Broker 1's replica of a partition on brokers 1, 2, 3."""

    def __init__(self) -> None:
        self.log = InMemoryLog()
        self.dead: set[int] = set()
        self.partition = Partition(
            TopicPartition("orders", 0),
            1,
            log=self.log,
            replica_lag_time_max_ms=LAG_MS,
            is_alive=lambda broker: broker not in self.dead,
        )
        self.now_ms = 10_000

    def lead(
        self,
        leader_epoch: int = 1,
        isr: tuple[int, ...] = (1, 2, 3),
        partition_epoch: int = 1,
        replicas: tuple[int, ...] = (1, 2, 3),
    ) -> bool:
        state = LeaderAndIsrPartitionState(
            1, 1, leader_epoch, isr, partition_epoch, replicas, (), (), False, 0
        )
        return self.partition.make_leader(state, None, BASE, self.now_ms).has_changed

    def follow(self, leader_epoch: int, partition_epoch: int = 1) -> bool:
        state = LeaderAndIsrPartitionState(
            1, 2, leader_epoch, (2, 3), partition_epoch, (1, 2, 3), (), (), False, 0
        )
        return self.partition.make_follower(state, None, BASE).has_changed

    def append(self, count: int = 1) -> bool:
        for _ in range(count):
            self.log.append_as_leader("x", self.partition.leader_epoch)
        return self.partition.maybe_increment_high_watermark(self.now_ms)

    def fetched(self, replica: int, offset: int, now_ms: int | None = None) -> Any:
        end = self.log.log_end_offset
        time = self.now_ms if now_ms is None else now_ms
        return self.partition.record_fetch(replica, offset, 0, end, time)


@pytest.fixture
def replica() -> Replica:
    return Replica()


# ---------------------------------------------------------------------- becoming leader


def test_the_epoch_of_a_new_leader_is_in_the_epoch_cache_before_any_append(
    replica: Replica,
) -> None:
    for _ in range(4):
        replica.log.append_as_leader("old", 0)

    replica.lead(leader_epoch=3)

    assert replica.log.epochs == [(0, 0), (3, 4)]
    assert replica.partition.leader_epoch_start_offset == 4


def test_a_new_leader_forgets_where_its_followers_were(replica: Replica) -> None:
    replica.lead(1)
    replica.append(5)
    replica.fetched(2, 5)
    replica.follow(2)
    assert replica.partition.remote_replicas == {}

    replica.lead(3)

    follower = replica.partition.remote_replicas[2]
    assert follower == RemoteReplica(-1, -1, -1, 0, replica.now_ms)


def test_a_leader_elected_again_keeps_their_positions_and_grants_a_new_grace(
    replica: Replica,
) -> None:
    replica.lead(1)
    replica.append(5)
    replica.fetched(2, 4)
    replica.now_ms += 500

    replica.lead(2, isr=(1, 2))

    in_sync, other = (replica.partition.remote_replicas[broker] for broker in (2, 3))
    assert in_sync == RemoteReplica(4, 0, 5, replica.now_ms, replica.now_ms)
    assert (other.last_fetch_time_ms, other.last_caught_up_time_ms) == (0, 0)


def test_without_a_new_leader_epoch_positions_and_epoch_start_stay(replica: Replica) -> None:
    replica.lead(1)
    replica.append(3)
    replica.fetched(2, 2)
    known = dict(replica.partition.remote_replicas)

    assert not replica.lead(1, partition_epoch=2)

    assert replica.partition.remote_replicas == known
    assert replica.partition.leader_epoch_start_offset == 0


def test_an_isr_of_one_commits_its_log_at_once(replica: Replica) -> None:
    for _ in range(4):
        replica.log.append_as_leader("old", 0)

    replica.lead(isr=(1,))

    assert replica.partition.high_watermark == 4


# ---------------------------------------------------------------------- the high watermark


def test_the_high_watermark_is_the_smallest_end_over_the_isr(replica: Replica) -> None:
    replica.lead()
    replica.append(5)

    assert not replica.fetched(2, 5).high_watermark_moved
    assert replica.fetched(3, 3).high_watermark_moved
    assert replica.partition.high_watermark == 3


def test_it_waits_for_a_replica_about_to_join_as_long_as_that_one_keeps_up(
    replica: Replica,
) -> None:
    replica.lead(isr=(1, 2))
    replica.append(1)
    replica.fetched(3, 1)
    replica.partition.isr_state = CommittedIsr((1, 2))
    replica.append(1)

    replica.fetched(2, 2)
    assert replica.partition.high_watermark == 1

    replica.now_ms += LAG_MS + 1
    replica.append(1)
    replica.fetched(2, 3)
    assert replica.partition.high_watermark == 3


def test_it_does_not_wait_for_a_dead_replica_outside_the_isr(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    replica.append(1)
    replica.dead.add(3)
    replica.fetched(3, 0)

    replica.fetched(2, 1)

    assert replica.partition.high_watermark == 1


def test_it_stands_still_while_the_isr_is_too_small(replica: Replica) -> None:
    replica.partition.min_in_sync_replicas = 2
    replica.lead(isr=(1,))
    replica.append(2)

    pending = replica.fetched(2, 2).proposal

    # The maximal ISR is large enough already; the ISR is not.
    assert isinstance(pending, PendingExpand)
    assert replica.partition.high_watermark == 0
    assert replica.partition.is_under_min_isr
    response = AlteredIsr(1, (1, 2), 2)
    assert replica.partition.proposal_accepted(
        pending, response, replica.now_ms
    ).high_watermark_moved
    assert replica.partition.high_watermark == 2


def test_min_isr_is_never_more_than_there_are_replicas(replica: Replica) -> None:
    replica.partition.min_in_sync_replicas = 5
    replica.lead(isr=(1, 2), replicas=(1, 2), partition_epoch=1)

    assert replica.partition.is_at_min_isr
    assert replica.partition.append_refusal(ALL_IN_SYNC) is ErrorCode.none


# ---------------------------------------------------------------------- produce


def test_who_may_append(replica: Replica) -> None:
    partition = replica.partition
    assert partition.append_refusal(1) is ErrorCode.not_leader_or_follower

    partition.min_in_sync_replicas = 2
    replica.lead(isr=(1,))

    assert partition.append_refusal(ALL_IN_SYNC) is ErrorCode.not_enough_replicas
    assert partition.append_refusal(1) is ErrorCode.none


def test_an_append_is_acknowledged_once_it_is_committed(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    replica.append(1)
    check = replica.partition.check_enough_replicas_reach

    assert check(1) == (False, ErrorCode.none)
    replica.fetched(2, 1)
    assert check(1) == (True, ErrorCode.none)

    replica.partition.min_in_sync_replicas = 3
    assert check(1) == (True, ErrorCode.not_enough_replicas_after_append)
    replica.follow(2)
    assert check(1) == (False, ErrorCode.not_leader_or_follower)


def test_an_append_waits_on_when_the_isr_shrinks_below_the_minimum(replica: Replica) -> None:
    """The high watermark stands still meanwhile, so who waits gets no error before its time."""
    replica.partition.min_in_sync_replicas = 2
    replica.lead(isr=(1, 2))
    replica.append(1)
    check = replica.partition.check_enough_replicas_reach

    pending = replica.partition.maybe_shrink_isr(replica.now_ms + LAG_MS + 1)
    assert pending is not None
    replica.partition.proposal_accepted(pending, AlteredIsr(1, (1,), 2), replica.now_ms)

    assert replica.partition.is_under_min_isr
    assert replica.log.high_watermark == 0
    assert check(1) == (False, ErrorCode.none)


# ---------------------------------------------------------------------- the ISR


def test_a_follower_that_reached_high_watermark_and_epoch_start_is_proposed(
    replica: Replica,
) -> None:
    for _ in range(4):
        replica.log.append_as_leader("old", 0)
    replica.lead(isr=(1, 2))

    # The new leader's high watermark is still 0, but there may be committed records up to 4.
    assert replica.fetched(3, 3).proposal is None

    proposal = replica.fetched(3, 4).proposal
    assert isinstance(proposal, PendingExpand)
    assert proposal.proposal == (1, (1, 2, 3), 1, 0)


def test_a_dead_follower_and_a_second_one_are_not_proposed(replica: Replica) -> None:
    replica.lead(isr=(1,))
    replica.dead.add(2)

    assert replica.fetched(2, 0).proposal is None
    assert replica.fetched(3, 0).proposal is not None
    replica.dead.clear()
    assert replica.fetched(2, 0).proposal is None


def test_followers_that_lag_are_proposed_to_leave(replica: Replica) -> None:
    replica.lead()
    replica.append(5)
    replica.fetched(2, 5)
    replica.now_ms += LAG_MS
    assert replica.partition.maybe_shrink_isr(replica.now_ms) is None

    pending = replica.partition.maybe_shrink_isr(replica.now_ms + 1)

    assert isinstance(pending, PendingShrink)
    assert pending.out_of_sync_replicas == (3,)
    assert pending.proposal.new_isr == (1, 2)


def test_a_follower_at_the_end_stays_whatever_its_last_fetch_was(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    replica.append(5)
    replica.fetched(2, 5)

    assert replica.partition.maybe_shrink_isr(replica.now_ms + 100 * LAG_MS) is None


def test_a_follower_always_one_batch_behind_stays(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    for step in range(5):
        replica.append(10)
        replica.now_ms += LAG_MS
        replica.fetched(2, 10 * step)
        assert replica.partition.maybe_shrink_isr(replica.now_ms) is None

    replica.append(10)
    assert replica.partition.maybe_shrink_isr(replica.now_ms + LAG_MS) is not None


def test_a_member_that_is_no_longer_assigned_is_proposed_to_leave(replica: Replica) -> None:
    replica.lead(isr=(1, 2, 3), replicas=(1, 2))

    pending = replica.partition.maybe_shrink_isr(replica.now_ms)

    assert isinstance(pending, PendingShrink)
    assert pending.out_of_sync_replicas == (3,)


def test_a_pending_shrinkage_holds_the_high_watermark_back(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    replica.append(5)
    pending = replica.partition.maybe_shrink_isr(replica.now_ms + LAG_MS + 1)
    assert isinstance(pending, PendingShrink)

    replica.append(0)
    assert replica.partition.high_watermark == 0

    outcome = replica.partition.proposal_accepted(pending, AlteredIsr(1, (1,), 2), 99_999)
    assert outcome.high_watermark_moved
    assert replica.partition.high_watermark == 5
    assert replica.partition.partition_epoch == 2


def test_a_pending_expansion_holds_the_high_watermark_back_at_once(
    replica: Replica, caplog: pytest.LogCaptureFixture
) -> None:
    replica.lead(isr=(1, 2))
    pending = replica.fetched(3, 0).proposal
    replica.append(2)
    replica.now_ms += LAG_MS + 1
    replica.fetched(2, 2)

    assert replica.partition.in_sync_replicas == (1, 2)
    assert replica.partition.isr_state.maximal_isr == (1, 2, 3)
    assert replica.partition.high_watermark == 0

    with caplog.at_level("INFO"):
        outcome = replica.partition.proposal_refused(pending, ErrorCode.ineligible_replica)
    assert outcome.has_failed
    assert caplog.messages == [
        "[Partition orders-0 broker=1] Failed to alter partition to PendingExpandIsr("
        "newInSyncReplicaId=3, sentLeaderAndIsr=LeaderAndIsr(leader=1, leaderEpoch=1, "
        "isrWithBrokerEpoch=List(BrokerState(brokerId=1, brokerEpoch=-1), "
        "BrokerState(brokerId=2, brokerEpoch=-1), BrokerState(brokerId=3, brokerEpoch=-1)), "
        "leaderRecoveryState=RECOVERED, partitionEpoch=1), leaderRecoveryState=RECOVERED, "
        "lastCommittedState=CommittedPartitionState(isr=Set(1, 2), "
        "leaderRecoveryState=RECOVERED)) since the controller rejected the request with "
        "INELIGIBLE_REPLICA. Partition state has been reset to the latest committed state "
        "CommittedPartitionState(isr=Set(1, 2), leaderRecoveryState=RECOVERED)."
    ]
    assert replica.partition.isr_state == CommittedIsr((1, 2))
    replica.append(0)
    assert replica.partition.high_watermark == 2


@pytest.mark.parametrize(
    ("error", "consequence"),
    [
        (ErrorCode.operation_not_attempted, Consequence.REVERT),
        (ErrorCode.ineligible_replica, Consequence.REVERT),
        (ErrorCode.unknown_topic_or_partition, Consequence.STAY_PENDING),
        (ErrorCode.unknown_topic_id, Consequence.STAY_PENDING),
        (ErrorCode.fenced_leader_epoch, Consequence.STAY_PENDING),
        (ErrorCode.invalid_update_version, Consequence.STAY_PENDING),
        (ErrorCode.invalid_request, Consequence.STAY_PENDING),
        (ErrorCode.new_leader_elected, Consequence.STAY_PENDING),
        (ErrorCode.unknown_server_error, Consequence.RETRY),
        (ErrorCode.request_timed_out, Consequence.RETRY),
    ],
)
def test_each_refusal_has_its_consequence(
    replica: Replica, error: ErrorCode, consequence: Consequence
) -> None:
    replica.lead(isr=(1, 2))
    pending = replica.fetched(3, 0).proposal

    outcome = replica.partition.proposal_refused(pending, error)

    assert consequence_of(error) is consequence
    assert outcome.has_failed
    assert outcome.retry == (pending if consequence is Consequence.RETRY else None)
    is_reverted = replica.partition.isr_state == CommittedIsr((1, 2))
    assert is_reverted == (consequence is Consequence.REVERT)


def test_an_answer_of_another_time_changes_nothing(replica: Replica) -> None:
    replica.lead(isr=(1, 2))
    pending = replica.fetched(3, 0).proposal
    accepted = replica.partition.proposal_accepted

    assert accepted(pending, AlteredIsr(2, (1, 2, 3), 2), 0).has_failed
    assert accepted(pending, AlteredIsr(1, (1, 2, 3), 0), 0).has_failed
    assert replica.partition.isr_state == pending

    replica.lead(leader_epoch=2, isr=(1, 2), partition_epoch=3)
    assert not accepted(pending, AlteredIsr(1, (1, 2, 3), 2), 0).has_failed
    assert replica.partition.isr_state == CommittedIsr((1, 2))
    assert replica.partition.proposal_refused(pending, ErrorCode.unknown_server_error).retry is None


def test_the_low_watermark_is_the_smallest_start_among_the_living(replica: Replica) -> None:
    replica.lead()
    replica.append(9)
    for follower, start in ((2, 4), (3, 1)):
        replica.partition.record_fetch(follower, 9, start, 9, replica.now_ms)
    replica.log.maybe_increment_log_start_offset(7, "test")
    assert replica.partition.low_watermark == 1

    replica.dead.add(3)
    assert replica.partition.low_watermark == 4
    assert replica.partition.record_fetch(2, 9, 8, 9, 0).low_watermark_moved
    assert replica.partition.low_watermark == 7


# ---------------------------------------------------------------------- reading


def wanted(offset: int, leader_epoch: int = 5, last_fetched_epoch: int = -1) -> FetchPartition:
    return FetchPartition(None, offset, 1_000, leader_epoch, last_fetched_epoch)


def test_the_leader_epoch_of_a_reader_counts_before_the_role(replica: Replica) -> None:
    replica.follow(5)
    partition = replica.partition

    assert check_read(partition, 4, leader_only=True) is ErrorCode.fenced_leader_epoch
    assert check_read(partition, 6, leader_only=True) is ErrorCode.unknown_leader_epoch
    assert check_read(partition, 5, leader_only=True) is ErrorCode.not_leader_or_follower
    assert check_read(partition, -1, leader_only=True) is ErrorCode.not_leader_or_follower
    assert check_read(partition, 5, leader_only=False) is ErrorCode.none


def test_a_broker_that_is_no_replica_may_not_fetch(replica: Replica) -> None:
    replica.lead(5, replicas=(1, 2), isr=(1, 2))

    with_epoch = prepare_read(replica.partition, wanted(0), replica_id=3)
    without = prepare_read(replica.partition, wanted(0, leader_epoch=-1), replica_id=3)

    assert with_epoch == FetchPartitionData(ErrorCode.unknown_leader_epoch)
    assert without == FetchPartitionData(ErrorCode.not_leader_or_follower)


@pytest.mark.parametrize(
    ("offset", "last_fetched_epoch", "diverging"),
    [
        (10, 5, None),
        (13, 5, EpochEndOffset(5, 12)),
        (6, 2, EpochEndOffset(2, 5)),
        (5, 2, None),
        (8, 3, EpochEndOffset(2, 5)),
        (10, 4, None),
        (11, 4, EpochEndOffset(4, 10)),
        (1, 0, EpochEndOffset(0, 0)),
    ],
)
def test_a_follower_learns_where_its_log_leaves_the_leaders(
    replica: Replica, offset: int, last_fetched_epoch: int, diverging: EpochEndOffset | None
) -> None:
    for epoch, count in ((2, 5), (4, 5), (5, 2)):
        for _ in range(count):
            replica.log.append_as_leader("x", epoch)
    replica.lead(5)

    response = prepare_read(replica.partition, wanted(offset, 5, last_fetched_epoch), replica_id=2)

    if diverging is None:
        assert response == LogReadInfo(0, 0, 0, 12)
    else:
        assert isinstance(response, FetchPartitionData)
        assert response.diverging_epoch == diverging
        assert response.error is ErrorCode.none


def test_an_epoch_or_an_offset_that_the_leader_cannot_place_is_out_of_range(
    replica: Replica,
) -> None:
    replica.lead(5)
    replica.append(10)
    replica.log.high_watermark = 10
    replica.log.maybe_increment_log_start_offset(4, "test")

    for question in (wanted(5, last_fetched_epoch=9), wanted(3, last_fetched_epoch=5), wanted(3)):
        assert prepare_read(replica.partition, question, replica_id=2) == FetchPartitionData(
            ErrorCode.offset_out_of_range
        )
    assert isinstance(prepare_read(replica.partition, wanted(10), replica_id=2), LogReadInfo)
    assert prepare_read(replica.partition, wanted(11), replica_id=2) == FetchPartitionData(
        ErrorCode.offset_out_of_range
    )


def test_where_an_epoch_ends_is_reported_by_the_leader_alone(replica: Replica) -> None:
    replica.log.append_as_leader("x", 2)
    replica.follow(4)
    end = end_offset_for_leader_epoch
    assert end(replica.partition, 4, 2) == (ErrorCode.not_leader_or_follower, (-1, -1))

    replica.lead(5)

    assert end(replica.partition, 5, 2) == (ErrorCode.none, (2, 1))
    assert end(replica.partition, 5, 5) == (ErrorCode.none, (5, 1))
    assert end(replica.partition, 5, 9) == (ErrorCode.none, (-1, -1))
    assert end(replica.partition, 4, 2) == (ErrorCode.fenced_leader_epoch, (-1, -1))


def test_a_lagging_new_leader_does_not_tell_clients_the_end(replica: Replica) -> None:
    for _ in range(4):
        replica.log.append_as_leader("old", 0)
    replica.lead(1)
    assert check_latest_offset(replica.partition) is ErrorCode.offset_not_available

    replica.fetched(2, 4)
    replica.fetched(3, 4)

    assert check_latest_offset(replica.partition) is ErrorCode.none
