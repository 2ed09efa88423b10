"""Brokers that die, come back, bounce, stop cleanly or change their listeners."""

from __future__ import annotations

from kafka_common.model import NO_LEADER, Broker, Endpoint, TopicPartition
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.events import (
    LeaderAndIsrResponseReceived,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from zkcontroller.zookeeper.requests import ListChildren, SetData
from zkcontroller.zookeeper.znodes import BrokerIdZnode, ConfigZnode
from zkcontroller_simulation.control_requests import ReceivedUpdateMetadata
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)


def test_a_brokers_epoch_is_the_czxid_of_its_registration(world: World) -> None:
    world.start_brokers(1, 2)

    for broker_id in (1, 2):
        znode = world.zookeeper.peek(BrokerIdZnode.path(broker_id))
        assert znode is not None
        assert world.living[broker_id].broker.broker_epoch == znode.czxid
        assert znode.zk_version == 1, "created empty, then filled"


def test_the_controller_knows_the_broker_epochs_through_stop_and_restart(world: World) -> None:
    world.start_brokers(1, 2)
    controller = world.living[1].controller.context
    first = controller.live_broker_epochs[2]

    world.stop(2)
    world.settle()
    assert list(controller.live_broker_epochs) == [1]

    world.start_brokers(2)
    world.settle()
    assert controller.live_broker_epochs[2] > first


def test_a_dead_follower_leaves_the_isr_and_every_broker_sees_it_offline(world: World) -> None:
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[2, 3]])
    world.create_topic("untouched", replicas=[[1, 2]])
    world.settle()

    world.stop(3)
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (2, 1, (2,))
    for broker_id in (1, 2):
        metadata = world.living[broker_id].broker.metadata
        assert metadata[ORDERS_0].offline_replicas == (3,)
        assert metadata[ORDERS_0].replicas == (2, 3)
        assert metadata[TopicPartition("untouched", 0)].offline_replicas == ()

    world.start_brokers(3)
    world.settle()
    for broker_id in (1, 2, 3):
        assert world.living[broker_id].broker.metadata[ORDERS_0].offline_replicas == ()


def test_a_dead_leader_costs_one_leader_epoch(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])

    world.stop(2)
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (3, 1, (3,))


def test_the_only_replica_dies_and_stays_in_the_isr_without_a_leader(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[2]])

    world.stop(2)
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (NO_LEADER, 1, (2,))


def test_the_only_replica_stops_and_even_an_unclean_election_finds_no_leader(world: World) -> None:
    world.settings["unclean_leader_election_enable"] = True
    start_with_orders(world, 1, 2, replicas=[[2]])

    world.stop(2)
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.leader_epoch, state.in_sync_replicas) == (NO_LEADER, 1, (2,))


def test_a_broker_that_comes_back_leads_what_only_it_can_lead(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[2]])
    world.stop(2)
    world.settle()

    world.start_brokers(2)
    world.settle()

    assert world.state_znode("orders", 0).leader == 2
    assert world.living[2].broker.leads(ORDERS_0)


def test_a_broker_without_replicas_learns_of_partitions_without_a_leader(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2]])
    for broker_id in (2, 3, 1):
        world.stop(broker_id)
        world.run_until_quiet()

    for broker_id in (1, 3):
        world.start_brokers(broker_id)
        cached = world.living[broker_id].broker.metadata[ORDERS_0]
        assert (cached.leader, cached.isr, cached.replicas) == (NO_LEADER, (2,), (2,))
        assert cached.offline_replicas == (2,)


def test_a_broker_that_bounces_while_the_controller_is_busy_still_gets_everything(
    world: World,
) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3], [3, 2]])

    busy = world.living[1]
    busy.pause()
    world.stop(2)
    newcomer = world.start(2)
    world.run_until(lambda: newcomer.is_listening)
    busy.resume()
    world.settle()

    assert any("bounced brokers: 2" in line for line in world.log(1))
    assert sorted(tp.partition for tp in world.living[2].broker.told) == [0, 1]


def test_new_listeners_of_a_broker_reach_every_broker(world: World) -> None:
    world.start_brokers(1, 2)
    moved = Broker(2, (Endpoint("elsewhere", 9099, "PLAINTEXT", "PLAINTEXT"),))

    world.write(SetData(BrokerIdZnode.path(2), BrokerIdZnode(moved, 1).encode()))
    world.settle()

    for broker_id in (1, 2):
        live = world.living[broker_id].broker.live_brokers
        assert live[2] == (("elsewhere", 9099, "PLAINTEXT"),)


def test_a_new_rack_alone_changes_nothing(world: World) -> None:
    world.start_brokers(1, 2)
    world.forget_requests()
    path = BrokerIdZnode.path(2)
    znode = world.zookeeper.peek(path)
    assert znode is not None
    same = BrokerIdZnode.decode(2, znode.data).broker

    world.write(SetData(path, BrokerIdZnode(Broker(2, same.endpoints, rack="r1"), 1).encode()))
    world.settle()

    assert world.received(1, ReceivedUpdateMetadata) == []


def test_a_failed_log_directory_moves_its_leaderships(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    topic_id = world.topic_znode("orders").topic_id
    assert topic_id is not None

    world.put(1, LeaderAndIsrResponseReceived(2, 0, ((topic_id, 0, 56),)))
    world.run_until_quiet()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.in_sync_replicas) == (3, (3,))
    assert world.living[1].broker.metadata[ORDERS_0].offline_replicas == (2,)


def leaderless(world: World) -> None:
    """orders-0 on brokers 2 and 3; broker 2 dies out of sync with 3, then 3 dies and 2 returns."""
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.stop(2)
    world.settle()
    world.stop(3)
    world.settle()
    world.start_brokers(2)
    world.settle()
    assert world.state_znode("orders", 0).leader == NO_LEADER


def test_unclean_election_enabled_for_all_topics_brings_offline_partitions_back(
    world: World,
) -> None:
    leaderless(world)

    world.put(1, UncleanLeaderElectionEnable(enabled=True))
    world.settle()

    state = world.state_znode("orders", 0)
    assert (state.leader, state.in_sync_replicas, state.leader_recovery_state) == (2, (2,), 1)
    assert any("has been enabled by default" in line for line in world.log(1, "INFO"))


def test_unclean_election_enabled_for_one_topic_brings_its_partitions_back(world: World) -> None:
    leaderless(world)
    path = ConfigZnode.topic_path("orders")
    world.operator.create_missing([path])
    world.write(SetData(path, ConfigZnode({"unclean.leader.election.enable": "true"}).encode()))

    world.put(1, TopicUncleanLeaderElectionEnable("orders"))
    world.settle()

    assert world.state_znode("orders", 0).leader == 2


def test_without_unclean_election_the_partition_waits_for_its_in_sync_replica(world: World) -> None:
    leaderless(world)

    world.start_brokers(3)
    world.settle()

    assert world.state_znode("orders", 0).leader == 3


def test_a_broker_that_dies_while_its_return_is_processed_is_found_dead(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3]])
    world.stop(2)
    world.settle()
    world.start(2)
    controller = world.pause_controller_at(ListChildren)

    world.run_until(lambda: world.living[2].is_listening)
    world.stop(2)
    controller.resume()
    world.settle()

    assert world.state_znode("orders", 0).leader == 3
