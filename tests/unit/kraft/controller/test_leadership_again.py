"""A controller that leads, leads no more, and leads again does all of it as the first time."""

from __future__ import annotations

import pytest

from kafka_common.api_error import ApiException
from kraft.controller import quorum_controller
from kraft.controller.quorum_controller_requests import FindAllTopicIds
from kraft.controller.quorum_controller_state import QuorumControllerConfig
from kraft.controller.quorum_controller_values import ControllerRequestReceived, LeaderChanged
from kraft.metadata.records import BeginTransactionRecord, NoOpRecord, PartitionChangeRecord
from kraft.raft.values import LeaderAndEpoch
from tests.support.quorum_controller_world import CLUSTER_ID, QUIET, QuorumWorld

SESSION_TIMEOUT_MS = 9_000


def left_and_elected_again(world: QuorumWorld) -> None:
    world.log.leader = LeaderAndEpoch(None, world.log.leader.epoch + 1)
    world.feed(3000, LeaderChanged(world.log.leader))
    assert not world.controllers[3000].is_active
    world.advance(2 * SESSION_TIMEOUT_MS)
    world.elect(3000)
    assert world.controllers[3000].is_active


def test_who_leads_again_writes_no_op_records_again() -> None:
    world = QuorumWorld.led()
    world.advance(1_000)
    before = world.records.count(NoOpRecord())
    assert before == 2

    left_and_elected_again(world)
    assert world.records.count(NoOpRecord()) == before
    world.advance(1_000)

    assert world.records.count(NoOpRecord()) == before + 2
    assert world.faults == []


def test_who_leads_again_fences_again() -> None:
    world = QuorumWorld.led(config=QUIET)
    world.start_brokers(1)

    left_and_elected_again(world)
    world.heartbeat(1)
    assert world.active.state.cluster.is_unfenced(1)
    world.advance(SESSION_TIMEOUT_MS + 1)

    assert not world.active.state.cluster.is_unfenced(1)
    assert world.faults == []


def test_a_request_that_was_answered_makes_room_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorum_controller, "MAX_PENDING_REQUESTS", 2)
    world = QuorumWorld.led(config=QUIET)
    controller = world.active

    for turn in range(4):
        numbers = [1_000 + 10 * turn + n for n in range(3)]
        for number in numbers:
            world.note(controller.enqueue(ControllerRequestReceived(number, FindAllTopicIds())))
        world.feed(3000, None)
        *served, refused = (world.responses[number] for number in numbers)
        assert served == [{}, {}]
        assert isinstance(refused, ApiException)


def test_who_leads_again_balances_again_and_after_a_whole_interval() -> None:
    config = QuorumControllerConfig(
        0, CLUSTER_ID, leader_imbalance_check_interval_ms=5_000, max_idle_interval_ms=None
    )
    world = QuorumWorld.led(config=config)
    world.start_brokers(1, 2)
    orders = world.create_topic("orders", (1, 2))
    back = PartitionChangeRecord(0, orders, leader=2)
    world.write(back)
    world.advance(4_000)

    world.log.leader = LeaderAndEpoch(None, 2)
    world.feed(3000, LeaderChanged(world.log.leader))
    world.elect(3000)
    partitions = world.active.state.replication.state.topics[orders].partitions
    world.advance(4_999)
    assert partitions[0].leader == 2
    world.advance(1)

    assert partitions[0].leader == 1
    assert world.faults == []


def test_a_bootstrap_that_was_lost_with_the_leadership_is_written_by_the_next_one() -> None:
    world = QuorumWorld(config=QUIET)
    world.log.is_slow = True
    world.elect(3000)
    bootstrap = world.records
    assert len(bootstrap) > 2

    world.log.leader = LeaderAndEpoch(None, world.log.leader.epoch + 1)
    world.feed(3000, LeaderChanged(world.log.leader))
    world.elect(3000)

    assert world.records == bootstrap
    assert world.faults == []


def test_a_transaction_that_was_lost_with_the_leadership_is_not_open_in_the_next_one() -> None:
    world = QuorumWorld.led(config=QUIET)
    world.log.is_slow = True
    before = world.records
    world.write(BeginTransactionRecord("lost"))
    assert world.active.state.offsets.transaction_start_offset != -1

    left_and_elected_again(world)

    assert world.active.state.offsets.transaction_start_offset == -1
    assert world.records == before
