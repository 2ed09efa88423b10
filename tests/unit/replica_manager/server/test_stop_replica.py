"""StopReplica on the broker.  Source of the behaviours: Kafka ``ReplicaManagerTest``."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.control_requests import (
    LeaderAndIsrRequest,
    PartitionErrors,
    StopReplicaPartition,
    StopReplicaRequest,
)
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Role
from tests.support.broker_world import BrokerWorld
from tests.support.steps import completed
from zkcontroller.state_changes.record import Kind, Reason

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> Iterator[BrokerWorld]:
    """Broker 1 leads orders-0 at leader epoch 4."""
    world = BrokerWorld(executor)
    led = LeaderAndIsrPartitionState(1, 1, 4, (1,), 0, (1,), (), (), True, 0)
    completed(
        become_leader_or_follower(
            world.replicas, LeaderAndIsrRequest(1, 3, -1, {ORDERS_0: led}, {}), 1
        )
    )
    world.records.clear()
    yield world
    world.check_records()


def stop(
    world: BrokerWorld, leader_epoch: int, *, delete: bool, controller_epoch: int = 3
) -> PartitionErrors:
    order = StopReplicaPartition(leader_epoch, delete)
    return completed(
        world.replicas.stop_replicas(
            StopReplicaRequest(1, controller_epoch, -1, {ORDERS_0: order}), 9
        )
    )


def test_an_old_controller_epoch_stops_nothing(world: BrokerWorld) -> None:
    response = stop(world, -2, delete=True, controller_epoch=2)

    assert response == PartitionErrors(ErrorCode.stale_controller_epoch, {})
    assert ORDERS_0 in world.replicas.partitions
    assert world.kinds() == [Kind.STOP_REPLICA_HANDLING, Kind.STOP_REPLICA_IGNORED]
    assert world.records[1].latest_controller_epoch == 3


def test_a_larger_controller_epoch_is_remembered(world: BrokerWorld) -> None:
    stop(world, 4, delete=False, controller_epoch=8)

    assert stop(world, 4, delete=False, controller_epoch=7).error is (
        ErrorCode.stale_controller_epoch
    )


def test_an_older_leader_epoch_is_fenced_and_the_partition_stays(world: BrokerWorld) -> None:
    response = stop(world, 3, delete=True)

    assert response.partitions == {ORDERS_0: ErrorCode.fenced_leader_epoch}
    assert world.replicas.partitions[ORDERS_0].role is Role.LEADER
    ignored = world.records[1]
    assert (ignored.kind, ignored.reason) == (Kind.STOP_REPLICA_IGNORED, Reason.STALE_LEADER_EPOCH)
    assert (ignored.leader_epoch, ignored.current_leader_epoch) == (3, 4)
    assert ignored.delete_partition is True


@pytest.mark.parametrize("leader_epoch", [-2, -1, 4, 5])
def test_the_sentinels_and_an_epoch_at_least_as_large_delete(
    world: BrokerWorld, leader_epoch: int
) -> None:
    response = stop(world, leader_epoch, delete=True)

    assert response == PartitionErrors(ErrorCode.none, {ORDERS_0: ErrorCode.none})
    assert world.replicas.partitions == {}


def test_without_delete_the_partition_keeps_its_role(world: BrokerWorld) -> None:
    assert stop(world, 4, delete=False).partitions == {ORDERS_0: ErrorCode.none}

    assert world.replicas.partitions[ORDERS_0].role is Role.LEADER


@pytest.mark.parametrize("delete", [True, False])
def test_a_partition_that_is_not_hosted_is_no_error(world: BrokerWorld, delete: bool) -> None:
    world.replicas.partitions.clear()

    assert stop(world, 4, delete=delete).partitions == {ORDERS_0: ErrorCode.none}


def test_partitions_are_traced_where_kafka_traces(world: BrokerWorld) -> None:
    world.is_tracing = True

    stop(world, 4, delete=True)

    assert world.kinds() == [Kind.STOP_REPLICA_HANDLING, Kind.STOP_REPLICA_RECEIVED_PARTITION]
    assert world.records[0].count == 1
    assert world.records[1].delete_partition is True
