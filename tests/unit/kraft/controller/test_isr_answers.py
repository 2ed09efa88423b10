"""AlterPartition in KRaft: what is answered in which version, and of a leader that recovers."""

from __future__ import annotations

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import RECOVERED, RECOVERING
from kraft.controller.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.reassignment_control import ReassignablePartition, ReassignableTopic
from tests.support.kraft_world import KraftWorld


@pytest.fixture
def world() -> KraftWorld:
    return KraftWorld(1, 2, 3, 4)


def proposed(
    world: KraftWorld,
    topic: UUID,
    *isr: int,
    version: int,
    name: str = "",
    named_id: UUID | None = None,
    recovery_state: int = RECOVERED,
) -> AlteredPartition:
    """What the leader is answered that proposes this ISR in this version."""
    before = world.partition(topic)
    wish = ProposedPartition(
        0,
        before.leader_epoch,
        before.partition_epoch,
        tuple(IsrMember(member) for member in isr),
        recovery_state,
    )
    request = AlterPartitionRequest(
        before.leader,
        world.epoch(before.leader),
        (ProposedTopic((wish,), topic if named_id is None else named_id, name),),
    )
    (answered,) = world.commit(world.control.isr.alter(request, version))
    (partition,) = answered.partitions
    return partition


VERSIONS = pytest.mark.parametrize(
    ("version", "is_by_id"), [(0, False), (1, False), (2, True), (3, True)]
)


@VERSIONS
def test_topics_are_named_by_id_from_version_2_on(
    world: KraftWorld, version: int, is_by_id: bool
) -> None:
    topic_id = world.create_topic("foo", (1, 2, 3))
    nobody = UUID(int=4711)

    by_name = proposed(world, topic_id, 1, 2, version=version, name="foo", named_id=nobody)
    by_id = proposed(world, topic_id, 1, version=version, name="bar")

    unknown = ErrorCode.unknown_topic_id if is_by_id else ErrorCode.unknown_topic_or_partition
    assert (by_name.error, by_id.error) == (
        (unknown, ErrorCode.none) if is_by_id else (ErrorCode.none, unknown)
    )


@VERSIONS
def test_errors_that_older_leaders_do_not_know_are_said_in_their_words(
    world: KraftWorld, version: int, is_by_id: bool
) -> None:
    ineligible = world.create_topic("foo", (1, 2))
    world.fence(2)
    moving = world.create_topic("bar", (1,))
    move = ReassignableTopic("bar", (ReassignablePartition(0, (3, 4)),))
    world.commit(world.control.reassignments.alter_partition_reassignments((move,)))

    refused = proposed(world, ineligible, 1, 2, version=version, name="foo")
    moved = proposed(world, moving, 1, 3, 4, version=version, name="bar")

    assert refused.error is (
        ErrorCode.ineligible_replica if is_by_id else ErrorCode.operation_not_attempted
    )
    assert moved.error is (
        ErrorCode.new_leader_elected if is_by_id else ErrorCode.fenced_leader_epoch
    )
    assert world.partition(moving).leader == 3


def test_a_refusal_tells_nothing_of_the_partition(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (1, 2))

    refused = proposed(world, topic_id, version=3)

    assert refused == AlteredPartition(0, ErrorCode.invalid_request, 0, 0, (), RECOVERED, 0)


def test_a_leader_that_has_recovered_does_not_recover_again(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (1, 2))

    refused = proposed(world, topic_id, 1, version=3, recovery_state=RECOVERING)

    assert refused.error is ErrorCode.invalid_request
    assert world.partition(topic_id).isr == (1, 2)
