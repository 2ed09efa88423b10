"""Brokers that lose a log directory: the notification, the question by LeaderAndIsr, the answer."""

from __future__ import annotations

import pytest

from kafka_common.model import NO_LEADER, TopicPartition
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.events import ApiPartitionReassignment
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import (
    LogDirEventNotificationSequenceZnode,
    LogDirEventNotificationZnode,
)
from zkcontroller_simulation.control_requests import ReceivedLeaderAndIsr
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)


@pytest.fixture
def orders(world: World) -> World:
    """Broker 2 leads orders-0, which broker 3 follows; orders-1 the other way round."""
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3], [3, 2]])
    world.forget_requests()
    return world


def fail(world: World, broker_id: int, *partitions: TopicPartition) -> None:
    """The directory with these partitions fails, and the broker leaves its notification."""
    world.living[broker_id].broker.failed.update(partitions)
    notify(world, LogDirEventNotificationSequenceZnode(broker_id).encode())


def notify(world: World, data: bytes) -> None:
    path = LogDirEventNotificationSequenceZnode.CREATE_PATH
    world.write(Create(path, data, sequential=True))


def notifications(world: World) -> list[str]:
    return list(world.zookeeper.peek_children(LogDirEventNotificationZnode.PATH))


def leadership(world: World, tp: TopicPartition) -> tuple[int, int, tuple[int, ...]]:
    state = world.state_znode(*tp)
    return state.leader, state.leader_epoch, state.in_sync_replicas


def test_the_broker_is_asked_about_every_replica_and_the_notification_goes(orders: World) -> None:
    notify(orders, LogDirEventNotificationSequenceZnode(2).encode())
    orders.settle()

    (asked,) = orders.received(2, ReceivedLeaderAndIsr)
    assert set(asked.partitions) == {ORDERS_0, ORDERS_1}
    assert orders.received(3, ReceivedLeaderAndIsr) == []
    assert notifications(orders) == []
    assert leadership(orders, ORDERS_0) == (2, 0, (2, 3)), "nothing was lost, nothing changes"


def test_a_leader_in_the_failed_directory_is_replaced_and_other_partitions_stay(
    orders: World,
) -> None:
    fail(orders, 2, ORDERS_0)
    orders.run_until_quiet()

    assert leadership(orders, ORDERS_0) == (3, 1, (3,))
    assert leadership(orders, ORDERS_1) == (3, 0, (3, 2))
    for broker_id in (1, 2, 3):
        metadata = orders.living[broker_id].broker.metadata
        assert metadata[ORDERS_0].offline_replicas == (2,)
        assert metadata[ORDERS_1].offline_replicas == ()
    controller = orders.controller
    assert controller is not None
    (marked,) = [r for r in controller.state_changes if r.kind is Kind.REPLICAS_MARKED_OFFLINE]
    assert (marked.peer, marked.partitions) == (2, ("orders-0",))


def test_a_follower_in_the_failed_directory_leaves_the_isr(orders: World) -> None:
    fail(orders, 2, ORDERS_1)
    orders.run_until_quiet()

    assert leadership(orders, ORDERS_1) == (3, 1, (3,))
    assert leadership(orders, ORDERS_0) == (2, 0, (2, 3))


def test_the_last_replicas_directory_leaves_the_partition_without_a_leader(orders: World) -> None:
    fail(orders, 2, ORDERS_0)
    orders.run_until_quiet()
    fail(orders, 3, ORDERS_0)
    orders.run_until_quiet()

    assert leadership(orders, ORDERS_0) == (NO_LEADER, 2, (3,))


def test_two_brokers_can_fail_in_one_look(orders: World) -> None:
    orders.create_topic("more", replicas=[[2, 1], [3, 1]])
    orders.settle()
    orders.pause(1)
    fail(orders, 2, TopicPartition("more", 0))
    fail(orders, 3, TopicPartition("more", 1))
    orders.resume(1)
    orders.run_until_quiet()

    assert leadership(orders, TopicPartition("more", 0))[0] == 1
    assert leadership(orders, TopicPartition("more", 1))[0] == 1
    assert any(
        "Handling log directory failure for brokers 2,3" in line for line in orders.log(1, "INFO")
    )


def test_a_failed_replica_does_not_become_leader_when_the_other_dies(orders: World) -> None:
    fail(orders, 2, ORDERS_0)
    orders.run_until_quiet()

    orders.stop(3)
    orders.run_until_quiet()

    assert leadership(orders, ORDERS_0)[0] == NO_LEADER
    assert leadership(orders, ORDERS_1)[0] == 2


def test_a_restarted_broker_has_its_directories_back(orders: World) -> None:
    fail(orders, 2, ORDERS_0)
    orders.run_until_quiet()

    orders.stop(2)
    orders.settle()
    orders.start_brokers(2)
    orders.settle()

    for broker_id in (1, 2, 3):
        assert orders.living[broker_id].broker.metadata[ORDERS_0].offline_replicas == ()


def test_the_next_controller_learns_of_the_failure_by_itself(orders: World) -> None:
    """It knows of no notification any more: the answers to its first LeaderAndIsr tell it."""
    fail(orders, 2, ORDERS_0)
    orders.run_until_quiet()

    orders.delete_controller_znode()
    orders.run_until_quiet()

    assert leadership(orders, ORDERS_0)[0] == 3
    for broker_id in (1, 2, 3):
        assert orders.living[broker_id].broker.metadata[ORDERS_0].offline_replicas == (2,)


def test_a_notification_left_for_a_dead_controller_is_removed_by_the_next(orders: World) -> None:
    orders.pause(1)
    fail(orders, 2, ORDERS_0)
    orders.expire_session(broker=1)
    orders.run_until(lambda: orders.active_controller not in (None, 1))
    orders.resume(1)
    orders.run_until_quiet()

    assert notifications(orders) == []
    assert leadership(orders, ORDERS_0)[0] == 3


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"version":1}', b'{"broker":"x"}'])
def test_a_corrupt_notification_is_removed_and_those_beside_it_count(
    orders: World, data: bytes
) -> None:
    orders.pause(1)
    notify(orders, data)
    fail(orders, 2, ORDERS_0)
    orders.resume(1)
    orders.run_until_quiet()

    assert notifications(orders) == []
    assert leadership(orders, ORDERS_0)[0] == 3
    assert orders.failures == []


def test_a_notification_of_an_unknown_broker_is_removed(orders: World) -> None:
    notify(orders, LogDirEventNotificationSequenceZnode(9).encode())
    orders.settle()

    assert notifications(orders) == []
    assert orders.failures == []


def test_a_move_to_a_broker_with_one_good_directory_ends(orders: World) -> None:
    """The request calls the replica new, so that the broker may put it where there is room."""
    orders.invariants.is_isr_sent = False
    orders.start_brokers(4)
    fail(orders, 2, ORDERS_1)
    orders.run_until_quiet()

    orders.ask_for_reassignment({ORDERS_0: [4]})
    orders.run_until_quiet()
    orders.catch_up(ORDERS_0)
    orders.run_until_quiet()

    assert orders.topic_znode("orders").partitions[0].replicas == (4,)
    assert leadership(orders, ORDERS_0)[0] == 4


def test_a_replica_that_a_move_added_and_that_leads_is_asked_as_well(orders: World) -> None:
    """It counts as new until the move ends, which waits for the broker that is dead."""
    orders.start_brokers(4, 5)
    orders.put(1, ApiPartitionReassignment(((ORDERS_0, (4, 5)),), 1))
    orders.run_until_quiet()
    orders.kill(5)
    orders.run_until_quiet()
    orders.catch_up(ORDERS_0)
    orders.run_until_quiet()
    orders.ask_for_preferred_leaders(ORDERS_0)
    orders.run_until_quiet()
    assert orders.state_znode("orders", 0).leader == 4

    orders.fail_log_dir(4, [ORDERS_0])
    orders.run_until_quiet()

    assert orders.state_znode("orders", 0).leader == 2
