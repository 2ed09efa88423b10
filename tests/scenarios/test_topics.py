"""Topics that are created, grow, get their ids, and vanish behind the controller's back."""

from __future__ import annotations

from uuid import UUID

import pytest

from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.scenarios.orders import start_with_orders
from zkcontroller.zookeeper.requests import Delete, ListChildren, SetData
from zkcontroller.zookeeper.znodes import TopicZnode
from zkcontroller_simulation.control_requests import ReceivedLeaderAndIsr
from zkcontroller_simulation.world import World

TOPIC_ID = UUID(int=0x1234, version=4)


def test_a_new_topic_is_led_as_assigned_in_the_controllers_epoch(world: World) -> None:
    world.start_brokers(1, 2)

    world.create_topic("orders", replicas=[[2, 1]])
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.controller_epoch) == (2, 0, 1)
    assert state.in_sync_replicas == (2, 1)
    assert world.living[2].broker.leads(TopicPartition("orders", 0))


def test_a_new_topic_whose_first_replica_is_offline_is_led_by_the_next(world: World) -> None:
    world.start_brokers(1, 2)

    world.create_topic("orders", replicas=[[3, 2]])
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (2, 0, (2,))


def test_a_new_topic_without_a_live_replica_is_led_when_one_starts(world: World) -> None:
    start_with_orders(world, 1, replicas=[[3, 2]])
    assert not world.has_state_znode("orders", 0)

    world.start_brokers(2)
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch) == (2, 0)


def test_partitions_added_to_a_topic_are_created_and_every_broker_learns_of_them(
    world: World,
) -> None:
    start_with_orders(world, 1, 2, replicas=[[1]])

    world.add_partitions("orders", replicas=[[2, 1]])
    world.settle()

    state = world.state_znode("orders", 1)
    assert (state.leader, state.leader_epoch) == (2, 0)
    for broker_id in (1, 2):
        assert TopicPartition("orders", 1) in world.living[broker_id].broker.metadata


def test_the_id_in_a_rewritten_topic_znode_does_not_replace_the_one_in_memory(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[1]], topic_id=TOPIC_ID)
    znode = world.topic_znode("orders")
    other = TopicZnode(UUID(int=7, version=4), znode.partitions)
    partitions = {**other.partitions, 1: other.partitions[0]}

    world.write(SetData(TopicZnode.path("orders"), TopicZnode(other.topic_id, partitions).encode()))
    world.settle()

    last = world.received(1, ReceivedLeaderAndIsr)[-1]
    assert last.topic_ids["orders"] == TOPIC_ID
    assert world.has_state_znode("orders", 1)


def test_changed_replicas_of_existing_partitions_are_ignored(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[1, 2]])
    before = world.state_znode("orders", 0)
    changed = TopicZnode(world.topic_znode("orders").topic_id, {0: ReplicaAssignment((3, 2))})

    world.write(SetData(TopicZnode.path("orders"), changed.encode()))
    world.run_until_quiet()

    assert world.state_znode("orders", 0) == before
    assert world.living[3].broker.told == {}


def test_a_topic_without_an_id_gets_one_which_survives_growth_and_failover(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    topic_id = world.topic_znode("orders").topic_id
    assert topic_id is not None

    world.add_partitions("orders", replicas=[[2, 1]])
    world.settle()
    world.kill(1)
    world.settle()

    assert world.active_controller == 2
    assert world.topic_znode("orders").topic_id == topic_id
    assert world.received(2, ReceivedLeaderAndIsr)[-1].topic_ids["orders"] == topic_id


def test_an_id_that_a_tool_left_out_is_written_back_with_the_partitions_it_added(
    world: World,
) -> None:
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    topic_id = world.topic_znode("orders").topic_id
    partitions = {0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))}

    world.write(SetData(TopicZnode.path("orders"), TopicZnode(None, partitions).encode()))
    world.settle()
    written_back = world.topic_znode("orders")
    world.kill(1)
    world.settle()

    assert topic_id is not None
    assert (written_back.topic_id, dict(written_back.partitions)) == (topic_id, partitions)
    assert world.active_controller == 2
    assert world.received(2, ReceivedLeaderAndIsr)[-1].topic_ids["orders"] == topic_id
    assert [world.state_znode("orders", each).leader for each in (0, 1)] == [2, 2]


def test_a_topic_id_survives_the_restart_of_the_only_broker(world: World) -> None:
    start_with_orders(world, 1, replicas=[[1]])
    topic_id = world.topic_znode("orders").topic_id

    world.stop(1)
    world.run_until_quiet()
    world.start_brokers(1)
    world.settle()

    assert world.topic_znode("orders").topic_id == topic_id
    assert world.living[1].broker.topic_ids["orders"] == topic_id


def test_at_protocol_2_7_no_ids_are_assigned(world: World) -> None:
    world.settings["inter_broker_protocol_version"] = "2.7-IV2"
    start_with_orders(world, 1, replicas=[[1]])
    world.add_partitions("orders", replicas=[[1]])
    world.settle()
    assert world.topic_znode("orders").topic_id is None

    world.delete_topic("orders")
    world.settle()

    assert world.topics() == {}


def test_after_an_upgrade_from_2_7_existing_topics_get_ids(world: World) -> None:
    world.settings["inter_broker_protocol_version"] = "2.7-IV2"
    start_with_orders(world, 1, replicas=[[1]])
    world.stop(1)
    world.run_until_quiet()

    world.settings["inter_broker_protocol_version"] = "3.9-IV0"
    world.start_brokers(1)
    world.settle()

    topic_id = world.topic_znode("orders").topic_id
    assert topic_id is not None
    assert world.living[1].broker.topic_ids["orders"] == topic_id
    world.delete_topic("orders")
    world.settle()
    assert world.topics() == {}


def test_the_id_appears_when_the_controller_moves_to_a_broker_of_a_newer_protocol(
    world: World,
) -> None:
    world.settings["inter_broker_protocol_version"] = "2.7-IV2"
    world.start_brokers(1)
    world.settings["inter_broker_protocol_version"] = "3.9-IV0"
    start_with_orders(world, 2, replicas=[[2, 1]])
    assert world.topic_znode("orders").topic_id is None
    assert world.living[2].broker.topic_ids == {}

    world.kill(1)
    world.settle()

    topic_id = world.topic_znode("orders").topic_id
    assert topic_id is not None
    assert world.living[2].broker.topic_ids["orders"] == topic_id


def test_a_topic_id_given_by_the_creator_is_kept(world: World) -> None:
    world.start_brokers(1)

    world.create_topic("orders", replicas=[[1]], topic_id=TOPIC_ID)
    world.settle()

    assert world.topic_znode("orders").topic_id == TOPIC_ID


def test_a_topic_removed_behind_the_controllers_back_can_be_created_again(world: World) -> None:
    """Kafka keeps the old partition states and leaves such a topic without a leader."""
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    for suffix in ("/partitions/0/state", "/partitions/0", "/partitions", ""):
        world.write(Delete(f"/brokers/topics/orders{suffix}"))
    world.run_until_quiet()

    world.create_topic("orders", replicas=[[2, 1]])
    world.run_until_quiet()

    assert world.state_znode("orders", 0).leader == 2


@pytest.mark.parametrize("parent", ["/brokers/ids", "/brokers/topics", "/admin/delete_topics"])
def test_a_topic_created_while_a_failover_runs_is_not_missed(world: World, parent: str) -> None:
    world.start_brokers(1)
    world.delete_controller_znode()
    controller = world.pause_at(
        world.living[1], lambda asked: asked == ListChildren([parent], True)
    )

    world.create_topic("orders", replicas=[[1]])
    controller.resume()
    world.settle()

    assert world.state_znode("orders", 0).leader == 1


def test_a_partition_whose_creation_landed_and_whose_reply_was_lost_is_led(world: World) -> None:
    """Kafka finds its own znode, takes it for another's, and sends no request until a failover."""
    world.start_brokers(1, 2)
    world.create_topic("orders", replicas=[[2, 1]])

    world.run_until(lambda: world.has_state_znode("orders", 0))
    world.break_connection(1)
    world.settle()

    assert world.living[2].broker.leads(TopicPartition("orders", 0))


def test_an_id_that_was_written_and_whose_reply_was_lost_is_the_topics_from_the_beginning(
    world: World,
) -> None:
    """Else its replicas get no id, and the next who writes the znode takes the id away."""
    world.start_brokers(1, 2)
    world.create_topic("orders", replicas=[[2, 1]])

    world.run_until(lambda: world.topic_znode("orders").topic_id is not None)
    topic_id = world.topic_znode("orders").topic_id
    world.break_connection(1)
    world.settle()

    told = {request.topic_ids["orders"] for request in world.received(2, ReceivedLeaderAndIsr)}
    assert told == {topic_id}
    assert world.topic_znode("orders").topic_id == topic_id


def test_a_move_keeps_an_id_in_the_znode_that_the_controller_does_not_know(world: World) -> None:
    world.settings["inter_broker_protocol_version"] = "2.7-IV2"
    start_with_orders(world, 1, 2, 3, replicas=[[2, 1]])
    topic_id = UUID("f0000000-0000-4000-8000-000000000001")
    partitions = world.topic_znode("orders").partitions
    world.ask_for_reassignment({TopicPartition("orders", 0): [3, 1]})
    world.run_until(lambda: "reads /admin/reassign_partitions" in world.timeline.history[-1])

    world.write(SetData(TopicZnode.path("orders"), TopicZnode(topic_id, partitions).encode()))
    world.settle()

    assert world.topic_znode("orders").topic_id == topic_id
    assert 3 in world.topic_znode("orders").partitions[0].replicas
