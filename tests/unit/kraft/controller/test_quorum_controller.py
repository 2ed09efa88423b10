"""The controller of a KRaft cluster: writes, commits, leadership, and what it does by itself.

Source of the behaviours: Kafka ``QuorumControllerTest``.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from typing_extensions import override

from kafka_common.api_error import ApiException
from kafka_common.errors import IllegalState, InvalidRecord, RecordListTooLarge
from kafka_common.model import ElectionType
from kraft.controller import quorum_controller
from kraft.controller.features import FeatureLevelUpdate, FinalizedControllerFeatures
from kraft.controller.heartbeats import BrokerHeartbeat
from kraft.controller.migration_state import ZkMigrationState
from kraft.controller.partition_registration import PartitionId, PartitionRegistration
from kraft.controller.quorum_controller_requests import (
    AlterClientQuotas,
    AlterUserScramCredentials,
    ControllerRequest,
    DeleteTopics,
    ElectLeaders,
    FindAllTopicIds,
    FindTopicIds,
    GetFinalizedFeatures,
    ListReassignments,
    ProcessBrokerHeartbeat,
    UnregisterBroker,
    UpdateFeatureLevels,
)
from kraft.controller.quorum_controller_state import QuorumControllerConfig
from kraft.controller.quorum_controller_values import (
    CommitHandled,
    CommittedBatch,
    ControllerRequestCompleted,
    ControllerRequestReceived,
    FatalFault,
    LeaderChanged,
    SnapshotLoaded,
)
from kraft.controller.result import VersionedRecord
from kraft.controller.topic_requests import CreatableTopicResult
from kraft.metadata.metadata_version import FEATURE_NAME, from_name
from kraft.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    NoOpRecord,
    PartitionChangeRecord,
    RegisterBrokerRecord,
    TopicRecord,
    ZkMigrationStateRecord,
)
from kraft.raft.values import LeaderAndEpoch, OffsetAndEpoch
from tests.support.quorum_controller_world import CLUSTER_ID, QUIET, QuorumWorld, topic

SESSION_TIMEOUT_MS = 9_000


def partition_of(world: QuorumWorld, topic_id: UUID) -> PartitionRegistration:
    partition = world.active.state.replication.state.partition(PartitionId(topic_id, 0))
    assert partition is not None
    return partition


def creation(response: object) -> CreatableTopicResult:
    """What became of the one topic that was to be created."""
    assert isinstance(response, tuple)
    (result,) = response
    assert isinstance(result, CreatableTopicResult)
    return result


# ---------------------------------------------------------------------- activation


def test_the_first_active_controller_writes_bootstrap_records_and_the_second_none() -> None:
    world = QuorumWorld.led(config=QUIET)
    bootstrap = [
        BeginTransactionRecord("Bootstrap records"),
        FeatureLevelRecord(FEATURE_NAME, 21),
        ZkMigrationStateRecord(0),
        EndTransactionRecord(),
    ]
    assert world.records == bootstrap

    world.start(3000)
    world.elect(3000)

    assert world.active.state.features.metadata_version == from_name("3.9")
    assert world.records == bootstrap


def test_a_controller_that_must_not_lead_is_at_its_end() -> None:
    world = QuorumWorld(config=QUIET)
    level = from_name("3.6-IV0").level  # which has no transactions
    world.find(FeatureLevelRecord(FEATURE_NAME, level), BeginTransactionRecord("x"))

    with pytest.raises(FatalFault, match="must not lead"):
        world.elect(3000)


def test_requests_that_waited_for_the_claim_run_after_the_activation() -> None:
    world = QuorumWorld(config=QUIET)
    controller = world.controllers[3000]
    world.log.leader = LeaderAndEpoch(3000, 1)
    controller.enqueue(LeaderChanged(world.log.leader))
    controller.enqueue(
        ControllerRequestReceived(1, UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(21)}))
    )

    world.feed(3000, None)

    assert [type(record) for record in world.records] == [
        BeginTransactionRecord,
        FeatureLevelRecord,
        ZkMigrationStateRecord,
        EndTransactionRecord,
        FeatureLevelRecord,
    ]
    assert world.responses.keys() == {1}


# ---------------------------------------------------------------------- deadlines


def test_a_request_past_its_deadline_times_out_and_starts_nothing(world: QuorumWorld) -> None:
    before = world.records
    controller = world.active
    started = controller.counters.operations_started
    request = UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(20)})
    controller.enqueue(ControllerRequestReceived(1, request, deadline_ms=world.now_ms + 10))

    world.now_ms += 10
    world.feed(3000, None)

    refused = world.responses[1]
    assert isinstance(refused, ApiException)
    assert refused.error is ErrorCode.request_timed_out
    assert controller.counters.operations_timed_out == 1
    assert controller.counters.operations_started == started
    assert world.records == before


def test_empty_requests_are_answered_at_once_even_behind_others(world: QuorumWorld) -> None:
    controller = world.active
    assert controller.enqueue(ControllerRequestReceived(1, GetFinalizedFeatures())) == []

    empty_ones: list[tuple[ControllerRequest, object]] = [
        (DeleteTopics(()), {}),
        (FindTopicIds(()), {}),
        (ElectLeaders(ElectionType.PREFERRED, ()), ()),
        (ListReassignments(()), ()),
        (AlterClientQuotas(()), {}),
        (AlterUserScramCredentials((), ()), {}),
    ]
    for number, (empty, response) in enumerate(empty_ones, start=2):
        completed = controller.enqueue(ControllerRequestReceived(number, empty))
        assert completed == [ControllerRequestCompleted(number, response)]

    assert controller.next_time_ms(world.now_ms) == world.now_ms


def test_an_expired_heartbeat_still_refreshes_the_session(world: QuorumWorld) -> None:
    world.start_brokers(1)
    controller = world.active
    broker = controller.state.cluster.registration(1)
    assert broker is not None
    expires_ms = world.now_ms + SESSION_TIMEOUT_MS
    heartbeat = ProcessBrokerHeartbeat(BrokerHeartbeat(1, broker.epoch, 0))

    world.now_ms = expires_ms - 100
    controller.enqueue(ControllerRequestReceived(999, heartbeat, deadline_ms=world.now_ms))
    world.feed(3000, None)
    world.advance(SESSION_TIMEOUT_MS)

    assert isinstance(world.responses[999], ApiException)
    assert controller.counters.timed_out_heartbeats == 1
    assert controller.state.cluster.is_unfenced(1)
    world.advance(1)
    assert not controller.state.cluster.is_unfenced(1)


def test_too_many_requests_are_refused(world: QuorumWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_controller, "MAX_PENDING_REQUESTS", 2)
    controller = world.active
    for number in (901, 902, 903):
        world.note(controller.enqueue(ControllerRequestReceived(number, FindAllTopicIds())))
    refused = world.responses[903]
    assert isinstance(refused, ApiException)
    assert refused.error is ErrorCode.request_timed_out

    world.feed(3000, None)
    assert world.responses[901] == world.responses[902] == {}
    assert world.ask(FindAllTopicIds(), dict) == {}


# ---------------------------------------------------------------------- commits


def test_an_answer_waits_for_the_commit_and_readers_see_nothing_before(world: QuorumWorld) -> None:
    world.start_brokers(1)
    world.log.is_slow = True

    write = world.send(topic("orders", (1,)))
    assert write not in world.responses
    assert world.ask(FindAllTopicIds(), dict) == {}
    again = world.send(topic("orders", (1,)))
    assert again not in world.responses  # it has seen what is not committed

    world.commit()
    created = creation(world.responses[write])
    assert created.error.error is ErrorCode.none
    refused = creation(world.responses[again])
    assert refused.error.error is ErrorCode.topic_already_exists
    assert list(world.ask(FindAllTopicIds(), dict)) == ["orders"]


def test_a_write_without_records_is_answered_at_once_if_nothing_waits(world: QuorumWorld) -> None:
    world.log.is_slow = True

    error = world.ask(UpdateFeatureLevels({"unknown.version": FeatureLevelUpdate(1)}), dict)

    assert error["unknown.version"].error is ErrorCode.invalid_update_version


def test_a_result_that_is_not_atomic_is_split_at_the_limit() -> None:
    # Activation writes four records; exactly two batches of two, and no empty third one.
    world = QuorumWorld.led(config=QUIET, max_records_per_batch=2)

    assert [len(batch.values) for batch in world.log.batches] == [0, 2, 2]
    world = QuorumWorld.led(config=QUIET, max_records_per_batch=3)
    assert [len(batch.values) for batch in world.log.batches] == [0, 3, 1]


def test_an_atomic_result_above_the_limit_fails() -> None:
    world = QuorumWorld.led(config=QUIET, max_records_per_batch=4)
    world.start_brokers(1)
    before = world.records

    refused = world.refusal(topic("orders", *[(1,)] * 4))

    assert refused.error is ErrorCode.unknown_server_error
    assert world.records == before
    assert [fault.event for fault in world.faults] == ["createTopics"]
    assert not world.controllers[3000].is_active


# ---------------------------------------------------------------------- leadership


def test_a_standby_refuses_writes_and_names_the_active_controller() -> None:
    world = QuorumWorld(controllers=2, config=QUIET)
    refused = world.refusal(UnregisterBroker(1), 3001)
    assert (refused.error, str(refused)) == (
        ErrorCode.not_controller,
        "No controller appears to be active.",
    )

    world.elect(3000)

    assert "to be node 3000" in str(world.refusal(UnregisterBroker(1), 3001))
    assert world.ask(GetFinalizedFeatures(), FinalizedControllerFeatures, 3001).levels == {
        FEATURE_NAME: 21
    }


def test_a_failover_counts_once_per_leader_on_every_node() -> None:
    world = QuorumWorld.led(controllers=3, config=QUIET)
    world.elect(3001)
    for node_id in world.controllers:
        world.feed(node_id, LeaderChanged(LeaderAndEpoch(None, 3)))

    assert {each.counters.new_active_controllers for each in world.controllers.values()} == {2}


def test_who_loses_the_leadership_undoes_what_was_not_committed() -> None:
    world = QuorumWorld(controllers=2, config=QUIET)
    first = world.elect(3000)
    world.start_brokers(1)
    world.log.is_slow = True
    lost = world.send(topic("orders", (1,)))
    assert "orders" in first.state.replication.state.topics_by_name

    world.elect(3001)

    refused = world.responses[lost]
    assert isinstance(refused, ApiException)
    assert refused.error is ErrorCode.not_controller
    assert not first.is_active
    assert world.rafts[3000].resigned == [1]
    assert "orders" not in first.state.replication.state.topics_by_name
    assert first.state.offsets.last_stable_offset == world.active.state.offsets.last_stable_offset


def test_an_append_for_an_epoch_that_is_over_is_not_for_this_controller(world: QuorumWorld) -> None:
    world.start_brokers(1)
    world.log.leader = LeaderAndEpoch(3001, 2)

    refused = world.refusal(topic("orders", (1,)))

    assert refused.error is ErrorCode.not_controller
    assert "to be node 3001" in str(refused)
    assert world.faults == []
    assert not world.controllers[3000].is_active


def test_the_same_leader_in_a_new_epoch_goes_on(world: QuorumWorld) -> None:
    world.elect(3000)

    assert world.active.claim_epoch == 2
    world.start_brokers(1)


def test_an_unexpected_error_costs_the_leadership(
    world: QuorumWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start_brokers(1)

    def refuse(epoch: int, records: object) -> int:
        raise RecordListTooLarge(f"{epoch} {records}")

    monkeypatch.setattr(world.rafts[3000], "prepare_append", refuse)
    refused = world.refusal(topic("orders", (1,)))

    assert refused.error is ErrorCode.unknown_server_error
    assert [fault.event for fault in world.faults] == ["createTopics"]
    assert world.controllers[3000].counters.metadata_errors == 1
    assert world.rafts[3000].resigned == [1]


def test_a_standby_that_cannot_replay_is_at_its_end(world: QuorumWorld) -> None:
    standby = world.start(3001)
    change = VersionedRecord(PartitionChangeRecord(0, UUID(int=5)), 0)

    with pytest.raises(
        FatalFault, match="cannot replay PartitionChangeRecord at offset 8"
    ) as fault:
        standby.step(CommitHandled((CommittedBatch(8, 8, 1, 0, (change,)),)), 0)
    assert isinstance(fault.value.__cause__, IllegalState)


class MalformedRecords(tuple[VersionedRecord]):
    """Records that cannot be decoded."""

    @override
    def __iter__(self) -> Iterator[VersionedRecord]:
        raise InvalidRecord("The record at offset 100 has headers")


def test_only_a_standby_decodes_a_committed_batch(world: QuorumWorld) -> None:
    batch = CommittedBatch(100, 100, 1, 0, MalformedRecords([VersionedRecord(NoOpRecord(), 0)]))

    world.feed(3000, CommitHandled((batch,)))
    with pytest.raises(FatalFault, match="cannot decode the batch at offset 100") as fault:
        world.start(3001).step(CommitHandled((batch,)), 0)

    assert world.active.state.offsets.last_committed_offset == 100
    assert isinstance(fault.value.__cause__, InvalidRecord)


def test_a_topic_that_comes_twice_is_fatal(world: QuorumWorld) -> None:
    standby = world.start(3001)
    twice = tuple(VersionedRecord(TopicRecord("orders", UUID(int=n)), 0) for n in (1, 2))

    with pytest.raises(FatalFault, match="at offset 9"):
        standby.step(CommitHandled((CommittedBatch(8, 9, 1, 0, twice),)), 0)


def test_batches_without_records_count_in_metrics_only(world: QuorumWorld) -> None:
    offsets = world.active.state.offsets
    before = offsets.last_committed_offset

    world.feed(3000, CommitHandled((CommittedBatch(100, 100, 1, 0, ()),)))

    assert offsets.last_committed_offset == before
    assert offsets.last_committed_record_offset == 100


# ---------------------------------------------------------------------- snapshots of the log


def test_a_snapshot_replaces_the_state_of_a_standby(world: QuorumWorld) -> None:
    world.start_brokers(1)
    world.create_topic("old", (1,))
    standby = world.start(3001)
    world.commit()
    assert "old" in standby.state.replication.state.topics_by_name
    records = (
        VersionedRecord(FeatureLevelRecord(FEATURE_NAME, 20), 0),
        VersionedRecord(RegisterBrokerRecord(7, broker_epoch=7, fenced=False), 0),
        VersionedRecord(TopicRecord("new", UUID(int=5)), 0),
    )

    standby.step(SnapshotLoaded(OffsetAndEpoch(100, 9), records, 77), 0)

    assert list(standby.state.replication.state.topics_by_name) == ["new"]
    assert [broker.id for broker in standby.state.cluster.registrations()] == [7]
    assert standby.state.cluster.register_broker_record_offset(7) == 99
    assert standby.state.offsets.last_stable_offset == 99
    assert standby.state.offsets.last_committed_epoch == 9


def test_a_snapshot_for_the_active_controller_is_fatal(world: QuorumWorld) -> None:
    with pytest.raises(FatalFault, match="for the active controller"):
        world.active.step(SnapshotLoaded(OffsetAndEpoch(100, 9), (), 0), 0)


def test_a_snapshot_with_half_a_transaction_is_fatal(world: QuorumWorld) -> None:
    begin = VersionedRecord(BeginTransactionRecord(), 0)

    with pytest.raises(FatalFault, match="cannot replay BeginTransactionRecord"):
        world.start(3001).step(SnapshotLoaded(OffsetAndEpoch(100, 9), (begin,), 0), 0)


# ---------------------------------------------------------------------- tasks


def test_an_idle_log_still_grows() -> None:
    world = QuorumWorld.led()
    before = world.active.state.offsets.last_committed_offset

    world.advance(5_000)

    assert world.records[-10:] == [NoOpRecord()] * 10
    assert world.active.state.offsets.last_committed_offset == before + 10


def test_no_op_records_begin_and_end_with_the_version_and_the_leadership() -> None:
    world = QuorumWorld.led(version="3.3-IV0")
    world.advance(5_000)
    assert NoOpRecord() not in world.records

    world.ask(
        UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(from_name("3.3-IV1").level)}), dict
    )
    world.advance(1_000)
    assert world.records.count(NoOpRecord()) == 2

    world.log.leader = LeaderAndEpoch(None, 2)
    world.feed(3000, LeaderChanged(world.log.leader))
    world.advance(5_000)
    assert world.records.count(NoOpRecord()) == 2


def test_silent_brokers_are_fenced_and_lose_their_leaderships(world: QuorumWorld) -> None:
    world.start_brokers(1, 2, 3)
    orders = world.create_topic("orders", (1, 2, 3))
    assert partition_of(world, orders).leader == 1
    world.advance(5_000)
    world.heartbeat(2)
    world.heartbeat(3)

    world.advance(4_000)
    assert world.active.state.cluster.is_unfenced(1)
    world.advance(1)
    assert not world.active.state.cluster.is_unfenced(1)
    assert partition_of(world, orders).leader == 2
    assert partition_of(world, orders).isr == (2, 3)

    world.advance(10_000)
    cluster = world.active.state.cluster
    assert [broker.id for broker in cluster.registrations() if not broker.fenced] == []
    assert partition_of(world, orders).leader == -1
    assert len(partition_of(world, orders).isr) == 1  # the last one to leave is remembered


def test_a_fresh_active_controller_gives_every_broker_a_fresh_session() -> None:
    world = QuorumWorld.led(controllers=2, config=QUIET)
    world.start_brokers(1)
    world.advance(8_000)

    world.elect(3001)
    world.heartbeat(1)
    world.advance(9_000)

    assert world.active.state.cluster.is_unfenced(1)
    world.advance(1)
    assert not world.active.state.cluster.is_unfenced(1)


def test_the_preferred_leader_comes_back_after_the_interval() -> None:
    config = QuorumControllerConfig(
        0, CLUSTER_ID, leader_imbalance_check_interval_ms=1_000, max_idle_interval_ms=None
    )
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    epoch = world.register(1, incarnation=1)
    world.heartbeat(1, want_fence=True)
    assert partition_of(world, orders).leader == 2

    world.heartbeat(1)
    change = PartitionChangeRecord(0, orders, isr=(2, 1))
    world.write(change)
    assert epoch == world.register(1, incarnation=1)
    world.advance(998)
    assert partition_of(world, orders).leader == 2

    world.advance(1_002)
    assert partition_of(world, orders).leader == 1


def test_a_leaderless_partition_gets_an_unclean_leader_where_its_topic_allows() -> None:
    config = QuorumControllerConfig(
        0,
        CLUSTER_ID,
        unclean_leader_election_interval_ms=2_000,
        max_idle_interval_ms=None,
        static_config={"unclean.leader.election.enable": "true"},
    )
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    world.heartbeat(2, want_fence=True)
    world.heartbeat(1, want_fence=True)
    assert partition_of(world, orders).leader == -1

    world.heartbeat(2)

    assert partition_of(world, orders).leader == 2
    assert partition_of(world, orders).isr == (2,)


# ---------------------------------------------------------------------- brokers


def test_the_epoch_of_a_broker_is_where_its_registration_is_written(world: QuorumWorld) -> None:
    end = world.log.end_offset

    assert world.register(1) == end
    assert world.register(1) == end
    world.advance(SESSION_TIMEOUT_MS + 1)
    assert world.register(1, incarnation=2) > end


def test_registration_is_refused_outside_of_the_finalized_kraft_version(world: QuorumWorld) -> None:
    world.rafts[3000].kraft_version = 1

    with pytest.raises(AssertionError, match=r"kraft\.version"):
        world.register(1)
    world.rafts[3000].kraft_version = 0
    world.register(1)


def test_a_controlled_shutdown_ends_when_all_others_know_the_new_leaders(
    world: QuorumWorld,
) -> None:
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    behind = world.log.end_offset - 1

    first = world.heartbeat(1, want_shut_down=True)
    assert not first.should_shut_down
    moved_at = world.log.end_offset - 1
    assert partition_of(world, orders).leader == 2
    heartbeats = world.active.state.cluster.heartbeats
    assert heartbeats.controlled_shutdown_offset(1) == moved_at

    world.heartbeat(2, current_metadata_offset=behind)
    assert not world.heartbeat(1, want_shut_down=True).should_shut_down
    world.heartbeat(2, current_metadata_offset=moved_at)
    last = world.heartbeat(1, want_shut_down=True)
    assert last.should_shut_down
    assert last.is_fenced


def test_an_unregistered_broker_cannot_heartbeat_any_more(world: QuorumWorld) -> None:
    world.start_brokers(1)
    broker = world.active.state.cluster.registration(1)
    assert broker is not None
    world.send(UnregisterBroker(1))

    heartbeat = BrokerHeartbeat(1, broker.epoch, 0)
    refused = world.refusal(ProcessBrokerHeartbeat(heartbeat))
    assert refused.error is ErrorCode.stale_broker_epoch


def test_an_unclean_restart_drops_the_broker_from_the_isr() -> None:
    world = QuorumWorld.led(version="3.9", config=QUIET, is_unstable_enabled=True)
    world.ask(UpdateFeatureLevels({FEATURE_NAME: FeatureLevelUpdate(22)}), dict)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    world.heartbeat(1, want_fence=True)
    world.heartbeat(1)
    assert partition_of(world, orders).isr == (2,)
    change = PartitionChangeRecord(0, orders, isr=(2, 1))
    world.write(change)
    world.heartbeat(2)

    world.advance(SESSION_TIMEOUT_MS)
    world.heartbeat(2)
    world.advance(1)
    world.write(change)
    assert partition_of(world, orders).isr == (2, 1)
    world.register(1, incarnation=2)

    assert partition_of(world, orders).isr == (2,)


# ---------------------------------------------------------------------- migration


def test_a_migration_that_lost_its_controller_is_undone_and_still_to_come() -> None:
    world = QuorumWorld(config=QUIET)
    topics = [TopicRecord(f"t{n}", UUID(int=n)) for n in range(1, 4)]
    world.find(FeatureLevelRecord(FEATURE_NAME, 21), ZkMigrationStateRecord(2))
    world.find(BeginTransactionRecord("ZK Migration"), *topics)

    world.elect(3000)

    assert world.records[-1] == AbortTransactionRecord("Controller failover")
    assert world.active.state.features.is_in_pre_migration_mode
    assert world.ask(FindAllTopicIds(), dict) == {}


def test_a_migration_that_is_under_way_ends_with_its_controller() -> None:
    world = QuorumWorld(config=QUIET)
    world.find(FeatureLevelRecord(FEATURE_NAME, 21), ZkMigrationStateRecord(1))

    world.elect(3000)

    assert world.records[-1] == ZkMigrationStateRecord(ZkMigrationState.POST_MIGRATION)
