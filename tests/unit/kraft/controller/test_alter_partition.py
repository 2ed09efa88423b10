"""What a KRaft controller answers a leader that proposes another ISR."""

from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.model import RECOVERED, RECOVERING
from kraft.controller.alter_partition import AlteredPartition
from kraft.controller.reassignment_control import ReassignablePartition, ReassignableTopic
from kraft.metadata.metadata_version import from_name
from tests.support.kraft_world import KraftWorld
from tests.unit.kraft.controller.proposals import propose

UNKNOWN = UUID(int=4711)


@pytest.fixture
def world() -> KraftWorld:
    return KraftWorld(1, 2, 3, 4)


def test_an_isr_shrinks_and_grows_and_only_the_partition_epoch_rises(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3))

    shrunk = propose(world, topic_id, 1, 2)
    grown = propose(world, topic_id, 1, 2, (3, 103))

    assert shrunk == AlteredPartition(0, ErrorCode.none, 1, 0, (1, 2), RECOVERED, 1)
    assert grown == AlteredPartition(0, ErrorCode.none, 1, 0, (1, 2, 3), RECOVERED, 2)
    assert world.partition(topic_id).isr == (1, 2, 3)


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"topic_id": UNKNOWN}, ErrorCode.unknown_topic_id),
        ({"index": 9}, ErrorCode.unknown_topic_or_partition),
        ({"leader_epoch": 8}, ErrorCode.not_controller),
        ({"partition_epoch": 9}, ErrorCode.not_controller),
        ({"leader_epoch": 0}, ErrorCode.fenced_leader_epoch),
        ({"leader_epoch": 0, "partition_epoch": 9}, ErrorCode.not_controller),
        ({"leader_epoch": 0, "sender": 3}, ErrorCode.fenced_leader_epoch),
        ({"sender": 3}, ErrorCode.invalid_request),
        ({"sender": 3, "partition_epoch": 0}, ErrorCode.invalid_request),
        ({"partition_epoch": 0}, ErrorCode.invalid_update_version),
        ({"recovery_state": RECOVERING}, ErrorCode.invalid_request),
        ({"recovery_state": 7}, ErrorCode.invalid_request),
    ],
)
def test_a_proposal_based_on_another_state_is_refused(
    world: KraftWorld, changed: dict[str, Any], error: ErrorCode
) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3))
    world.fence(1)  # broker 2 leads in epoch 1
    before = world.partition(topic_id)

    answered = propose(world, topic_id, 2, 3, **changed)

    assert answered == AlteredPartition(changed.get("index", 0), error)
    assert world.partition(topic_id) == before


@pytest.mark.parametrize(
    "isr", [(), (1, 1), (1, 2, 4), (2, 3), (1, -2)],
    ids=["empty", "duplicate", "no replica", "without the leader", "negative"],
)  # fmt: skip
def test_an_impossible_isr_is_refused(world: KraftWorld, isr: tuple[int, ...]) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3))

    assert propose(world, topic_id, *isr).error is ErrorCode.invalid_request


def test_fenced_stopping_and_stale_brokers_do_not_come_into_an_isr(world: KraftWorld) -> None:
    error = ErrorCode.ineligible_replica
    fenced = world.create_topic("fenced", (1, 2))
    world.fence(2)
    stopping = world.create_topic("stopping", (1, 3))
    world.begin_controlled_shutdown(3)
    stale = world.create_topic("stale", (1, 4))
    propose(world, stale, 1)

    assert propose(world, fenced, 1, 2).error is error
    assert propose(world, stopping, 1, 3).error is error
    assert propose(world, stale, 1, (4, 99)).error is error
    del world.cluster.nodes[4]
    assert propose(world, stale, 1, 4).error is error


def test_a_broker_epoch_of_minus_one_is_not_checked(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (1, 2))
    propose(world, topic_id, 1)

    assert propose(world, topic_id, 1, (2, -1)).error is ErrorCode.none


def test_a_request_of_an_earlier_life_of_the_broker_is_refused_as_a_whole(
    world: KraftWorld,
) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3))

    with pytest.raises(ApiException) as refused:
        propose(world, topic_id, 1, 2, broker_epoch=7)

    assert refused.value.error is ErrorCode.stale_broker_epoch


def test_a_recovering_leader_stays_alone_until_it_says_that_it_has_recovered(
    world: KraftWorld,
) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3), unclean_leader_election_enable="true")
    for broker_id in (2, 3, 1):
        world.fence(broker_id)
    world.unfence(2)
    assert world.partition(topic_id)[2:7:4] == ((2,), RECOVERING)
    world.unfence(3)

    together = propose(world, topic_id, 2, 3, recovery_state=RECOVERING)
    alone = propose(world, topic_id, 2, recovery_state=RECOVERING)
    recovered = propose(world, topic_id, 2, 3)

    assert together.error is ErrorCode.invalid_request
    assert alone.error is ErrorCode.none
    assert recovered.error is ErrorCode.none
    assert recovered.leader_recovery_state == RECOVERED


def test_an_isr_that_ends_a_reassignment_may_cost_the_sender_its_leadership(
    world: KraftWorld,
) -> None:
    topic_id = world.create_topic("foo", (1, 2))
    move = ReassignableTopic("foo", (ReassignablePartition(0, (3, 4)),))
    world.commit(world.control.reassignments.alter_partition_reassignments((move,)))

    answered = propose(world, topic_id, 1, 2, 3, 4)

    assert answered == AlteredPartition(0, ErrorCode.new_leader_elected)
    moved = world.partition(topic_id)
    assert (moved.replicas, moved.isr, moved.leader) == ((3, 4), (3, 4), 3)
    assert not moved.is_being_reassigned


def test_before_3_6_an_isr_that_shrinks_raises_the_leader_epoch_too() -> None:
    world = KraftWorld(1, 2, 3, metadata_version=from_name("3.5"))
    topic_id = world.create_topic("foo", (1, 2, 3))

    assert propose(world, topic_id, 1, 2).leader_epoch == 1
    assert propose(world, topic_id, 1, 2, 3).leader_epoch == 1
