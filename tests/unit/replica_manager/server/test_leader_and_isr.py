"""LeaderAndIsr on the broker, check by check in Kafka's order.

Source of the behaviours: Kafka ``ReplicaManagerTest``, ``PartitionTest``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.control_requests import LeaderAndIsrRequest, PartitionErrors
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Role
from replica_manager.replication.partition_reads import check_read
from replica_manager.replication.replica_log import ABSENT_LOG
from tests.support.broker_world import ORDERS_ID, BrokerWorld, broker
from tests.support.steps import completed
from zkcontroller.state_changes.record import Kind, Reason

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> Iterator[BrokerWorld]:
    world = BrokerWorld(executor)
    world.update({}, brokers=[broker(1), broker(2), broker(3)])
    world.records.clear()
    yield world
    world.check_records()


def state(
    leader: int,
    leader_epoch: int = 0,
    *,
    isr: tuple[int, ...] = (1, 2, 3),
    replicas: tuple[int, ...] = (1, 2, 3),
    partition_epoch: int = 0,
    adding: tuple[int, ...] = (),
    recovery: int = 0,
) -> LeaderAndIsrPartitionState:
    return LeaderAndIsrPartitionState(
        1, leader, leader_epoch, isr, partition_epoch, replicas, adding, (), False, recovery
    )


def send(
    world: BrokerWorld,
    partitions: Mapping[TopicPartition, LeaderAndIsrPartitionState],
    *,
    controller_epoch: int = 1,
    topic_id: UUID | None = ORDERS_ID,
    is_kraft: bool = False,
) -> PartitionErrors:
    return completed(
        become_leader_or_follower(
            world.replicas,
            LeaderAndIsrRequest(
                controller_id=1,
                controller_epoch=controller_epoch,
                broker_epoch=-1,
                partitions=partitions,
                topic_ids={} if topic_id is None else {"orders": topic_id},
                is_kraft_controller=is_kraft,
            ),
            correlation_id=5,
        )
    )


def send_one(world: BrokerWorld, one: LeaderAndIsrPartitionState, **options: object) -> ErrorCode:
    response = send(world, {ORDERS_0: one}, **options)  # type: ignore[arg-type]
    assert response.error is ErrorCode.none
    return response.partitions[ORDERS_0]


def test_a_replica_becomes_leader(world: BrokerWorld) -> None:
    assert send_one(world, state(1, isr=(1, 2), partition_epoch=4)) is ErrorCode.none

    partition = world.replicas.partitions[ORDERS_0]
    assert partition.role is Role.LEADER
    assert (partition.leader_epoch, partition.partition_epoch) == (0, 4)
    assert partition.in_sync_replicas == (1, 2)
    assert partition.leader_epoch_start_offset == 0
    assert partition.topic_id == ORDERS_ID
    assert world.kinds() == [
        Kind.LEADER_AND_ISR_HANDLING,
        Kind.FETCHERS_STOPPED,
        Kind.LEADER_STARTED,
        Kind.LEADER_AND_ISR_FINISHED,
    ]


def test_the_record_of_a_new_leader_tells_who_led_before(world: BrokerWorld) -> None:
    send_one(world, state(2, 3))
    world.records.clear()

    send_one(world, state(1, 4, isr=(1,), partition_epoch=7))

    [started] = [r for r in world.records if r.kind is Kind.LEADER_STARTED]
    assert (started.previous_leader, started.previous_leader_epoch) == (2, 3)
    assert (started.leader_epoch, started.zk_version, started.isr) == (4, 7, (1,))
    assert (started.offset, started.high_watermark) == (0, 0)


def test_a_replica_becomes_follower_and_forgets_the_isr(world: BrokerWorld) -> None:
    send_one(world, state(1))

    assert send_one(world, state(2, 1)) is ErrorCode.none

    partition = world.replicas.partitions[ORDERS_0]
    assert (partition.role, partition.leader) == (Role.FOLLOWER, 2)
    assert partition.in_sync_replicas == ()
    assert partition.leader_epoch_start_offset is None


def test_a_follower_prints_the_new_leader_as_the_previous_one_as_kafka_does(
    world: BrokerWorld,
) -> None:
    send_one(world, state(2, 5))

    [started] = [r for r in world.records if r.kind is Kind.FOLLOWER_STARTED]
    assert (started.previous_leader, started.previous_leader_epoch) == (2, 5)


def test_leaders_are_made_before_followers(world: BrokerWorld) -> None:
    send(world, {ORDERS_0: state(2), TopicPartition("orders", 1): state(1)})

    started = [r.kind for r in world.records if r.kind.name.endswith("_STARTED")]
    assert started == [Kind.LEADER_STARTED, Kind.FOLLOWER_STARTED]


def test_an_old_controller_epoch_refuses_the_whole_request(world: BrokerWorld) -> None:
    send_one(world, state(1), controller_epoch=5)
    world.records.clear()

    response = send(world, {ORDERS_0: state(2, 9)}, controller_epoch=4)

    assert response.error is ErrorCode.stale_controller_epoch
    assert response.partitions == {ORDERS_0: ErrorCode.stale_controller_epoch}
    assert world.replicas.partitions[ORDERS_0].role is Role.LEADER
    [_, ignored, finished] = world.records
    assert ignored.kind is Kind.LEADER_AND_ISR_IGNORED
    assert ignored.reason == Reason.STALE_CONTROLLER_EPOCH
    assert ignored.latest_controller_epoch == 5
    assert finished.kind is Kind.LEADER_AND_ISR_FINISHED


def test_the_controller_epoch_is_taken_over_even_if_every_partition_fails(
    world: BrokerWorld,
) -> None:
    send_one(world, state(9, replicas=(8, 9)), controller_epoch=6)

    response = send(world, {ORDERS_0: state(1)}, controller_epoch=5)

    assert response.error is ErrorCode.stale_controller_epoch


def test_a_broker_that_is_not_a_replica_says_unknown_partition(world: BrokerWorld) -> None:
    assert send_one(world, state(2, replicas=(2, 3))) is ErrorCode.unknown_topic_or_partition

    [ignored] = [r for r in world.records if r.kind is Kind.LEADER_AND_ISR_IGNORED]
    assert ignored.reason == Reason.NOT_ASSIGNED
    assert ignored.replicas == (2, 3)
    assert world.replicas.partitions[ORDERS_0].role is Role.NONE


def test_a_smaller_leader_epoch_is_a_stale_controller_epoch(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))
    world.records.clear()

    assert send_one(world, state(2, 3)) is ErrorCode.stale_controller_epoch

    [ignored] = [r for r in world.records if r.kind is Kind.LEADER_AND_ISR_IGNORED]
    assert ignored.reason == Reason.STALE_LEADER_EPOCH
    assert (ignored.leader_epoch, ignored.current_leader_epoch) == (3, 4)


def test_the_same_leader_epoch_again_is_a_stale_controller_epoch(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))
    world.records.clear()

    assert send_one(world, state(1, 4, isr=(1,))) is ErrorCode.stale_controller_epoch

    [ignored] = [r for r in world.records if r.kind is Kind.LEADER_AND_ISR_IGNORED]
    assert ignored.reason == Reason.SAME_LEADER_EPOCH
    assert world.replicas.partitions[ORDERS_0].in_sync_replicas == (1, 2, 3)


def test_a_kraft_controller_may_repeat_a_leader_epoch(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))

    response = send_one(world, state(1, 4, isr=(1,), partition_epoch=1), is_kraft=True)

    assert response is ErrorCode.none
    assert world.replicas.partitions[ORDERS_0].in_sync_replicas == (1,)
    assert world.records[-2].reason == Reason.ALREADY_LEADER


def test_another_topic_id_is_inconsistent_even_with_a_larger_epoch(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))

    assert send_one(world, state(2, 9), topic_id=UUID(int=3)) is ErrorCode.inconsistent_topic_id

    [inconsistent] = [r for r in world.records if r.kind is Kind.TOPIC_ID_INCONSISTENT]
    assert (inconsistent.topic_id, inconsistent.requested_topic_id) == (ORDERS_ID, UUID(int=3))
    assert world.replicas.partitions[ORDERS_0].leader_epoch == 4


def test_a_topic_id_that_arrives_at_the_same_epoch_is_taken_over(world: BrokerWorld) -> None:
    send_one(world, state(1, 4), topic_id=None)
    assert world.replicas.partitions[ORDERS_0].topic_id is None

    assert send_one(world, state(1, 4)) is ErrorCode.none

    assert world.replicas.partitions[ORDERS_0].topic_id == ORDERS_ID
    assert Kind.TOPIC_ID_ASSIGNED in world.kinds()


def test_a_follower_accepts_that_ids_are_gone_at_the_same_epoch(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    send_one(world, state(2, 4))

    with caplog.at_level(logging.INFO, "state.change.logger"):
        assert send_one(world, state(2, 4), topic_id=None) is ErrorCode.none

    assert "to remove log topic ID" in caplog.text


def test_a_leader_does_not_accept_that_ids_are_gone_at_the_same_epoch(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))

    assert send_one(world, state(1, 4), topic_id=None) is ErrorCode.stale_controller_epoch


def test_a_follower_of_a_dead_leader_keeps_its_epoch_and_answers_none(world: BrokerWorld) -> None:
    send_one(world, state(1, 4))

    assert send_one(world, state(9, 5, replicas=(1, 9))) is ErrorCode.none

    partition = world.replicas.partitions[ORDERS_0]
    assert (partition.leader_epoch, partition.role) == (4, Role.LEADER)
    [unavailable] = [r for r in world.records if r.kind is Kind.LEADER_UNAVAILABLE]
    assert unavailable.leader == 9


def test_the_same_request_makes_a_follower_once_the_leader_lives(world: BrokerWorld) -> None:
    send_one(world, state(9, 5, replicas=(1, 9)))
    world.update({}, brokers=[broker(1), broker(9)])

    send_one(world, state(9, 5, replicas=(1, 9)))

    assert world.replicas.partitions[ORDERS_0].role is Role.FOLLOWER


def test_no_broker_can_follow_a_partition_without_a_leader(world: BrokerWorld) -> None:
    assert send_one(world, state(-1, 1)) is ErrorCode.none

    assert Kind.LEADER_UNAVAILABLE in world.kinds()


def test_an_older_partition_epoch_is_skipped_by_leaders_and_followers(world: BrokerWorld) -> None:
    send_one(world, state(1, 1, partition_epoch=5))

    assert send_one(world, state(1, 2, isr=(1,), partition_epoch=4)) is ErrorCode.none
    assert send_one(world, state(2, 3, partition_epoch=4)) is ErrorCode.none

    partition = world.replicas.partitions[ORDERS_0]
    assert (partition.leader_epoch, partition.in_sync_replicas) == (1, (1, 2, 3))
    skipped = [r for r in world.records if r.kind is Kind.TRANSITION_SKIPPED]
    assert [r.reason for r in skipped] == [Reason.STALE_PARTITION_EPOCH] * 2
    assert [r.role for r in skipped] == ["leader", "follower"]
    assert [r.current_partition_epoch for r in skipped] == [5, 5]


def test_an_equal_partition_epoch_is_accepted(world: BrokerWorld) -> None:
    send_one(world, state(1, 1, partition_epoch=5))
    send_one(world, state(1, 2, isr=(1,), partition_epoch=5))

    assert world.replicas.partitions[ORDERS_0].leader_epoch == 2


def test_a_recovering_leader_is_marked_as_recovered(world: BrokerWorld) -> None:
    send_one(world, state(1, recovery=1))

    assert Kind.LEADER_RECOVERED in world.kinds()


def test_every_partition_is_traced_where_kafka_traces(world: BrokerWorld) -> None:
    world.is_tracing = True

    send(world, {ORDERS_0: state(1), TopicPartition("orders", 1): state(2)})

    assert world.kinds() == [
        Kind.LEADER_AND_ISR_HANDLING,
        Kind.LEADER_AND_ISR_RECEIVED_PARTITION,
        Kind.LEADER_AND_ISR_RECEIVED_PARTITION,
        Kind.TRANSITION_STARTED,
        Kind.FETCHERS_STOPPED,
        Kind.LEADER_STARTED,
        Kind.TRANSITION_COMPLETED,
        Kind.TRANSITION_STARTED,
        Kind.FOLLOWER_STARTED,
        Kind.FETCHERS_STOPPED,
        Kind.TRANSITION_COMPLETED,
        Kind.LEADER_AND_ISR_FINISHED,
    ]


def test_fetchers_are_counted_only_for_followers_whose_epoch_grew(world: BrokerWorld) -> None:
    second = TopicPartition("orders", 1)
    send(world, {ORDERS_0: state(2), second: state(2)})
    world.records.clear()

    send(world, {ORDERS_0: state(2, 1), second: state(9, 1, replicas=(1, 9))})

    [stopped] = [r for r in world.records if r.kind is Kind.FETCHERS_STOPPED]
    assert (stopped.role, stopped.count) == ("follower", 1)


def test_the_time_a_request_took_is_logged(world: BrokerWorld) -> None:
    clock = iter([100, 120, 142])
    world.replicas.now_ms = lambda: next(clock)

    send_one(world, state(1))

    assert world.records[-1].elapsed_ms == 42
    assert world.records[-1].count == 1


def test_followers_of_each_new_leader_have_their_whole_time(world: BrokerWorld) -> None:
    """Also of the last one of a request that takes longer than ``replica.lag.time.max.ms``."""
    second = TopicPartition("orders", 1)
    clock = count(1_000_000, 60_000)
    world.replicas.now_ms = lambda: next(clock)

    send(world, {ORDERS_0: state(1), second: state(1)})

    caught_up = [
        world.replicas.partitions[each].remote_replicas[2].last_caught_up_time_ms
        for each in (ORDERS_0, second)
    ]
    assert caught_up[1] - caught_up[0] == 60_000
    world.replicas.now_ms = lambda: world.now_ms


def test_a_partition_whose_log_is_not_open_yet_is_led_nowhere(world: BrokerWorld) -> None:
    """To a reader it is not empty: it would begin again at another offset."""
    steps = become_leader_or_follower(
        world.replicas,
        LeaderAndIsrRequest(1, 1, -1, {ORDERS_0: state(2)}, {"orders": ORDERS_ID}, False),
        correlation_id=5,
    )
    while ORDERS_0 not in world.replicas.partitions:
        next(steps)
    partition = world.replicas.partitions[ORDERS_0]
    assert partition.log is ABSENT_LOG

    assert check_read(partition, -1, leader_only=False) is ErrorCode.not_leader_or_follower
    completed(steps)


def test_gauges_count_what_is_led_here(world: BrokerWorld) -> None:
    send(
        world,
        {
            ORDERS_0: state(1, isr=(1,)),
            TopicPartition("orders", 1): state(1, adding=(3,), isr=(1, 2)),
            TopicPartition("orders", 2): state(2),
        },
    )

    assert world.replicas.gauges() == {
        "LeaderCount": 2,
        "PartitionCount": 3,
        "UnderReplicatedPartitions": 1,
        "ReassigningPartitions": 1,
        "AtMinIsrPartitionCount": 1,
        "UnderMinIsrPartitionCount": 0,
        "OfflineReplicaCount": 0,
    }
