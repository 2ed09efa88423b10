"""Who is controller, from the first start to a deposed one that wakes up."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

import pytest

from kafka_common.errors import ControllerMoved, SessionExpired
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.events import PartitionModifications, TopicChange, TopicDeletion
from zkcontroller.zookeeper.requests import FencedBatch, ZkTransaction
from zkcontroller.zookeeper.znodes import ControllerEpochZnode
from zkcontroller_simulation.control_requests import ReceivedLeaderAndIsr, ReceivedUpdateMetadata
from zkcontroller_simulation.world import World


def test_one_broker_on_an_empty_zookeeper_becomes_controller_with_epoch_one(world: World) -> None:
    world.start_brokers(1)

    assert world.controller_znode == world.active_controller == 1
    assert world.controller_epoch == 1
    epoch = world.zookeeper.peek(ControllerEpochZnode.PATH)
    assert epoch is not None
    assert epoch.zk_version == 1


def test_after_the_only_broker_stops_the_epoch_is_remembered(world: World) -> None:
    world.start_brokers(1)

    world.stop(1)
    world.run_until_quiet()

    assert world.controller_znode is None
    assert world.controller_epoch == 1


def test_the_first_request_of_a_new_controller_is_metadata_without_partitions(world: World) -> None:
    world.start_brokers(1)

    (first,) = world.received(1, ReceivedUpdateMetadata)

    assert first.partitions == {}
    assert list(first.live_brokers) == [1]


def test_all_brokers_start_at_once_and_one_of_them_wins(world: World) -> None:
    for broker_id in (1, 2, 3):
        world.start(broker_id)
    world.settle()

    assert world.controller_epoch == 1


def test_a_dead_controller_is_replaced_when_its_session_ends(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[1, 2, 3]])

    world.kill(1)
    world.settle()

    assert world.active_controller in (2, 3)
    assert world.controller_epoch == 2
    state = world.state_znode("orders", 0)
    assert (state.leader, state.in_sync_replicas, state.controller_epoch) == (2, (2, 3), 2)


def test_at_failover_a_dead_leader_costs_two_leader_epochs(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[1, 2]])

    world.kill(1)
    world.settle()

    assert world.state_znode("orders", 0).leader_epoch == 2, "one for the ISR, one for the leader"


def test_at_failover_every_broker_gets_all_its_partitions(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3], [3, 1]])
    world.forget_requests()

    world.delete_controller_znode()
    world.settle()

    told = {
        broker_id: sorted(
            tp.partition
            for r in world.received(broker_id, ReceivedLeaderAndIsr)
            for tp in r.partitions
        )
        for broker_id in (1, 2, 3)
    }
    assert told == {1: [1], 2: [0], 3: [0, 1]}
    assert world.received(1, ReceivedUpdateMetadata)[0].partitions == {}, "who lives comes first"


def test_a_failover_changes_no_leader_of_a_healthy_cluster(world: World) -> None:
    start_with_orders(world, 1, 2, 3, replicas=[[2, 3], [3, 1]])
    before = [world.state_znode("orders", partition) for partition in (0, 1)]

    world.delete_controller_znode()
    world.settle()

    assert [world.state_znode("orders", partition) for partition in (0, 1)] == before


def test_a_deposed_controller_cannot_change_a_leader(world: World) -> None:
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2, 3]])
    deposed = world.pause_controller_at(FencedBatch)

    world.delete_controller_znode()
    world.run_until(lambda: world.active_controller not in (None, deposed.broker_id))
    deposed.resume()
    world.settle()

    assert deposed.ended_with is ControllerMoved
    assert not deposed.controller.is_active
    assert world.state_znode("orders", 0).controller_epoch == world.controller_epoch


def test_a_controller_whose_session_is_over_cannot_write_either(world: World) -> None:
    world.start_brokers(1, 2, 3)
    world.create_topic("orders", replicas=[[1, 2, 3]])
    deposed = world.pause_controller_at(FencedBatch)

    world.expire_session(broker=deposed.broker_id)
    world.run_until(lambda: world.active_controller not in (None, deposed.broker_id))
    deposed.resume()
    world.settle()

    assert deposed.ended_with is SessionExpired
    assert world.state_znode("orders", 0).controller_epoch == world.controller_epoch


def test_a_paused_controller_is_replaced_and_wakes_up_as_a_follower(world: World) -> None:
    world.start_brokers(1, 2, 3)

    world.pause(1)
    world.run_until(lambda: world.active_controller in (2, 3))
    world.resume(1)
    world.settle()

    assert world.active_controller in (2, 3)
    assert world.controller_epoch == 2


@pytest.mark.parametrize(
    "deed",
    [
        lambda world: world.create_topic("new", replicas=[[1, 2]]),
        lambda world: world.delete_topic("orders"),
    ],
    ids=["topic creation", "topic deletion"],
)
def test_a_controller_that_was_moved_in_the_middle_of_its_work_resigns_and_says_so(
    world: World, deed: Callable[[World], None]
) -> None:
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    deed(world)
    deposed = world.pause_controller_at(FencedBatch)

    world.delete_controller_znode()
    world.run_until(lambda: world.active_controller not in (None, deposed.broker_id))
    deposed.resume()
    world.settle()

    assert not deposed.controller.is_active
    assert any(
        "Controller moved to another broker when processing" in line
        for line in world.log(deposed.broker_id, "INFO")
    )


def test_the_reply_to_a_won_election_is_lost_and_the_winner_acts_all_the_same(world: World) -> None:
    world.prepare_znodes()
    winner = world.start(1)
    world.pause_at(winner, ZkTransaction)  # the registration
    winner.resume()
    world.run_until(lambda: winner.is_listening)
    world.pause_at(winner, ZkTransaction)  # the election
    winner.resume()
    world.run_until(lambda: world.controller_znode == 1)

    world.break_connection(1)
    world.settle()

    assert world.active_controller == 1
    assert world.controller_epoch == 1


def test_a_disconnected_controller_goes_on_when_it_is_back_in_time(world: World) -> None:
    world.start_brokers(1, 2, 3)
    world.disconnect(1)
    world.create_topic("orders", replicas=[[1, 2, 3]])
    world.run_for(5_000)
    assert not world.has_state_znode("orders", 0)

    world.connect(1)
    world.settle()

    assert world.active_controller == 1
    assert world.controller_epoch == 1
    assert world.state_znode("orders", 0).leader == 1


def test_an_expired_session_ends_the_controllers_rule_and_gives_the_broker_a_new_epoch(
    world: World,
) -> None:
    world.start_brokers(1, 2)
    broker_epoch = world.living[1].broker.broker_epoch

    world.expire_session(broker=1)
    world.settle()

    assert world.controller_epoch == 2
    assert world.living[1].broker.broker_epoch > broker_epoch
    assert world.living[1].controller.context.epoch in (0, 2)


def test_events_for_the_controller_do_nothing_on_the_others(world: World) -> None:
    world.start_brokers(1, 2)
    bystander = world.living[2]
    asked = len(world.timeline.history)

    for event in (TopicChange(), TopicDeletion(), PartitionModifications("orders")):
        bystander.put(event)
    world.run_until_quiet()

    assert bystander.sent == []
    assert all("broker 2 reads" not in line for line in world.timeline.history[asked:])


def test_a_controller_whose_bookkeeping_contradicts_itself_gives_way_to_another(
    world: World,
) -> None:
    """Two topics with one id: the controller resigns, and the cluster has a controller again."""
    start_with_orders(world, 1, 2, replicas=[[1, 2]], topic_id=UUID(int=5, version=4))

    world.create_topic("copied", replicas=[[1, 2]], topic_id=UUID(int=5, version=4))
    world.run_for(60_000)

    assert world.active_controller is not None
    assert world.state_znode("orders", 0).leader == 1
