"""Defects of Kafka's controller that ours must not have: each test shows the difference."""

from __future__ import annotations

import pytest

from kafka_common.errors import SessionExpired
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.effects import Question
from zkcontroller.core.events import ControllerChange, Expire
from zkcontroller.zookeeper.requests import (
    CheckExists,
    Create,
    FencedBatch,
    ListChildren,
    ReadZnodes,
    ZkTransaction,
)
from zkcontroller.zookeeper.znodes import ControllerZnode
from zkcontroller_simulation.process import BrokerProcess
from zkcontroller_simulation.world import World

QUESTIONS_OF_A_FAILOVER = range(1, 9)


class NthQuestion:
    """True for the nth question that follows the election's transaction."""

    def __init__(self, number: int) -> None:
        self._left = number
        self._is_elected = False

    def __call__(self, asked: Question) -> bool:
        if isinstance(asked, ZkTransaction):
            self._is_elected = True
            return False
        self._left -= self._is_elected
        return self._is_elected and self._left == 0


def lone_broker(world: World) -> BrokerProcess:
    """One candidate, with a topic."""
    start_with_orders(world, 1, replicas=[[1]])
    return world.living[1]


@pytest.mark.parametrize("number", QUESTIONS_OF_A_FAILOVER)
def test_the_znode_is_deleted_while_the_only_candidates_failover_runs(
    world: World, number: int
) -> None:
    """Kafka stays without a controller for ever: the deletion falls between two watches."""
    lone = lone_broker(world)
    world.delete_controller_znode()
    world.pause_at(lone, NthQuestion(number))

    world.delete_controller_znode()
    assert lone.controller.is_active, "it has been elected and is busy taking over"
    lone.resume()
    world.settle()

    assert world.active_controller == world.controller_znode == 1


@pytest.mark.parametrize("number", QUESTIONS_OF_A_FAILOVER)
def test_the_znode_is_deleted_twice_while_the_failover_runs(world: World, number: int) -> None:
    lone = lone_broker(world)
    world.delete_controller_znode()
    world.pause_at(lone, NthQuestion(number))
    world.delete_controller_znode()
    lone.resume()
    world.pause_at(lone, NthQuestion(number))

    world.delete_controller_znode()
    lone.resume()
    world.settle()

    assert world.active_controller == 1


def test_the_znode_is_deleted_right_after_the_election_was_won(world: World) -> None:
    lone = lone_broker(world)
    world.delete_controller_znode()
    world.pause_at(lone, ZkTransaction)
    lone.resume()
    epoch = world.controller_epoch
    world.run_until(lambda: world.controller_epoch == epoch + 1)

    world.delete_controller_znode()
    world.settle()

    assert world.active_controller == 1


def test_a_change_event_alone_is_enough_for_a_candidate_to_run(world: World) -> None:
    """What remains of a deletion that was followed by a creation and another deletion."""
    world.start_brokers(1)
    lone = world.living[1]
    lone.queue.clear_and_put(ControllerChange())
    world.zookeeper.drop_watches(lone.link.session_id)  # no watch will fire for the deletion
    world.delete_controller_znode()

    lone.put(ControllerChange())
    world.settle()

    assert world.active_controller == 1


def test_a_znode_that_names_a_broker_that_does_not_act_is_removed_by_it(world: World) -> None:
    """KAFKA-13407: the broker won, got no answer, and took itself for beaten."""
    world.prepare_znodes()
    broker = world.start(1)
    world.run_until(lambda: broker.is_listening)
    own_session_id = broker.link.session_id
    claim = Create(ControllerZnode.PATH, ControllerZnode(1, 0).encode(), ephemeral=True)

    world.zookeeper.transact(own_session_id, [claim])
    world.settle()

    assert world.active_controller == 1


def test_an_own_znode_of_an_expired_session_does_not_keep_the_broker_from_ruling(
    world: World,
) -> None:
    """KAFKA-4229: the old ephemeral outlives its session, names the broker, and no one acts."""
    world.start_brokers(1)
    broker = world.living[1]
    old_session_id = broker.link.session_id
    world.zookeeper.leave_behind(ControllerZnode.PATH)

    world.expire_session(broker=1)
    world.settle()

    assert world.active_controller == 1
    assert world.controller_epoch == 2
    znode = world.zookeeper.peek(ControllerZnode.PATH)
    assert znode is not None
    assert znode.ephemeral_owner == broker.link.session_id != old_session_id


@pytest.mark.parametrize(
    "question", [ZkTransaction, FencedBatch, ListChildren, ReadZnodes, CheckExists]
)
def test_a_session_that_ends_while_an_event_is_processed_does_not_stop_the_event_thread(
    world: World, question: type
) -> None:
    """KAFKA-8532: the expiry waits for the event thread, which waits for the expiry."""
    world.start_brokers(1)
    world.create_topic("orders", replicas=[[1]])
    if question in (ZkTransaction, CheckExists):
        world.delete_controller_znode()
    process = world.pause_at(world.living[1], question)

    world.expire_session(broker=1)
    world.run_for(1_000)
    process.resume()
    world.settle()

    assert process.ended_with is SessionExpired
    assert world.active_controller == 1
    assert world.state_znode("orders", 0).leader == 1


def test_a_controller_that_resigned_remembers_nothing(world: World) -> None:
    """KAFKA-5310: what an earlier rule left in the context came back in a later one."""
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    world.shut_down(2)
    world.run_until_quiet()
    context = world.living[1].controller.context
    assert context.shutting_down
    assert len(context.table) == 1

    world.put(1, Expire())
    world.run_until(lambda: not world.living[1].controller.is_active)

    assert (context.epoch, context.epoch_zk_version) == (0, 0)
    assert not context.live_brokers
    assert not context.live_broker_epochs
    assert not context.shutting_down
    assert len(context.table) == 0
    assert not context.topics_to_be_deleted
    assert world.living[1].channels == {}
    assert set(world.living[1].controller.gauges().values()) <= {0, 4}


def test_a_second_rule_starts_from_zookeeper_alone(world: World) -> None:
    start_with_orders(world, 1, 2, replicas=[[1, 2]])
    world.delete_controller_znode()
    world.run_until(lambda: world.controller_epoch == 2)
    world.settle()

    # Meanwhile the topic vanishes without the controller: another one deletes it.
    other = world.active_controller
    world.delete_topic("orders")
    world.settle()
    while world.active_controller == other:
        world.delete_controller_znode()
        world.settle()

    successor = world.controller
    assert successor is not None
    assert len(successor.controller.context.table) == 0
