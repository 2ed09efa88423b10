"""Topics on their way out: with all brokers up, with some down, through failures and failovers."""

from __future__ import annotations

import pytest

from kafka_common.model import TopicPartition
from tests.scenarios.orders import start_with_orders
from tests.scenarios.workbench import Workbench
from zkcontroller.core.states import PartitionState, ReplicaState
from zkcontroller.zookeeper.requests import Create, Delete, FencedBatch
from zkcontroller.zookeeper.znodes import ConfigZnode, DeleteTopicZnode, TopicZnode
from zkcontroller_simulation.control_requests import (
    ReceivedStopReplica,
    ReceivedUpdateMetadata,
    SentStop,
)
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)


@pytest.fixture
def orders(world: World) -> World:
    """Three brokers, and a topic with two partitions on all of them."""
    start_with_orders(world, 1, 2, 3, replicas=[[1, 2, 3], [2, 3, 1]])
    return world


def is_gone(world: World, topic: str = "orders") -> bool:
    return (
        world.zookeeper.peek(TopicZnode.path(topic)) is None
        and world.zookeeper.peek(DeleteTopicZnode.path(topic)) is None
    )


def test_with_all_replicas_alive_the_topic_its_configuration_and_the_request_go(
    orders: World,
) -> None:
    orders.operator.create_missing([ConfigZnode.topic_path("orders")])

    topic_id = orders.topic_znode("orders").topic_id
    context = orders.living[1].controller.context
    assert topic_id is not None
    assert context.topic_names[topic_id] == "orders"

    orders.delete_topic("orders")
    orders.settle()

    assert is_gone(orders)
    assert topic_id not in context.topic_names
    assert orders.zookeeper.peek(ConfigZnode.topic_path("orders")) is None
    for broker_id in (1, 2, 3):
        broker = orders.living[broker_id].broker
        assert broker.hosted == {}
        assert broker.metadata == {}


def test_each_replica_is_stopped_first_and_then_deleted(orders: World) -> None:
    orders.forget_requests()

    orders.delete_topic("orders")
    orders.settle()

    for broker_id in (1, 2, 3):
        stops = orders.received(broker_id, ReceivedStopReplica)
        assert [set(stop.partitions.values()) for stop in stops] == [
            {SentStop(-2, delete=False)},
            {SentStop(-2, delete=True)},
        ]
        (metadata,) = [
            u for u in orders.received(broker_id, ReceivedUpdateMetadata) if u.partitions
        ]
        assert {told.leader for told in metadata.partitions.values()} == {-2}


def test_two_topics_are_deleted_together(orders: World) -> None:
    orders.create_topic("refunds", replicas=[[1, 2]])
    orders.settle()

    orders.delete_topic("orders")
    orders.delete_topic("refunds")
    orders.settle()

    assert is_gone(orders)
    assert is_gone(orders, "refunds")
    context = orders.living[1].controller.context
    assert not context.topics_to_be_deleted
    assert not context.topics_with_deletion_started
    assert not context.topics_ineligible_for_deletion


def test_an_unknown_topic_loses_its_request_and_nothing_else(orders: World) -> None:
    orders.write(Create(DeleteTopicZnode.path("nobody")))
    orders.settle()

    assert is_gone(orders, "nobody")
    assert list(orders.topics()) == ["orders"]
    assert any("non-existing topics nobody" in line for line in orders.log(1, "WARN"))


def test_a_request_without_a_topic_found_at_failover_does_not_doom_a_later_one(
    orders: World,
) -> None:
    orders.delete_controller_znode()
    orders.write(Create(DeleteTopicZnode.path("refunds")))
    orders.settle()
    assert orders.zookeeper.peek(DeleteTopicZnode.path("refunds")) is None

    orders.create_topic("refunds", replicas=[[2, 1]])
    orders.settle()
    orders.kill(2)
    orders.settle()

    assert orders.state_znode("refunds", 0).leader == 1


def test_with_deletion_disabled_the_request_goes_and_the_topic_stays(world: World) -> None:
    world.settings["delete_topic_enable"] = False
    start_with_orders(world, 1, replicas=[[1]])

    world.delete_topic("orders")
    world.settle()

    assert list(world.topics()) == ["orders"]
    assert world.zookeeper.peek(DeleteTopicZnode.path("orders")) is None


def test_with_deletion_disabled_a_request_found_at_failover_goes_too(world: World) -> None:
    world.settings["delete_topic_enable"] = False
    start_with_orders(world, 1, replicas=[[1]])
    world.stop(1)
    world.delete_topic("orders")

    world.start_brokers(1)
    world.settle()

    assert list(world.topics()) == ["orders"]
    assert world.zookeeper.peek(DeleteTopicZnode.path("orders")) is None


def test_a_topic_with_a_dead_replica_waits_until_its_broker_is_back(orders: World) -> None:
    orders.stop(3)
    orders.settle()

    orders.delete_topic("orders")
    orders.settle()
    context = orders.living[1].controller.context
    row = context.table.row("orders", 0)
    assert context.topics_ineligible_for_deletion == {"orders"}
    assert context.table.replica_state(row, 3) is ReplicaState.OFFLINE
    assert context.table.replica_state(row, 2) is ReplicaState.DELETION_SUCCESSFUL
    assert context.table.partition_state[row] == PartitionState.NON_EXISTENT
    assert not is_gone(orders)

    orders.start_brokers(3)
    orders.settle()
    assert is_gone(orders)


def test_a_broker_that_dies_after_deletion_started_holds_it_up_until_it_is_back(
    orders: World,
) -> None:
    orders.pause(3)
    orders.delete_topic("orders")
    orders.run_for(1_000)
    assert not is_gone(orders), "broker 3 has not answered"

    orders.kill(3)
    orders.settle()
    assert not is_gone(orders)
    assert orders.living[1].controller.context.topics_ineligible_for_deletion == {"orders"}

    orders.start_brokers(3)
    orders.settle()
    assert is_gone(orders)


def test_a_replica_in_a_failed_log_directory_halts_the_deletion(orders: World) -> None:
    orders.living[2].broker.failed.add(ORDERS_0)

    orders.delete_topic("orders")
    orders.run_until_quiet()

    assert not is_gone(orders)
    assert any(
        "Halted deletion of topics orders due to replica deletion failure" in line
        for line in orders.log(1, "INFO")
    )


def test_deletion_resumes_after_a_failover_in_its_middle(orders: World) -> None:
    orders.pause(3)
    orders.delete_topic("orders")
    orders.run_for(1_000)

    orders.delete_controller_znode()
    orders.run_for(1_000)
    orders.resume(3)
    orders.settle()

    assert orders.controller_epoch == 2
    assert is_gone(orders)


def test_a_controller_that_dies_while_it_removes_the_znodes_is_followed_by_one_that_finishes(
    orders: World,
) -> None:
    orders.delete_topic("orders")
    first = orders.pause_at(
        orders.controller,
        lambda asked: (
            isinstance(asked, FencedBatch)
            and Delete("/brokers/topics/orders/partitions/0/state") in asked.operations
        ),
    )

    orders.kill(first.broker_id)
    orders.run_until_quiet()
    orders.start_brokers(first.broker_id)
    orders.settle()

    assert is_gone(orders)


def test_partitions_added_to_a_topic_under_deletion_are_not_created(orders: World) -> None:
    orders.stop(3)
    orders.settle()
    orders.delete_topic("orders")
    orders.settle()

    orders.add_partitions("orders", replicas=[[1, 2]])
    orders.settle()

    assert sorted(orders.topic_znode("orders").partitions) == [0, 1], "the znode is restored"
    assert not orders.has_state_znode("orders", 2)


def test_a_topic_can_be_created_again_under_its_old_name(orders: World) -> None:
    old_id = orders.topic_znode("orders").topic_id
    orders.delete_topic("orders")
    orders.settle()

    orders.create_topic("orders", replicas=[[3, 1]])
    orders.settle()

    state = orders.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch) == (3, 0)
    assert orders.topic_znode("orders").topic_id != old_id


def test_a_dead_brokers_partitions_under_deletion_get_no_new_leader(orders: World) -> None:
    orders.pause(3)
    orders.delete_topic("orders")
    orders.run_for(1_000)
    before = orders.state_znode("orders", 0)

    orders.stop(2)
    orders.run_for(1_000)

    assert orders.state_znode("orders", 0) == before


def test_at_failover_only_queued_topics_are_marked_as_ineligible() -> None:
    bench = Workbench()
    for topic in ("orders", "refunds"):
        bench.add(topic, 0, [1, 2])

    bench.run(bench.deletion.initialize(["orders"], ["orders", "refunds"]))

    assert bench.context.topics_to_be_deleted == {"orders"}
    assert bench.context.topics_ineligible_for_deletion == {"orders"}


def test_resuming_while_replicas_are_still_being_deleted_only_clears_the_mark(
    orders: World,
) -> None:
    orders.pause(2)
    orders.pause(3)
    orders.delete_topic("orders")
    orders.run_for(1_000)
    orders.stop(3)
    orders.run_for(1_000)
    context = orders.living[1].controller.context
    assert context.topics_ineligible_for_deletion == {"orders"}
    orders.forget_requests()

    orders.start(3)
    orders.run_for(1_000)

    assert not context.topics_ineligible_for_deletion
    assert orders.received(1, ReceivedStopReplica) == [], "broker 2 has not answered yet"


def test_a_refusal_by_a_brokers_earlier_incarnation_does_not_halt_the_deletion(
    orders: World,
) -> None:
    """In Kafka the stale answer, processed after the bounce, halts it until the next failover."""
    orders.delete_topic("orders")
    busy = orders.pause_at(
        orders.controller,
        lambda asked: (
            isinstance(asked, FencedBatch) and asked.operations[0].path.endswith("/state")
        ),
    )
    broker_epoch = orders.living[2].broker.broker_epoch
    orders.expire_session(broker=2)
    orders.run_until(lambda: orders.living[2].broker.broker_epoch > broker_epoch)

    busy.resume()  # and sends its stops with the epoch that is over
    orders.settle()

    assert any("refused with 77" in line for line in orders.timeline.history)
    assert is_gone(orders)
