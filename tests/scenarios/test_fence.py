"""Every write of a controller is fenced: one that was deposed just before it changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from kio.schema.errors import ErrorCode
from msgspec import structs

from kafka_common.model import TopicPartition
from zkcontroller.core.effects import ProducerIdBlock, Question
from zkcontroller.core.events import AllocateProducerIds, FeatureUpdate, UpdateFeatures
from zkcontroller.zookeeper.requests import (
    Create,
    Delete,
    FencedBatch,
    UnfencedBatch,
    ZkTransaction,
)
from zkcontroller.zookeeper.znodes import (
    FeatureZnode,
    IsrChangeNotificationSequenceZnode,
    ProducerIdBlockZnode,
)
from zkcontroller_simulation.registration import broker_of
from zkcontroller_simulation.world import World
from zkcontroller_simulation.zookeeper_server import Commit

ORDERS_0: Final = TopicPartition("orders", 0)
ORDERS_1: Final = TopicPartition("orders", 1)
FEATURES: Final = {"supported_features": {"metrics": (1, 3)}}
LEAST_KINDS: Final = 20
"""So many kinds of writes the steps make at least; with fewer, a step had no effect."""


def leave_notifications(world: World) -> None:
    data = IsrChangeNotificationSequenceZnode((ORDERS_0,)).encode()
    world.write(Create(IsrChangeNotificationSequenceZnode.CREATE_PATH, data, sequential=True))
    world.fail_log_dir(3, [])


def fail_over(world: World) -> None:
    leave_notifications(world)
    world.write(Delete(FeatureZnode.PATH))
    world.delete_controller_znode()


def ask_for_producer_ids(world: World) -> None:
    world.write(Delete(ProducerIdBlockZnode.PATH))
    for request_id in (1, 2):
        world.put(
            controller_of(world),
            AllocateProducerIds(3, world.living[3].broker.broker_epoch, 9_000 + request_id),
        )


def controller_of(world: World) -> int:
    controller = world.active_controller
    assert controller is not None
    return controller


def update_features(world: World) -> None:
    update = FeatureUpdate("metrics", 2, 1)
    world.put(
        controller_of(world), UpdateFeatures((update,), validate_only=False, request_id=9_100)
    )


STEPS: Final[tuple[Callable[[World], None], ...]] = (
    lambda world: world.create_topic("orders", replicas=[[1, 2], [2, 3]]),
    lambda world: world.add_partitions("orders", [[3, 1]]),
    fail_over,
    leave_notifications,
    lambda world: world.fall_behind(ORDERS_1, 3),
    lambda world: world.catch_up(ORDERS_1),
    lambda world: world.ask_for_reassignment({ORDERS_0: [2, 3], ORDERS_1: [1, 2]}),
    lambda world: world.catch_up(ORDERS_0),
    lambda world: world.catch_up(ORDERS_1),
    lambda world: world.ask_for_preferred_leaders(ORDERS_0),
    ask_for_producer_ids,
    update_features,
    lambda world: world.ask_for_reassignment({ORDERS_0: [1, 2]}),
    lambda world: world.delete_topic("orders"),
    lambda world: world.delete_topic("unknown"),
)


def kinds_of(question: Question) -> list[str]:
    """``SetData /brokers/topics/orders/partitions/N/state``, for each operation."""
    if not isinstance(question, FencedBatch | UnfencedBatch | ZkTransaction):
        return []
    return [
        f"{type(each).__name__} {re.sub('[0-9]+', 'N', each.path)}" for each in question.operations
    ]


class Scenario:
    """The steps, up to the first write that ``is_wanted`` of an active controller."""

    def __init__(self, is_wanted: Callable[[Question], bool]) -> None:
        self.world = World()
        self.world.settings.update(FEATURES)
        self.world.settings["auto_leader_rebalance_enable"] = False
        self.writes: list[Question] = []
        self._is_wanted = is_wanted
        for broker_id in (1, 2, 3):
            able = structs.replace(broker_of(broker_id), features=FEATURES["supported_features"])
            self.world.brokers[broker_id] = able
            self.world.start(broker_id)
            self._watch(broker_id)
            self._rest()
        for step in STEPS:
            if self.paused is None:
                step(self.world)
                self._rest()

    def _watch(self, broker_id: int) -> None:
        process = self.world.living[broker_id]

        def is_it(question: Question) -> bool:
            if not process.controller.is_active or not kinds_of(question):
                return False
            self.writes.append(question)
            return self._is_wanted(question)

        process.breakpoint = is_it

    @property
    def paused(self) -> int | None:
        """The broker that was stopped before its write."""
        return next((b for b, p in self.world.living.items() if not p.is_running), None)

    def _rest(self) -> None:
        self.world.run_until(lambda: self.paused is not None or self.world.is_quiet())


def test_every_write_of_an_active_controller_carries_the_fence() -> None:
    scenario = Scenario(lambda _: False)

    kinds = {kind for write in scenario.writes for kind in kinds_of(write)}
    assert len(kinds) >= LEAST_KINDS, sorted(kinds)
    assert {type(write) for write in scenario.writes} == {FencedBatch}
    features = scenario.world.zookeeper.peek(FeatureZnode.PATH)
    assert features is not None
    assert b"metrics" in features.data


def test_no_write_of_a_controller_deposed_just_before_it_lands() -> None:
    kinds = dict.fromkeys(
        kind for write in Scenario(lambda _: False).writes for kind in kinds_of(write)
    )
    for kind in kinds:
        scenario = Scenario(lambda question, kind=kind: kind in kinds_of(question))  # type: ignore[misc]
        world, deposed = scenario.world, scenario.paused
        assert deposed is not None, kind
        sleeper = world.living[deposed]
        for process in world.living.values():
            process.breakpoint = None
        world.delete_controller_znode()
        world.run_until(lambda: world.active_controller not in (None, deposed))  # noqa: B023
        landed: list[str] = []

        def note(
            commit: Commit, session_id: int = sleeper.link.session_id, found: list[str] = landed
        ) -> None:
            if commit.session_id == session_id:
                found.extend(change.path for change in commit.changes)

        world.zookeeper.on_commit.append(note)
        sleeper.resume()
        world.run_until_quiet()

        assert landed == [], kind
        assert sleeper.controller.context.epoch == 0, kind


def test_a_request_that_meets_the_end_of_the_epoch_is_answered(world: World) -> None:
    """Kafka lets the client wait until its own time is over."""
    world.start_brokers(1, 2)
    deposed = world.living[1]
    request_id = 9_200
    world.put(1, AllocateProducerIds(2, world.living[2].broker.broker_epoch, request_id))
    world.pause_at(deposed, FencedBatch)
    world.delete_controller_znode()
    world.run_until(lambda: world.active_controller == 2)

    deposed.resume()
    world.run_until_quiet()

    assert world.result(request_id) == ProducerIdBlock(ErrorCode.not_controller)
