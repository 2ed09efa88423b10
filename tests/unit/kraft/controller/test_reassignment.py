"""Reassignments in a KRaft cluster."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError
from kraft.controller.partition_reassignment import (
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from kraft.controller.reassignment_control import (
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
    ReassignablePartition,
    ReassignableTopic,
)
from tests.support.kraft_world import KraftWorld
from tests.unit.kraft.controller.proposals import propose


@pytest.fixture
def world() -> KraftWorld:
    return KraftWorld(0, 1, 2, 3, 4)


def reassign(
    world: KraftWorld, topic: str, replicas: tuple[int, ...] | None, index: int = 0
) -> ApiError:
    ordered = ReassignableTopic(topic, (ReassignablePartition(index, replicas),))
    (answered,) = world.commit(
        world.control.reassignments.alter_partition_reassignments((ordered,))
    )
    return answered.partitions[0][1]


def moving(world: KraftWorld, topic_id: UUID) -> tuple[tuple[int, ...], ...]:
    """Replicas, those being added, those being removed."""
    partition = world.partition(topic_id)
    return partition.replicas, partition.adding_replicas, partition.removing_replicas


def test_target_replicas_come_first_and_what_goes_follows_in_order_of_ids() -> None:
    planned = PartitionReassignmentReplicas.between((5, 1, 3), (4, 3, 2))

    assert planned == ((1, 5), (2, 4), (4, 3, 2, 1, 5))


@pytest.mark.parametrize(
    ("removing", "adding", "replicas", "isr", "completed"),
    [
        ((), (), (1, 2), (1, 2), None),
        ((1,), (3,), (3, 2, 1), (1, 2), None),
        ((1,), (3,), (3, 2, 1), (1, 2, 3), ((3, 2), (2, 3))),
        ((1, 2), (), (3, 1, 2), (1, 2), None),
        ((1,), (), (3, 2, 1), (1, 2), None),
        ((1, 2), (), (1, 2), (1, 2), None),
    ],
)
def test_a_reassignment_ends_when_every_replica_that_stays_is_in_sync(
    removing: tuple[int, ...],
    adding: tuple[int, ...],
    replicas: tuple[int, ...],
    isr: tuple[int, ...],
    completed: tuple[tuple[int, ...], tuple[int, ...]] | None,
) -> None:
    assert PartitionReassignmentReplicas(removing, adding, replicas).completed(isr) == completed


def test_replicas_are_added_and_removed_and_the_isr_ends_the_move(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1, 2))

    assert reassign(world, "foo", (1, 2, 3)) == NO_ERROR
    assert moving(world, topic_id) == ((1, 2, 3, 0), (3,), (0,))
    assert world.control.reassignments.list_partition_reassignments(None) == (
        OngoingTopicReassignment(
            "foo", (OngoingPartitionReassignment(0, (1, 2, 3, 0), (3,), (0,)),)
        ),
    )

    propose(world, topic_id, 0, 1, 2, 3)

    assert moving(world, topic_id) == ((1, 2, 3), (), ())
    assert world.partition(topic_id).leader == 1
    assert world.control.reassignments.list_partition_reassignments(None) == ()


def test_an_order_of_replicas_is_changed_at_once(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1, 2))

    assert reassign(world, "foo", (2, 1, 0)) == NO_ERROR

    assert moving(world, topic_id) == ((2, 1, 0), (), ())


def test_replicas_that_are_only_taken_away_leave_at_once(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1, 2))

    assert reassign(world, "foo", (1, 2)) == NO_ERROR

    assert moving(world, topic_id) == ((1, 2), (), ())
    assert (world.partition(topic_id).leader, world.partition(topic_id).leader_epoch) == (1, 1)


def test_a_move_is_taken_back(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1, 2))
    reassign(world, "foo", (3, 4))
    propose(world, topic_id, 0, 1, 2, 3)

    assert reassign(world, "foo", None) == NO_ERROR

    assert moving(world, topic_id) == ((0, 1, 2), (), ())
    assert world.partition(topic_id).isr == (0, 1, 2)


def test_a_new_order_replaces_who_comes(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1))
    reassign(world, "foo", (2, 3))

    assert reassign(world, "foo", (0, 1, 4)) == NO_ERROR

    assert moving(world, topic_id) == ((0, 1, 4, 2, 3), (4,), (2, 3))


def test_a_move_whose_newcomers_alone_are_in_sync_is_taken_back_only_at_the_cost_of_records(
    world: KraftWorld,
) -> None:
    topic_id = world.create_topic("foo", (0, 1))
    reassign(world, "foo", (2, 3))
    propose(world, topic_id, 0, 1, 2)
    world.fence(0)
    world.fence(1)
    assert world.partition(topic_id).isr == (2,)
    assert PartitionReassignmentRevert.of(world.partition(topic_id)) == ((0, 1), (0,), True)

    refused = reassign(world, "foo", None)
    world.set_topic_config("foo", "unclean.leader.election.enable", "true")
    allowed = reassign(world, "foo", None)

    assert refused == (
        ErrorCode.invalid_replica_assignment,
        "Unable to revert partition assignment for foo:0 because it would require an unclean "
        "leader election.",
    )
    assert allowed == NO_ERROR
    assert world.partition(topic_id)[0:3:2] == ((0, 1), (0,))


@pytest.mark.parametrize(
    ("topic", "index", "replicas", "error"),
    [
        ("bar", 0, (1, 2), ErrorCode.unknown_topic_or_partition),
        ("foo", 5, (1, 2), ErrorCode.unknown_topic_or_partition),
        ("foo", 0, (1, 9), ErrorCode.invalid_replica_assignment),
        ("foo", 0, (1, 1), ErrorCode.invalid_replica_assignment),
        ("foo", 0, (), ErrorCode.invalid_replica_assignment),
        ("foo", 0, None, ErrorCode.no_reassignment_in_progress),
    ],
)
def test_an_impossible_order_is_refused(
    world: KraftWorld, topic: str, index: int, replicas: tuple[int, ...] | None, error: ErrorCode
) -> None:
    topic_id = world.create_topic("foo", (0, 1))

    assert reassign(world, topic, replicas, index).error is error
    assert moving(world, topic_id) == ((0, 1), (), ())


def test_reassignments_are_listed_as_of_an_epoch_and_for_the_partitions_asked_for(
    world: KraftWorld,
) -> None:
    world.create_topic("foo", (0, 1), (1, 2))
    world.registry.get_or_create_snapshot(10)
    reassign(world, "foo", (0, 2))
    reassign(world, "foo", (1, 3), index=1)

    listed = world.control.reassignments.list_partition_reassignments

    assert listed(None, 10) == ()
    assert [p.partition_index for p in listed([("foo", (1, 7)), ("bar", (0,))])[0].partitions] == [
        1
    ]


def test_a_replica_that_is_removed_meanwhile_does_not_hold_up_a_move(world: KraftWorld) -> None:
    topic_id = world.create_topic("foo", (0, 1, 2))
    reassign(world, "foo", (3, 4))

    world.fence(0)
    propose(world, topic_id, 1, 2, 3, 4)

    assert moving(world, topic_id) == ((3, 4), (), ())
