"""Replicas that move: by znode and by API, cancelled, replaced, stuck, and resumed by the next."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from tests.scenarios.questions import alter_partition, ask, isr_change
from tests.simulation.control_requests import LeaderAndIsr, StopReplica, ToldStop, UpdateMetadata
from tests.simulation.process import ProcessState
from tests.simulation.registration import Step
from tests.simulation.world import World
from zkcontroller.core.effects import (
    AlterPartitionResult,
    OngoingReassignments,
    PartitionResults,
)
from zkcontroller.core.events import ApiPartitionReassignment, ListPartitionReassignments
from zkcontroller.core.partition_table import ReplicaState
from zkcontroller.errors import ControllerMoved
from zkcontroller.model import NO_LEADER, ReplicaAssignment, TopicPartition
from zkcontroller.state_changes.record import Kind
from zkcontroller.zookeeper.requests import Create, Delete, FencedBatch, SetData
from zkcontroller.zookeeper.znodes import (
    ControllerEpochZnode,
    ReassignPartitionsZnode,
    TopicZnode,
)

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
ZNODE = ReassignPartitionsZnode.PATH
CONTROLLER = 1

NONE = 0
UNKNOWN_TOPIC_OR_PARTITION = 3
INVALID_REPLICA_ASSIGNMENT = 39
NOT_CONTROLLER = 41
NO_REASSIGNMENT_IN_PROGRESS = 85

Targets = Mapping[TopicPartition, Sequence[int] | None]


def with_topic(
    world: World, *replicas: Sequence[int], brokers: Sequence[int] = (1, 2, 3, 4)
) -> World:
    """Brokers, of which the first is the controller, and the topic ``orders``."""
    world.start_brokers(*brokers)
    world.create_topic("orders", replicas=replicas)
    world.settle()
    world.invariants.is_isr_told = False  # AlterPartition tells the leader alone
    world.forget_requests()
    return world


class Admin:
    """Asks the active controller by the API."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._request_id = 10_000

    def alter(self, targets: Targets) -> PartitionResults:
        self._request_id += 1
        wanted = tuple(
            (tp, None if replicas is None else tuple(replicas)) for tp, replicas in targets.items()
        )
        self.world.put(self._controller, ApiPartitionReassignment(wanted, self._request_id))
        self.world.run_until_quiet()
        result = self.world.result(self._request_id)
        assert isinstance(result, PartitionResults)
        return result

    def codes(self, targets: Targets) -> dict[TopicPartition, int]:
        return {each.partition: each.error_code for each in self.alter(targets).results}

    def ongoing(
        self, partitions: tuple[TopicPartition, ...] | None = None
    ) -> dict[TopicPartition, ReplicaAssignment]:
        self._request_id += 1
        self.world.put(self._controller, ListPartitionReassignments(partitions, self._request_id))
        self.world.run_until_quiet()
        result = self.world.result(self._request_id)
        assert isinstance(result, OngoingReassignments)
        return dict(result.reassignments)

    @property
    def _controller(self) -> int:
        assert self.world.active_controller is not None
        return self.world.active_controller


@pytest.fixture
def admin(world: World) -> Admin:
    return Admin(world)


def catch_up(world: World, *partitions: TopicPartition) -> None:
    """The new replicas have fetched everything, and the leaders say so."""
    for tp in partitions or (ORDERS_0,):
        world.catch_up(tp)
    world.run_until_quiet()


def assignment(world: World, tp: TopicPartition = ORDERS_0) -> ReplicaAssignment:
    return world.topic_znode(tp.topic).partitions[tp.partition]


def leadership(world: World, tp: TopicPartition = ORDERS_0) -> tuple[int, int, tuple[int, ...]]:
    state = world.state_znode(*tp)
    return state.leader, state.leader_epoch, state.in_sync_replicas


def is_asked(world: World) -> bool:
    return world.zookeeper.peek(ZNODE) is not None


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
def test_a_corrupt_znode_moves_nothing_and_hurts_nobody(world: World, data: bytes) -> None:
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


def test_a_new_order_of_the_same_replicas_is_no_move_but_changes_who_is_preferred(
    world: World,
) -> None:
    with_topic(world, [1, 2, 3])

    world.ask_for_reassignment({ORDERS_0: [3, 1, 2]})
    world.run_until_quiet()

    assert assignment(world) == ReplicaAssignment((3, 1, 2))
    assert leadership(world) == (1, 1, (1, 2, 3))
    assert not is_asked(world)


# ---------------------------------------------------------------------- what brokers are told


def test_new_replicas_are_told_as_new_and_old_ones_are_not(world: World) -> None:
    with_topic(world, [1, 2])
    world.ask_for_reassignment({ORDERS_0: [3, 2]})
    world.run_until_quiet()

    for broker_id, is_new in ((1, [False]), (2, [False]), (3, [True, True])):
        told = [r.partitions[ORDERS_0] for r in world.received(broker_id, LeaderAndIsr)]
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
    new = [UpdateMetadata, LeaderAndIsr, UpdateMetadata, LeaderAndIsr, UpdateMetadata]
    assert [k for k in kinds(3) if k is not StopReplica][: len(new)] == new
    assert StopReplica not in kinds(3)
    stops = world.received(1, StopReplica)
    assert [each.partitions[ORDERS_0].delete for each in stops] == [False, True]
    assert LeaderAndIsr not in kinds(1), "a broker that leaves is only stopped"
    assert world.received(1, StopReplica)[-1].partitions == {ORDERS_0: ToldStop(3, delete=True)}
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

    # A1, B3 (leader told again), B4 (broker 3 leaves the ISR)
    assert leadership(world) == (1, 3, (1, 2, 4))
    world.settle()


def test_a_replication_factor_can_be_reduced_and_raised(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2, 3])

    assert admin.codes({ORDERS_0: [2]}) == {ORDERS_0: NONE}
    assert assignment(world) == ReplicaAssignment((2,))
    assert leadership(world)[0] == 2
    assert leadership(world)[2] == (2,)

    assert admin.codes({ORDERS_0: [2, 3, 4]}) == {ORDERS_0: NONE}
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((2, 3, 4))
    assert leadership(world)[2] == (2, 3, 4)
    world.settle()


# ---------------------------------------------------------------------- by API


def test_the_api_answers_when_the_move_has_begun(world: World, admin: Admin) -> None:
    with_topic(world, [1])

    answer = admin.alter({ORDERS_0: [2]})

    assert (answer.error_code, [each.error_code for each in answer.results]) == (0, [NONE])
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

    assert (result.error_code, result.message) == (INVALID_REPLICA_ASSIGNMENT, reason)
    assert assignment(world) == ReplicaAssignment((1,))


def test_replicas_that_stay_or_leave_need_not_be_alive(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2, 3])
    world.stop(2)
    world.stop(3)
    world.settle()

    assert admin.codes({ORDERS_0: [1, 2, 4]}) == {ORDERS_0: NONE}


def test_each_partition_has_its_own_verdict(world: World, admin: Admin) -> None:
    with_topic(world, [1], [1])
    nowhere = TopicPartition("nowhere", 0)
    beyond = TopicPartition("orders", 9)

    assert admin.codes({nowhere: [2], beyond: None, ORDERS_0: [2], ORDERS_1: []}) == {
        nowhere: UNKNOWN_TOPIC_OR_PARTITION,
        beyond: NO_REASSIGNMENT_IN_PROGRESS,
        ORDERS_0: NONE,
        ORDERS_1: INVALID_REPLICA_ASSIGNMENT,
    }


def test_a_topic_under_deletion_is_not_moved(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2])
    world.stop(2)
    world.settle()
    world.delete_topic("orders")
    world.run_until_quiet()

    (result,) = admin.alter({ORDERS_0: [3]}).results

    assert result.error_code == UNKNOWN_TOPIC_OR_PARTITION
    assert result.message == "The partition does not exist."


def test_a_cancelled_move_ends_with_the_replicas_it_began_with(world: World, admin: Admin) -> None:
    with_topic(world, [1, 2])
    admin.alter({ORDERS_0: [3, 4]})
    assert ORDERS_0 in world.living[3].broker.hosted
    world.forget_requests()

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: NONE}

    assert assignment(world) == ReplicaAssignment((1, 2))
    assert leadership(world)[0] == 1
    for broker_id in (3, 4):
        assert ORDERS_0 not in world.living[broker_id].broker.hosted
        stops = world.received(broker_id, StopReplica)
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

    assert result.error_code == INVALID_REPLICA_ASSIGNMENT
    assert result.message == "None of the replicas that would be left is in sync."
    assert leadership(world)[0] == 3
    catch_up(world)
    assert assignment(world) == ReplicaAssignment((3, 4))


def test_nothing_to_cancel_is_said_so(world: World, admin: Admin) -> None:
    with_topic(world, [1])

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: NO_REASSIGNMENT_IN_PROGRESS}


def test_a_cancel_takes_the_order_off_the_znode_and_leaves_the_others_in_it(
    world: World, admin: Admin
) -> None:
    with_topic(world, [1], [1])
    world.ask_for_reassignment({ORDERS_0: [2], ORDERS_1: [3]})
    world.run_until_quiet()

    assert admin.codes({ORDERS_0: None}) == {ORDERS_0: NONE}

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

    assert world.result(1) == PartitionResults(NOT_CONTROLLER)
    assert world.result(2) == OngoingReassignments(NOT_CONTROLLER)


def test_only_the_partitions_asked_for_are_listed(world: World, admin: Admin) -> None:
    with_topic(world, [1], [1])
    admin.alter({ORDERS_0: [2], ORDERS_1: [3]})

    moving = ReplicaAssignment((3, 1), (3,), (1,))
    assert admin.ongoing((ORDERS_1, TopicPartition("nowhere", 3))) == {ORDERS_1: moving}
    assert list(admin.ongoing()) == [ORDERS_0, ORDERS_1]


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
    """A topic that is queued gets no leader, so nobody would let the target into the ISR."""
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


# ---------------------------------------------------------------------- killed at every step

QUESTIONS = 60
"""More than a move from [2,3] to [4,3] asks from the order to its end; counted below."""


def nth_question(number: int) -> Callable[[Step], bool]:
    """True at the ``number``-th question from now on."""
    asked = 0

    def is_it(_: Step) -> bool:
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
