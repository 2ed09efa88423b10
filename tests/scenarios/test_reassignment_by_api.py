"""Replicas that move, by API: refused, cancelled, replaced and listed."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.scenarios.reassignments import (
    ORDERS_0,
    ORDERS_1,
    ZNODE,
    Admin,
    assignment,
    catch_up,
    leadership,
    with_topic,
)
from tests.scenarios.requests import alter_partition, ask, isr_change
from zkcontroller.core.effects import AlterPartitionResult, OngoingReassignments, PartitionResults
from zkcontroller.core.events import ApiPartitionReassignment, ListPartitionReassignments
from zkcontroller.zookeeper.znodes import ReassignPartitionsZnode
from zkcontroller_simulation.control_requests import ReceivedStopReplica
from zkcontroller_simulation.world import World


@pytest.fixture
def admin(world: World) -> Admin:
    return Admin(world)


def test_the_api_answers_when_the_move_has_begun(world: World, admin: Admin) -> None:
    with_topic(world, [1])

    response = admin.alter({ORDERS_0: [2]})

    assert (response.error_code, [each.error_code for each in response.results]) == (
        0,
        [ErrorCode.none],
    )
    assert assignment(world).is_being_reassigned
    assert admin.ongoing() == {ORDERS_0: ReplicaAssignment((2, 1), (2,), (1,))}
    catch_up(world)
    assert leadership(world) == (2, 3, (2,))
    assert admin.ongoing() == {}


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ([], "Empty replica list specified in partition reassignment."),
        ([1, 1], "Duplicate replica ids in partition reassignment replica list: ArrayBuffer(1, 1)"),
        ([1, -2], "Invalid broker id in replica list: ArrayBuffer(1, -2)"),
        (
            [1, 9],
            "Replica assignment has brokers that are not alive. Replica list: ArrayBuffer(9), live"
            " broker list: Set(1, 2, 3, 4)",
        ),
    ],
    ids=["empty", "duplicate", "negative", "dead"],
)
def test_the_api_refuses_replicas_that_cannot_be(
    world: World, admin: Admin, target: list[int], reason: str
) -> None:
    with_topic(world, [1])

    (result,) = admin.alter({ORDERS_0: target}).results

    assert (result.error_code, result.message) == (ErrorCode.invalid_replica_assignment, reason)
    assert assignment(world) == ReplicaAssignment((1,))


def test_replicas_that_stay_or_leave_need_not_be_alive(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2, 3])
    world.stop(2)
    world.stop(3)
    world.settle()

    assert admin.codes({ORDERS_0: [1, 2, 4]}) == {ORDERS_0: ErrorCode.none}


def test_each_partition_has_its_own_verdict(world: World, admin: Admin) -> None:
    with_topic(world, [1], [1])
    nowhere = TopicPartition("nowhere", 0)
    beyond = TopicPartition("orders", 9)

    assert admin.codes({nowhere: [2], beyond: None, ORDERS_0: [2], ORDERS_1: []}) == {
        nowhere: ErrorCode.unknown_topic_or_partition,
        beyond: ErrorCode.no_reassignment_in_progress,
        ORDERS_0: ErrorCode.none,
        ORDERS_1: ErrorCode.invalid_replica_assignment,
    }


def test_a_topic_under_deletion_is_not_moved(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2])
    world.stop(2)
    world.settle()
    world.delete_topic("orders")
    world.run_until_quiet()

    (result,) = admin.alter({ORDERS_0: [3]}).results

    assert result.error_code == ErrorCode.unknown_topic_or_partition
    assert result.message == "The partition does not exist."


def test_a_cancelled_move_ends_with_the_replicas_it_began_with(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2])
    admin.alter({ORDERS_0: [3, 4]})
    assert ORDERS_0 in world.living[3].broker.hosted
    world.forget_requests()

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: ErrorCode.none}

    assert assignment(world) == ReplicaAssignment((1, 2))
    assert leadership(world)[0] == 1
    for broker_id in (3, 4):
        assert ORDERS_0 not in world.living[broker_id].broker.hosted
        stops = world.received(broker_id, ReceivedStopReplica)
        assert [s.partitions[ORDERS_0].delete for s in stops] == [False, True]
    assert admin.ongoing() == {}
    world.settle()


def test_a_cancel_that_would_drop_the_only_replica_in_sync_is_refused(
    world: World, admin: Admin
) -> None:
    with_topic(world, [2])
    admin.alter({ORDERS_0: [3, 4]})
    world.pause(4)
    row = isr_change(world, ORDERS_0, [2, 3])
    ask(world, AlterPartitionResult, alter_partition(world, 2, row))
    world.resume(4)
    world.stop(2)
    world.settle()
    assert leadership(world)[::2] == (3, (3,))

    (result,) = admin.alter({ORDERS_0: None}).results

    assert result.error_code == ErrorCode.invalid_replica_assignment
    assert result.message == "None of the replicas that would be left is in sync."
    assert leadership(world)[0] == 3
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((3, 4))


def test_nothing_to_cancel_is_said_so(world: World, admin: Admin) -> None:
    with_topic(world, [1])

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: ErrorCode.no_reassignment_in_progress}


def test_a_cancel_takes_the_order_off_the_znode_and_leaves_the_others_in_it(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1], [1])
    world.ask_for_reassignment({ORDERS_0: [2], ORDERS_1: [3]})
    world.run_until_quiet()

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: ErrorCode.none}

    znode = world.zookeeper.peek(ZNODE)
    assert znode is not None
    assert ReassignPartitionsZnode.decode(znode.data).partitions == {ORDERS_1: (3,)}
    world.delete_controller_znode()
    world.run_until_quiet()
    catch_up(world, ORDERS_0, ORDERS_1)
    assert assignment(world, ORDERS_0) == ReplicaAssignment((1,))
    assert assignment(world, ORDERS_1) == ReplicaAssignment((3,))


def test_a_second_order_replaces_the_first_and_drops_its_new_replicas(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1, 2], brokers=(1, 2, 3, 4, 5))
    admin.alter({ORDERS_0: [3, 4]})
    world.forget_requests()

    admin.alter({ORDERS_0: [4, 5]})

    assert assignment(world) == ReplicaAssignment((4, 5, 1, 2), (4, 5), (1, 2))
    assert ORDERS_0 not in world.living[3].broker.hosted
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((4, 5))
    assert set(leadership(world)[2]) == {4, 5}
    assert {b for b in world.living if ORDERS_0 in world.living[b].broker.hosted} == {4, 5}
    world.settle()


def test_a_second_order_may_name_a_new_replica_of_the_first_that_is_in_sync_already(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1, 2])
    admin.alter({ORDERS_0: [3, 4]})
    world.pause(4)
    catch_up_of_three = world.state_znode("orders", 0)
    world.resume(4)
    assert catch_up_of_three.in_sync_replicas == (1, 2)

    admin.alter({ORDERS_0: [1, 3]})
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((1, 3))
    assert leadership(world)[0] == 1
    world.settle()


def test_a_broker_that_is_not_the_controller_refuses(world: World) -> None:
    with_topic(world, [1])

    world.put(2, ApiPartitionReassignment(((ORDERS_0, (2,)),), 1))
    world.put(2, ListPartitionReassignments(None, 2))
    world.run_until_quiet()

    assert world.result(1) == PartitionResults(ErrorCode.not_controller)
    assert world.result(2) == OngoingReassignments(ErrorCode.not_controller)


def test_only_the_partitions_asked_for_are_listed(world: World, admin: Admin) -> None:
    with_topic(world, [1], [1])
    admin.alter({ORDERS_0: [2], ORDERS_1: [3]})

    moving = ReplicaAssignment((3, 1), (3,), (1,))
    assert admin.ongoing((ORDERS_1, TopicPartition("nowhere", 3))) == {ORDERS_1: moving}
    assert list(admin.ongoing()) == [ORDERS_0, ORDERS_1]
