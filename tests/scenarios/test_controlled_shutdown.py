"""Brokers that ask to leave: what they hand over, what they are answered."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.effects import ControlledShutdownResult
from zkcontroller.zookeeper.requests import FencedBatch
from zkcontroller_simulation.control_requests import ReceivedStopReplica
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)


def answer(world: World, request_id: int) -> ControlledShutdownResult:
    """What was answered once everything is done."""
    world.run_until_quiet()
    found = world.answer(request_id)
    assert found is not None, "every request is answered"
    return found


def test_one_broker_after_the_other_leaves_and_the_last_keeps_its_leadership(world: World) -> None:
    start_with_orders(world, 0, 1, 2, replicas=[[0, 1, 2]])

    assert answer(world, world.shut_down(2)) == ControlledShutdownResult(ErrorCode.none, ())
    assert world.state_znode("orders", 0).in_sync_replicas == (0, 1)
    assert answer(world, world.shut_down(1)) == ControlledShutdownResult(ErrorCode.none, ())
    assert world.state_znode("orders", 0).in_sync_replicas == (0,)
    assert answer(world, world.shut_down(0)) == ControlledShutdownResult(
        ErrorCode.none, (ORDERS_0,)
    )

    assert world.state_znode("orders", 0).leader == 0


def test_a_leader_hands_over_before_it_leaves(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3, 1]])

    result = answer(world, world.shut_down(2))

    assert result == ControlledShutdownResult(ErrorCode.none, ())
    state = world.state_znode("orders", 0)
    assert (state.leader, state.in_sync_replicas, state.leader_epoch) == (3, (3, 1), 1)
    assert not world.living[2].broker.leads(ORDERS_0), "it is told as well"


def test_a_follower_is_stopped_and_leaves_the_isr(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[3, 2]])
    world.forget_requests()

    result = answer(world, world.shut_down(2))

    assert result == ControlledShutdownResult(ErrorCode.none, ())
    stops = world.received(2, ReceivedStopReplica)
    assert stops
    told = [state for stop in stops for state in stop.partitions.values()]
    assert not any(state.delete for state in told)
    # It stops at the epoch it knows; only the others learn the next.
    assert {state.leader_epoch for state in told} == {0}
    assert world.state_znode("orders", 0).in_sync_replicas == (3,)
    assert world.state_znode("orders", 0).leader_epoch == 1


def test_a_partition_with_one_replica_is_neither_moved_nor_counted(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[2]])

    result = answer(world, world.shut_down(2))

    assert result == ControlledShutdownResult(ErrorCode.none, ())
    assert world.state_znode("orders", 0).leader == 2


def test_a_broker_that_left_and_came_back_is_no_longer_shutting_down(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[2, 1]])
    answer(world, world.shut_down(2))

    world.stop(2)
    world.start_brokers(2)
    world.settle()

    assert not world.living[1].controller.context.shutting_down
    assert any("Removed 2 from list of shutting down brokers." in line for line in world.log(1))


@pytest.mark.parametrize(
    ("broker_id", "difference", "error"),
    [(2, -1, 77), (2, 0, 0), (2, 1, 0), (9, 0, -1)],
    ids=["older epoch", "its epoch", "newer epoch", "unknown broker"],
)
def test_the_broker_epoch_of_the_request_is_checked(
    world: World, broker_id: int, difference: int, error: int
) -> None:
    world.start_brokers(1, 2)
    controller = world.controller
    assert controller is not None
    broker_epoch = world.living[2].broker.broker_epoch + difference

    result = answer(world, world.ask_shutdown(controller, broker_id, broker_epoch))

    assert result.error_code == error


@pytest.mark.parametrize(("broker_id", "error"), [(2, 0), (9, 8)])
def test_without_an_epoch_only_a_live_broker_may_leave(
    world: World, broker_id: int, error: int
) -> None:
    world.start_brokers(1, 2)
    controller = world.controller
    assert controller is not None

    result = answer(world, world.ask_shutdown(controller, broker_id, -1))

    assert result.error_code == error


def test_a_broker_that_is_not_the_controller_says_that_it_moved(world: World) -> None:
    world.start_brokers(1, 2)

    result = answer(world, world.ask_shutdown(world.living[2], 1, -1))

    assert result == ControlledShutdownResult(ErrorCode.stale_controller_epoch)


def test_a_controller_deposed_while_it_hands_over_answers_that_it_moved(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    request_id = world.shut_down(2)
    deposed = world.pause_controller_at(FencedBatch)

    world.delete_controller_znode()
    world.run_until(lambda: world.active_controller not in (None, deposed.broker_id))
    deposed.resume()

    assert answer(world, request_id) == ControlledShutdownResult(ErrorCode.stale_controller_epoch)


def test_a_request_in_the_queue_of_an_expired_controller_is_answered(world: World) -> None:
    world.start_brokers(1, 2)
    busy = world.living[1]
    world.create_topic("orders", replicas=[[2, 1]])
    world.pause_controller_at(FencedBatch)
    request_id = world.ask_shutdown(busy, 2, -1)

    world.expire_session(broker=1)
    world.run_for(100)
    busy.resume()

    assert answer(world, request_id) == ControlledShutdownResult(ErrorCode.stale_controller_epoch)
