"""Preferred and unclean elections that someone asks for: by znode and by API."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.errors import ControllerMoved
from kafka_common.model import NO_LEADER, RECOVERING, ElectionType, TopicPartition
from tests.scenarios.orders import start_with_orders
from tests.scenarios.requests import ask, election
from zkcontroller.core.effects import PartitionResult, PartitionResults
from zkcontroller.zookeeper.requests import Create, Delete, SetData
from zkcontroller.zookeeper.znodes import ControllerEpochZnode, PreferredReplicaElectionZnode
from zkcontroller_simulation.control_requests import ReceivedLeaderAndIsr
from zkcontroller_simulation.process import ProcessState
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)
NOWHERE = TopicPartition("nowhere", 0)
ZNODE = PreferredReplicaElectionZnode.PATH
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN


def with_topic(world: World, replicas: list[int]) -> World:
    """Four brokers; the first is the controller and hosts nothing."""
    start_with_orders(world, 1, 2, 3, 4, replicas=[replicas])
    world.invariants.is_isr_sent = False  # AlterPartition tells the leader alone
    return world


def bounce(world: World, broker_id: int) -> None:
    """The broker restarts and catches up."""
    world.stop(broker_id)
    world.settle()
    world.start_brokers(broker_id)
    world.catch_up(ORDERS_0)
    world.run_until_quiet()


def leadership(world: World) -> tuple[int, int, tuple[int, ...]]:
    state = world.state_znode("orders", 0)
    return state.leader, state.leader_epoch, state.in_sync_replicas


def elect(world: World, election_type: ElectionType, *partitions: TopicPartition) -> list[int]:
    response = ask(world, PartitionResults, election(partitions, election_type))
    assert response.error_code == ErrorCode.none
    return [result.error_code for result in response.results]


# ---------------------------------------------------------------------- by znode


def test_the_preferred_leader_returns_by_znode_two_epochs_after_its_failure(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    assert leadership(world) == (3, 1, (3, 2))

    world.ask_for_preferred_leaders(ORDERS_0)
    world.settle()

    assert leadership(world) == (2, 2, (3, 2))
    assert world.zookeeper.peek(ZNODE) is None
    assert any(
        "Partition orders-0 completed preferred replica leader election. New leader is 2" in line
        for line in world.log(1, "INFO")
    )


def test_two_elections_by_znode_after_each_other_both_work(world: World) -> None:
    with_topic(world, [2, 3])

    for leader_epoch in (2, 4):
        bounce(world, 2)
        world.ask_for_preferred_leaders(ORDERS_0)
        world.run_until_quiet()
        assert leadership(world)[:2] == (2, leader_epoch)


def test_while_the_preferred_broker_is_down_the_znode_goes_and_the_leader_stays(
    world: World,
) -> None:
    with_topic(world, [2, 3])
    world.stop(2)
    world.settle()

    world.ask_for_preferred_leaders(ORDERS_0)
    world.settle()

    assert leadership(world) == (3, 1, (3,))
    assert world.zookeeper.peek(ZNODE) is None
    assert any("failed to complete preferred replica" in line for line in world.log(1, "WARN"))


@pytest.mark.parametrize(
    "data", [b"", b"{", b"[]", b'{"version":1}', b'{"version":1,"partitions":[{"topic":3}]}']
)
def test_a_corrupt_election_znode_elects_no_leader_and_is_deleted_and_the_next_one_works(
    world: World, data: bytes
) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)

    world.write(Create(ZNODE, data))
    world.run_until_quiet()
    assert world.zookeeper.peek(ZNODE) is None
    world.ask_for_preferred_leaders(ORDERS_0)
    world.run_until_quiet()

    assert leadership(world)[0] == 2
    assert world.failures == []


def test_an_order_removed_by_hand_does_not_hide_the_next_one(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    controller = world.living[1]
    world.pause(1)
    world.ask_for_preferred_leaders(NOWHERE)
    world.write(Delete(ZNODE))
    world.resume(1)
    world.run_until_quiet()

    world.ask_for_preferred_leaders(ORDERS_0)
    world.run_until_quiet()

    assert leadership(world)[0] == 2
    assert controller.state is ProcessState.RUNNING


def test_unknown_partitions_and_topics_under_deletion_are_skipped(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    world.stop(3)
    world.run_until_quiet()
    world.delete_topic("orders")
    world.run_until_quiet()

    world.ask_for_preferred_leaders(NOWHERE, ORDERS_0)
    world.run_until_quiet()

    assert world.zookeeper.peek(ZNODE) is None
    assert world.failures == []


def test_a_failover_resumes_what_the_znode_asks_for(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    world.pause(1)
    world.ask_for_preferred_leaders(ORDERS_0)

    world.expire_session(broker=1)
    world.run_until(lambda: world.active_controller not in (None, 1))
    world.resume(1)
    world.settle()

    assert leadership(world)[0] == 2
    assert world.zookeeper.peek(ZNODE) is None


def test_a_listed_partition_that_never_had_a_leader_does_not_stop_the_failover(
    world: World,
) -> None:
    """In Kafka the controller moves on, again and again, until the znode is gone."""
    with_topic(world, [2, 3])
    world.create_topic("hopeless", replicas=[[9]])
    world.run_until_quiet()
    world.pause(1)
    world.ask_for_preferred_leaders(TopicPartition("hopeless", 0))

    world.expire_session(broker=1)
    world.resume(1)
    world.run_until_quiet()

    assert world.active_controller is not None
    assert world.zookeeper.peek(ZNODE) is None
    assert world.failures == []


def test_a_controller_that_moved_does_not_process_a_queued_election(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    controller = world.living[1]
    world.pause(1)
    world.ask_for_preferred_leaders(ORDERS_0)
    epoch = ControllerEpochZnode.encode(world.controller_epoch)
    world.write(SetData(ControllerEpochZnode.PATH, epoch))
    world.resume(1)
    world.run_until(lambda: controller.ended_with is ControllerMoved)
    world.run_for(10)

    assert any(
        "Controller moved to another broker when processing ReplicaLeaderElection" in line
        for line in world.log(1, "INFO")
    )
    assert leadership(world)[0] == 3


# ---------------------------------------------------------------------- by API


def test_the_api_gives_the_leadership_back_and_tells_every_replica(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)
    world.forget_requests()

    assert elect(world, PREFERRED, ORDERS_0) == [ErrorCode.none]

    assert leadership(world)[0] == 2
    for broker_id in (2, 3):
        (told,) = world.received(broker_id, ReceivedLeaderAndIsr)
        assert told.partitions[ORDERS_0].is_new is False
    assert world.received(4, ReceivedLeaderAndIsr) == []
    world.settle()


def test_each_partition_of_a_preferred_election_has_its_own_verdict(world: World) -> None:
    with_topic(world, [2, 3])
    world.create_topic("alone", replicas=[[4, 3]])
    world.settle()
    world.stop(4)
    world.settle()

    response = ask(
        world,
        PartitionResults,
        election([NOWHERE, ORDERS_0, TopicPartition("alone", 0)], PREFERRED),
    )

    assert response == PartitionResults(
        ErrorCode.none,
        (
            PartitionResult(
                NOWHERE, ErrorCode.unknown_topic_or_partition, "The partition does not exist."
            ),
            PartitionResult(ORDERS_0, ErrorCode.election_not_needed),
            PartitionResult(
                TopicPartition("alone", 0),
                ErrorCode.preferred_leader_not_available,
                "Failed to elect leader for partition alone-0 under strategy"
                " PreferredReplicaPartitionLeaderElectionStrategy",
            ),
        ),
    )


def test_a_topic_under_deletion_gets_no_election(world: World) -> None:
    with_topic(world, [2, 3])
    world.stop(2)
    world.settle()
    world.delete_topic("orders")
    world.run_until_quiet()

    (result,) = ask(world, PartitionResults, election([ORDERS_0], PREFERRED)).results

    assert (result.error_code, result.message) == (
        ErrorCode.invalid_topic_exception,
        "The topic is being deleted",
    )


def test_a_partition_asked_for_twice_is_elected_once(world: World) -> None:
    with_topic(world, [2, 3])
    bounce(world, 2)

    assert elect(world, PREFERRED, ORDERS_0, ORDERS_0) == [ErrorCode.none]

    assert leadership(world)[:2] == (2, 2)


def test_a_partition_that_never_had_a_leader_is_not_available(world: World) -> None:
    with_topic(world, [2, 3])
    world.create_topic("hopeless", replicas=[[9]])
    world.run_until_quiet()
    hopeless = TopicPartition("hopeless", 0)

    assert elect(world, PREFERRED, hopeless) == [ErrorCode.preferred_leader_not_available]
    assert elect(world, UNCLEAN, hopeless) == [ErrorCode.eligible_leaders_not_available]


def test_an_unclean_election_makes_the_survivor_lead_alone_and_recovering(world: World) -> None:
    with_topic(world, [2, 3])
    world.stop(3)
    world.settle()
    world.stop(2)
    world.settle()
    world.start_brokers(3)
    assert leadership(world) == (NO_LEADER, 2, (2,))

    assert elect(world, UNCLEAN, ORDERS_0) == [ErrorCode.none]

    assert leadership(world) == (3, 3, (3,))
    assert world.state_znode("orders", 0).leader_recovery_state == RECOVERING
    assert elect(world, UNCLEAN, ORDERS_0) == [ErrorCode.election_not_needed]


def test_an_unclean_election_needs_a_live_replica(world: World) -> None:
    with_topic(world, [2, 3])
    world.stop(3)
    world.stop(2)
    world.settle()
    before = leadership(world)

    assert elect(world, UNCLEAN, ORDERS_0) == [ErrorCode.eligible_leaders_not_available]

    assert leadership(world) == before


def test_an_unclean_election_of_a_partition_with_a_leader_is_not_needed(world: World) -> None:
    with_topic(world, [2, 3])

    assert elect(world, UNCLEAN, ORDERS_0) == [ErrorCode.election_not_needed]
    assert leadership(world) == (2, 0, (2, 3))


def test_a_broker_that_is_not_the_controller_says_so_for_each_partition(world: World) -> None:
    with_topic(world, [2, 3])

    each = ask(world, PartitionResults, election([ORDERS_0, NOWHERE], PREFERRED), to=3)
    nothing = ask(world, PartitionResults, election(None, PREFERRED), to=3)

    assert [result.error_code for result in each.results] == [
        ErrorCode.not_controller,
        ErrorCode.not_controller,
    ]
    assert nothing == PartitionResults(ErrorCode.none)
