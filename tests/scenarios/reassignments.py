"""Asking for replicas to move, and where they are: what the scenarios of reassignments share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafka_common.model import ReplicaAssignment, TopicPartition
from tests.scenarios.orders import start_with_orders
from zkcontroller.core.effects import OngoingReassignments, PartitionResults
from zkcontroller.core.events import ApiPartitionReassignment, ListPartitionReassignments
from zkcontroller.zookeeper.znodes import ReassignPartitionsZnode
from zkcontroller_simulation.world import World

ORDERS_0 = TopicPartition("orders", 0)
ORDERS_1 = TopicPartition("orders", 1)
ZNODE = ReassignPartitionsZnode.PATH
CONTROLLER = 1


Targets = Mapping[TopicPartition, Sequence[int] | None]


def with_topic(
    world: World, *replicas: Sequence[int], brokers: Sequence[int] = (1, 2, 3, 4)
) -> World:
    """Brokers, of which the first is the controller, and the topic ``orders``."""
    start_with_orders(world, *brokers, replicas=replicas)
    world.invariants.is_isr_sent = False  # AlterPartition tells the leader alone
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
