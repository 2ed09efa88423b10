"""Leaderships that go back to their preferred brokers by themselves."""

from __future__ import annotations

import pytest

from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.scenarios.orders import start_with_orders
from tests.scenarios.requests import put
from zkcontroller.core.events import ApiPartitionReassignment, AutoPreferredReplicaLeaderElection
from zkcontroller.zookeeper.requests import ZkTransaction
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def balanced(world: World) -> World:
    """Brokers that look at the balance every second, and a topic led by broker 2."""
    world.settings["leader_imbalance_check_interval_seconds"] = 1
    start_with_orders(world, 1, 2, 3, 4, replicas=[[2, 3]])
    world.invariants.is_isr_sent = False  # AlterPartition tells the leader alone
    return world


def bounce(world: World, broker_id: int) -> None:
    world.stop(broker_id)
    world.settle()
    world.start_brokers(broker_id)


def leader(world: World) -> tuple[int, int]:
    state = world.state_znode("orders", 0)
    return state.leader, state.leader_epoch


def test_the_leader_returns_to_its_preferred_broker_once_that_is_in_sync(balanced: World) -> None:
    bounce(balanced, 2)
    balanced.run_for(10_000)
    assert leader(balanced) == (3, 1), "not in sync: it stays where it is"

    balanced.catch_up(ORDERS_0)
    balanced.run_for(2_000)

    assert leader(balanced) == (2, 2)
    balanced.settle()


def test_the_first_look_comes_five_seconds_after_the_failover(balanced: World) -> None:
    bounce(balanced, 2)
    balanced.catch_up(ORDERS_0)
    balanced.delete_controller_znode()
    balanced.run_until(lambda: balanced.active_controller is not None)

    balanced.run_for(4_900)
    assert leader(balanced)[0] == 3
    balanced.run_for(300)
    assert leader(balanced)[0] == 2


def test_a_deposed_controller_looks_no_more(balanced: World) -> None:
    deposed = balanced.controller
    assert deposed is not None
    balanced.expire_session(broker=1)
    balanced.run_until(lambda: balanced.active_controller not in (None, 1))
    deposed.log_lines.clear()

    balanced.run_for(20_000)

    looked = [line for line in deposed.log_lines if "Processing automatic" in line.message]
    assert looked == []


def test_nothing_moves_by_itself_where_it_is_switched_off(world: World) -> None:
    world.settings["auto_leader_rebalance_enable"] = False
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    bounce(world, 2)
    world.catch_up(ORDERS_0)

    world.run_for(3_600_000)

    assert leader(world)[0] == 3


@pytest.mark.parametrize(("percentage", "returns"), [(50, False), (49, True)])
def test_the_share_of_leaderships_elsewhere_must_be_above_the_percentage(
    world: World, percentage: int, returns: bool
) -> None:
    world.settings["leader_imbalance_check_interval_seconds"] = 1
    world.settings["leader_imbalance_per_broker_percentage"] = percentage
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    bounce(world, 2)
    world.catch_up(ORDERS_0)
    world.create_topic("more", replicas=[[2, 3]])

    world.run_for(10_000)

    assert (leader(world)[0] == 2) is returns


def test_the_head_of_the_new_replicas_leads_while_the_move_still_waits_for_another(
    balanced: World,
) -> None:
    balanced.stop(4)
    balanced.settle()
    balanced.stop(3)
    balanced.settle()
    balanced.start_brokers(3)
    wanted = (3, 4)
    put(balanced, lambda request_id: ApiPartitionReassignment(((ORDERS_0, (3, 2)),), request_id))
    balanced.run_until_quiet()
    balanced.start_brokers(4)
    balanced.pause(4)
    put(balanced, lambda request_id: ApiPartitionReassignment(((ORDERS_0, wanted),), request_id))
    balanced.run_for(100)
    balanced.catch_up(ORDERS_0)
    balanced.run_for(5_000)
    assert leader(balanced)[0] == 3

    balanced.resume(4)
    balanced.run_until_quiet()
    balanced.catch_up(ORDERS_0)
    balanced.settle()

    assert balanced.topic_znode("orders").partitions[0] == ReplicaAssignment(wanted)
    assert leader(balanced)[0] == 3


def test_a_check_that_waited_for_an_earlier_office_begins_no_second_row_of_checks(
    balanced: World,
) -> None:
    """It was due while this broker was elected again."""
    for broker_id in (2, 3, 4):
        balanced.stop(broker_id)
    balanced.run_until_quiet()
    due = AutoPreferredReplicaLeaderElection(balanced.controller_epoch)
    balanced.delete_controller_znode()
    electing = balanced.pause_at(balanced.living[1], ZkTransaction)
    electing.queue.put(due)
    balanced.resume(1)
    balanced.run_for(20_000)
    assert balanced.controller_epoch == 2

    before = len(balanced.log(1))
    balanced.run_for(10_000)

    checks = [line for line in balanced.log(1)[before:] if "Processing automatic" in line]
    assert len(checks) == 10
