"""Replicas that move, by znode: what is written, and what is sent to brokers."""

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
    is_asked,
    leadership,
    with_topic,
)
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import Create, Delete, SetData
from zkcontroller.zookeeper.znodes import ReassignPartitionsZnode, TopicZnode
from zkcontroller_simulation.control_requests import (
    ReceivedLeaderAndIsr,
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    SentStop,
)
from zkcontroller_simulation.world import World


@pytest.fixture
def admin(world: World) -> Admin:
    return Admin(world)


# ---------------------------------------------------------------------- by znode


def test_one_replica_moves_away_from_the_controllers_broker_in_three_leader_epochs(
    world: World,
) -> None:
    with_topic(world, [1], brokers=(1, 2))

    world.ask_for_reassignment({ORDERS_0: [2]})
    world.run_until_quiet()
    assert leadership(world) == (1, 1, (1,)), "A1 alone"
    catch_up(world)

    assert leadership(world) == (2, 3, (2,))
    assert assignment(world) == ReplicaAssignment((2,))
    assert not is_asked(world)
    world.settle()


def test_the_topic_znode_holds_the_move_byte_for_byte_until_it_ends(world: World) -> None:
    with_topic(world, [1, 2, 3], brokers=(1, 2, 3, 4, 5, 6))
    topic_id = world.zookeeper.peek(TopicZnode.path("orders"))
    assert topic_id is not None
    id_text = topic_id.data.split(b'"topic_id":"')[1][:22]

    world.ask_for_reassignment({ORDERS_0: [4, 5, 6]})
    world.run_until_quiet()

    moving = world.zookeeper.peek(TopicZnode.path("orders"))
    assert moving is not None
    assert moving.data == (
        b'{"partitions":{"0":[4,5,6,1,2,3]},"topic_id":"' + id_text + b'",'
        b'"adding_replicas":{"0":[4,5,6]},"removing_replicas":{"0":[1,2,3]},"version":3}'
    )
    catch_up(world)
    done = world.zookeeper.peek(TopicZnode.path("orders"))
    assert done is not None
    assert done.data == (
        b'{"partitions":{"0":[4,5,6]},"topic_id":"' + id_text + b'",'
        b'"adding_replicas":{},"removing_replicas":{},"version":3}'
    )
    world.settle()


def test_a_move_to_a_broker_that_is_down_ends_when_it_starts_and_costs_one_epoch_more(
    world: World,
) -> None:
    with_topic(world, [1], brokers=(1, 2))
    world.stop(2)
    world.settle()

    world.ask_for_reassignment({ORDERS_0: [2]})
    world.run_until_quiet()
    assert assignment(world) == ReplicaAssignment((2, 1), (2,), (1,))
    assert leadership(world) == (1, 1, (1,))

    world.start_brokers(2)
    catch_up(world)

    assert leadership(world) == (2, 4, (2,))
    assert assignment(world) == ReplicaAssignment((2,))
    assert not is_asked(world)


def test_a_finished_partition_leaves_the_znode_and_the_others_stay_in_it(world: World) -> None:
    with_topic(world, [1], [1])
    world.ask_for_reassignment({ORDERS_0: [2], ORDERS_1: [3]})
    world.run_until_quiet()

    catch_up(world, ORDERS_0)

    znode = world.zookeeper.peek(ZNODE)
    assert znode is not None
    assert znode.data == (
        b'{"version":1,"partitions":[{"topic":"orders","partition":1,"replicas":[3]}]}'
    )
    catch_up(world, ORDERS_1)
    assert not is_asked(world)
    assert leadership(world, ORDERS_1) == (3, 3, (3,))


def test_the_next_order_by_znode_is_noticed_after_the_last_one_ended(world: World) -> None:
    with_topic(world, [1])

    for number, target in enumerate((2, 3, 4, 1), start=1):
        world.ask_for_reassignment({ORDERS_0: [target]})
        world.run_until_quiet()
        catch_up(world)
        assert leadership(world) == (target, 3 * number, (target,))


def test_an_order_by_znode_is_noticed_after_an_operator_removed_the_one_before(
    world: World,
) -> None:
    with_topic(world, [1], [1])
    world.ask_for_reassignment({ORDERS_0: [2], ORDERS_1: [3]})
    world.run_until_quiet()
    catch_up(world, ORDERS_0)  # the controller rewrites the znode, which uses the watch up
    world.write(Delete(ZNODE))
    world.run_until_quiet()

    world.ask_for_reassignment({ORDERS_0: [4]})
    world.run_until_quiet()
    catch_up(world, ORDERS_0)

    assert assignment(world) == ReplicaAssignment((4,))
    assert not is_asked(world)


def test_an_order_written_into_an_existing_znode_is_not_noticed(world: World) -> None:
    with_topic(world, [1], [1])
    world.ask_for_reassignment({ORDERS_0: [2]})
    world.run_until_quiet()

    world.write(SetData(ZNODE, ReassignPartitionsZnode({ORDERS_1: (3,)}).encode()))
    world.run_until_quiet()

    assert assignment(world, ORDERS_1) == ReplicaAssignment((1,))


def test_orders_that_cannot_be_carried_out_are_taken_off_the_znode(world: World) -> None:
    with_topic(world, [1])
    nowhere = TopicPartition("nowhere", 0)

    world.ask_for_reassignment({nowhere: [2], TopicPartition("orders", 7): [2], ORDERS_0: [2]})
    world.run_until_quiet()

    znode = world.zookeeper.peek(ZNODE)
    assert znode is not None
    assert ReassignPartitionsZnode.decode(znode.data).partitions == {ORDERS_0: (2,)}
    assert any("Failed reassignment through zk" in line for line in world.log(1, "WARN"))


@pytest.mark.parametrize("replicas", [[], [2, 2], [-1], [2, -5]], ids=str)
def test_a_znode_that_asks_for_impossible_replicas_changes_nothing(
    world: World, replicas: list[int]
) -> None:
    with_topic(world, [1, 2])

    world.ask_for_reassignment({ORDERS_0: replicas})
    world.run_until_quiet()
    catch_up(world)

    assert assignment(world) == ReplicaAssignment((1, 2))
    assert leadership(world) == (1, 0, (1, 2))
    assert not is_asked(world)


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version":1}', b'{"version":1,"partitions":[{"topic":3}]}']
)
def test_a_corrupt_reassignment_znode_moves_nothing_and_harms_nothing(
    world: World, data: bytes
) -> None:
    with_topic(world, [1])

    world.write(Create(ZNODE, data))
    world.run_until_quiet()
    world.delete_controller_znode()
    world.run_until_quiet()

    assert world.active_controller is not None
    assert assignment(world) == ReplicaAssignment((1,))
    assert world.failures == []


def test_an_order_to_stay_where_it_is_is_done_at_once(world: World) -> None:
    with_topic(world, [1, 2])

    world.ask_for_reassignment({ORDERS_0: [1, 2]})
    world.run_until_quiet()

    assert assignment(world) == ReplicaAssignment((1, 2))
    assert not is_asked(world)


def test_partitions_of_one_order_share_each_write_of_their_topics_znode(world: World) -> None:
    with_topic(world, [1, 2], [1, 2])
    before = world.zookeeper.peek(TopicZnode.path("orders"))
    assert before is not None

    world.ask_for_reassignment({ORDERS_0: [1, 3], ORDERS_1: [1, 3]})
    world.run_until_quiet()
    catch_up(world, ORDERS_0)
    catch_up(world, ORDERS_1)

    after = world.zookeeper.peek(TopicZnode.path("orders"))
    assert after is not None
    # One write begins both moves; each ends with its own, when its new replica is in sync.
    assert after.zk_version == before.zk_version + 3
    assert assignment(world, ORDERS_1) == ReplicaAssignment((1, 3))


def test_a_new_order_of_the_same_replicas_is_no_move_but_changes_who_is_preferred(
    world: World,
) -> None:
    with_topic(world, [1, 2, 3])

    world.ask_for_reassignment({ORDERS_0: [3, 1, 2]})
    world.run_until_quiet()

    assert assignment(world) == ReplicaAssignment((3, 1, 2))
    assert leadership(world) == (1, 1, (1, 2, 3))
    assert not is_asked(world)


# ---------------------------------------------------------------------- what is sent to brokers


def test_new_replicas_get_the_flag_is_new_and_old_ones_do_not(world: World) -> None:
    with_topic(world, [1, 2])
    world.ask_for_reassignment({ORDERS_0: [3, 2]})
    world.run_until_quiet()

    for broker_id, is_new in ((1, [False]), (2, [False]), (3, [True, True])):
        told = [r.partitions[ORDERS_0] for r in world.received(broker_id, ReceivedLeaderAndIsr)]
        assert [each.is_new for each in told] == is_new, broker_id
        for each in told:
            assert each.replicas == (3, 2, 1)
            assert (each.adding_replicas, each.removing_replicas) == ((3,), (1,))
            assert each.leader_epoch == 1


def test_each_broker_gets_its_requests_in_kafkas_order_when_the_move_ends(world: World) -> None:
    with_topic(world, [1, 2])
    world.ask_for_reassignment({ORDERS_0: [3, 2]})
    world.run_until_quiet()
    world.forget_requests()

    catch_up(world)

    def kinds(broker_id: int) -> list[type]:
        return [type(r) for r in world.living[broker_id].broker.received]

    # AlterPartition; election; replica offline; final UpdateMetadata
    new = [
        ReceivedUpdateMetadata,
        ReceivedLeaderAndIsr,
        ReceivedUpdateMetadata,
        ReceivedLeaderAndIsr,
        ReceivedUpdateMetadata,
    ]
    assert [k for k in kinds(3) if k is not ReceivedStopReplica][: len(new)] == new
    assert ReceivedStopReplica not in kinds(3)
    stops = world.received(1, ReceivedStopReplica)
    assert [each.partitions[ORDERS_0].delete for each in stops] == [False, True]
    assert ReceivedLeaderAndIsr not in kinds(1), "a broker that leaves is only stopped"
    assert world.received(1, ReceivedStopReplica)[-1].partitions == {
        ORDERS_0: SentStop(3, delete=True)
    }
    assert ORDERS_0 not in world.living[1].broker.hosted
    told = world.living[3].broker.hosted[ORDERS_0]
    assert (told.leader, told.replicas, told.adding_replicas) == (3, (3, 2), ())


def test_the_log_tells_of_a_request_after_it_was_sent(world: World) -> None:
    with_topic(world, [1, 2])
    controller = world.controller
    assert controller is not None
    controller.state_changes.clear()

    world.ask_for_reassignment({ORDERS_0: [3, 2]})
    world.run_until_quiet()

    kinds = [record.kind for record in controller.state_changes]
    assert Kind.REASSIGNMENT_SENT in kinds
    assert kinds.index(Kind.LEADER_AND_ISR_SENDING) < kinds.index(Kind.REASSIGNMENT_SENT)
    assert Kind.REPLICA_STATE_FAILED not in kinds


def test_a_leader_that_stays_keeps_its_place_and_the_replica_that_leaves_is_shrunk_away(
    world: World,
) -> None:
    with_topic(world, [1, 2, 3])

    world.ask_for_reassignment({ORDERS_0: [1, 2, 4]})
    world.run_until_quiet()
    catch_up(world)

    # A1, B3 (the leader gets it again), B4 (broker 3 leaves the ISR)
    assert leadership(world) == (1, 3, (1, 2, 4))
    world.settle()


def test_a_replication_factor_can_be_reduced_and_raised(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2, 3])

    assert admin.codes({ORDERS_0: [2]}) == {ORDERS_0: ErrorCode.none}
    assert assignment(world) == ReplicaAssignment((2,))
    assert leadership(world)[0] == 2
    assert leadership(world)[2] == (2,)

    assert admin.codes({ORDERS_0: [2, 3, 4]}) == {ORDERS_0: ErrorCode.none}
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((2, 3, 4))
    assert leadership(world)[2] == (2, 3, 4)
    world.settle()
