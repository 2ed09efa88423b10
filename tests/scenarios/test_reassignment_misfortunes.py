"""Replicas that move while brokers, topics and controllers come to grief."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved
from kafka_common.model import NO_LEADER, ReplicaAssignment
from tests.scenarios.reassignments import (
    CONTROLLER,
    ORDERS_0,
    ORDERS_1,
    ZNODE,
    Admin,
    assignment,
    catch_up,
    is_asked,
    leadership,
    with_topic,
)
from tests.scenarios.requests import alter_partition, ask, isr_change
from zkcontroller.core.effects import AlterPartitionResult, Question
from zkcontroller.core.events import ApiPartitionReassignment
from zkcontroller.core.states import ReplicaState
from zkcontroller.zookeeper.requests import Delete, FencedBatch, SetData, ZkCode
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, TopicZnode
from zkcontroller_simulation.process import ProcessState
from zkcontroller_simulation.world import World

AUTO_REBALANCE_MS = 700_000
"""By then the automatic balancing has looked at every partition twice."""


@pytest.fixture
def admin(world: World) -> Admin:
    return Admin(world)


# ---------------------------------------------------------------------- misfortune


def test_a_leader_that_dies_during_the_move_is_followed_and_the_move_ends(
    world: World, admin: Admin
) -> None:
    with_topic(world, [2, 3])
    admin.alter({ORDERS_0: [3, 4]})

    world.stop(2)
    world.settle()
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((3, 4))
    assert leadership(world)[0] == 3
    assert set(leadership(world)[2]) == {3, 4}


def test_a_target_that_dies_and_returns_during_the_move_is_waited_for(
    world: World, admin: Admin
) -> None:
    with_topic(world, [2, 3])
    admin.alter({ORDERS_0: [3, 4]})
    world.stop(4)
    world.settle()
    catch_up(world)
    assert assignment(world).is_being_reassigned

    world.start_brokers(4)
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((3, 4))
    world.settle()


def test_a_leader_in_the_target_that_is_dead_when_the_move_ends_is_replaced(
    world: World, admin: Admin
) -> None:
    """The last member of the ISR keeps its place there, but it does not lead."""
    with_topic(world, [2])
    world.stop(2)
    world.settle()
    assert leadership(world) == (NO_LEADER, 1, (2,))

    admin.alter({ORDERS_0: [2, 3]})
    world.start_brokers(2)
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((2, 3))
    assert leadership(world)[0] == 2
    world.settle()


def test_a_partition_without_a_state_znode_is_no_end_of_the_failover(world: World) -> None:
    world.start_brokers(1)
    world.create_topic("orders", replicas=[[9]])
    world.run_until_quiet()

    world.ask_for_reassignment({ORDERS_0: [1]})
    world.run_until_quiet()
    world.delete_controller_znode()
    world.run_until_quiet()

    assert world.active_controller == 1
    assert world.failures == []


def test_a_second_order_that_drops_the_adding_replica_that_leads_elects_another(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1, 2], brokers=(1, 2, 3, 4, 5))
    admin.alter({ORDERS_0: [3, 4]})
    change = isr_change(world, ORDERS_0, [1, 2, 3])
    ask(world, AlterPartitionResult, alter_partition(world, 1, change))
    world.run_for(AUTO_REBALANCE_MS)
    world.run_until_quiet()
    assert leadership(world)[0] == 3

    assert admin.codes({ORDERS_0: [4, 5]}) == {ORDERS_0: 0}

    assert leadership(world)[0] in (1, 2)
    assert 3 not in leadership(world)[2]
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((4, 5))
    assert leadership(world)[0] == 4
    world.settle()


@pytest.mark.parametrize("target", [[1], [1, 2]])
def test_a_partition_that_never_had_a_leader_gets_one_on_the_live_brokers_of_an_order(
    world: World, admin: Admin, target: list[int]
) -> None:
    world.start_brokers(1, 2)
    world.create_topic("orders", replicas=[[9]])
    world.run_until_quiet()

    admin.alter({ORDERS_0: target})

    assert leadership(world)[0] == target[0]
    assert set(leadership(world)[2]) == set(target)
    assert assignment(world) == ReplicaAssignment(tuple(target))
    world.settle()


def test_partitions_added_while_the_order_was_on_its_way_are_not_lost(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1])
    controller = world.living[CONTROLLER]
    controller.breakpoint = lambda question: isinstance(question, FencedBatch)
    world.put(CONTROLLER, ApiPartitionReassignment(((ORDERS_0, (2,)),), 1))
    world.run_until(lambda: controller.state is ProcessState.PAUSED)

    world.add_partitions("orders", [[3]])
    controller.resume()
    world.run_until_quiet()
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((2,))
    assert assignment(world, ORDERS_1) == ReplicaAssignment((3,))
    assert leadership(world, ORDERS_1) == (3, 0, (3,))
    assert admin.ongoing() == {}


def test_a_move_and_a_deletion_end_with_the_topic_gone(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2])
    admin.alter({ORDERS_0: [3, 4]})

    world.delete_topic("orders")
    world.run_until_quiet()
    catch_up(world)

    assert world.zookeeper.peek(TopicZnode.path("orders")) is None
    assert admin.ongoing() == {}
    assert all(not p.broker.hosted for p in world.living.values())
    world.settle()


def test_a_deletion_does_not_wait_for_a_move_that_can_never_end(world: World, admin: Admin) -> None:
    """A topic that is queued gets no leader, so no one would let the target into the ISR."""
    with_topic(world, [2])
    admin.alter({ORDERS_0: [3]})
    world.stop(2)
    world.run_until_quiet()
    assert leadership(world)[0] == NO_LEADER
    world.delete_topic("orders")
    world.run_until_quiet()

    world.kill(CONTROLLER)
    world.start(2)
    world.run_until_quiet()

    assert world.zookeeper.peek(TopicZnode.path("orders")) is None


def test_a_controller_that_moved_does_not_process_a_queued_order(world: World) -> None:
    with_topic(world, [1])
    controller = world.living[CONTROLLER]
    world.pause(CONTROLLER)
    world.ask_for_reassignment({ORDERS_0: [2]})
    epoch = world.controller_epoch
    world.write(SetData(ControllerEpochZnode.PATH, ControllerEpochZnode.encode(epoch)))
    world.resume(CONTROLLER)
    world.run_until(lambda: controller.ended_with is ControllerMoved)

    assert any(
        "Controller moved to another broker when processing ZkPartitionReassignment" in line
        for line in world.log(CONTROLLER, "INFO")
    )
    assert assignment(world) == ReplicaAssignment((1,))


QUESTIONS = 60
"""More than a move from [2,3] to [4,3] asks from the order to its end; counted below."""


def nth_question(number: int) -> Callable[[Question], bool]:
    """True at the ``number``-th question from now on."""
    asked = 0

    def is_it(_: Question) -> bool:
        nonlocal asked
        asked += 1
        return asked == number

    return is_it


def move_and_kill_at(world: World, number: int) -> bool:
    """The whole move, with the controller killed before it asks that question; if it gets there."""
    with_topic(world, [2, 3], brokers=(1, 2, 3, 4, 5))
    controller = world.living[CONTROLLER]
    controller.breakpoint = nth_question(number)
    world.ask_for_reassignment({ORDERS_0: [4, 3]})
    for _ in range(3):
        world.run_until(lambda: controller.state is ProcessState.PAUSED or world.is_quiet())
        if controller.state is ProcessState.PAUSED:
            world.kill(CONTROLLER)
            world.settle()
            return True
        world.catch_up(ORDERS_0)
    return False


@pytest.mark.parametrize("number", range(1, QUESTIONS))
def test_the_next_controller_ends_what_one_that_died_in_the_middle_began(
    world: World, number: int
) -> None:
    if not move_and_kill_at(world, number):
        assert number > 20, "a move asks for more than this"

    for _ in range(2):
        catch_up(world)

    assert assignment(world) == ReplicaAssignment((4, 3))
    leader, _, isr = leadership(world)
    assert leader in (3, 4)
    assert set(isr) == {3, 4}
    assert not is_asked(world)
    hosts = {b for b in world.living if ORDERS_0 in world.living[b].broker.hosted}
    assert hosts == {3, 4}
    controller = world.controller
    assert controller is not None
    context = controller.controller.context
    assert context.table.reassigning == {}
    row = context.table.row(*ORDERS_0)
    assert context.table.replica_state(row, 2) is ReplicaState.NON_EXISTENT
    world.settle()


def test_an_order_by_znode_goes_with_its_topic_and_the_next_one_is_taken(world: World) -> None:
    """It would refuse every later order, and move a topic that is created again."""
    with_topic(world, [2, 3])
    world.ask_for_reassignment({ORDERS_0: [3, 4]})
    world.run_until_quiet()

    world.delete_topic("orders")
    world.settle()

    assert world.zookeeper.peek(ZNODE) is None
    world.create_topic("orders", replicas=[[2, 3]])
    world.delete_controller_znode()
    world.settle()
    assert assignment(world) == ReplicaAssignment((2, 3))
    world.ask_for_reassignment({ORDERS_0: [3, 2]})
    world.settle()
    assert assignment(world) == ReplicaAssignment((3, 2))


def test_an_order_by_znode_goes_with_a_topic_that_was_removed_by_hand(world: World) -> None:
    with_topic(world, [2, 3])
    world.ask_for_reassignment({ORDERS_0: [3, 4]})
    world.run_until_quiet()
    for path in (
        "/brokers/topics/orders/partitions/0/state",
        "/brokers/topics/orders/partitions/0",
        "/brokers/topics/orders/partitions",
        "/brokers/topics/orders",
    ):
        world.write(Delete(path))
    world.run_until_quiet()

    assert world.zookeeper.peek(ZNODE) is None


def test_a_topic_znode_that_cannot_be_read_is_not_overwritten_by_a_move(
    world: World, admin: Admin
) -> None:
    """It may hold partitions that the controller has not seen."""
    with_topic(world, [2, 3])
    before = world.zookeeper.peek(TopicZnode.path("orders"))
    assert before is not None
    world.refused[TopicZnode.path("orders")] = ZkCode.SYSTEM_ERROR

    result = admin.alter({ORDERS_0: [3, 4]})
    world.refused.clear()

    assert [each.error_code for each in result.results] == [ErrorCode.unknown_server_error]
    assert world.zookeeper.peek(TopicZnode.path("orders")) == before
