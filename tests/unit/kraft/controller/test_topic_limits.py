"""How many partitions a request may ask for, what it costs of a quota, and whom moves leave out."""

from __future__ import annotations

from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiException
from kafka_common.model import RECOVERING, ConfigResourceType, ElectionType
from kraft.controller.config_schema import ConfigResource
from kraft.controller.quorum_controller_requests import CreateTopics, DescribeConfigs
from kraft.controller.reassignment_control import ReassignablePartition, ReassignableTopic
from kraft.controller.replication_control import ReplicationConfig
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from kraft.metadata.records import PartitionChangeRecord
from tests.support.kraft_world import KraftWorld, no_quota
from tests.support.quorum_controller_world import QUIET, QuorumWorld

IMPOSSIBLE = "a name with spaces"
"""Of a topic that is refused, and counts nevertheless."""
MOST = 10_000


def create(
    world: KraftWorld, *topics: CreatableTopic, **options: Any
) -> tuple[CreatableTopicResult, ...]:
    request = CreateTopicsRequest(topics, **options)
    return world.commit(world.control.topics.create_topics(request, no_quota))


# How many partitions.


@pytest.mark.parametrize(
    "many",
    [
        CreatableTopic(IMPOSSIBLE, MOST + 1, 1),
        CreatableTopic(IMPOSSIBLE, -1, 1),
        CreatableTopic(IMPOSSIBLE, -1, -1, ((CreatableReplicaAssignment(0, (1,)),) * (MOST + 1))),
    ],
    ids=["counted", "by default", "assigned"],
)
@pytest.mark.parametrize("validate_only", [False, True])
def test_what_a_request_asks_for_is_counted_before_anything_is_looked_at(
    many: CreatableTopic, validate_only: bool
) -> None:
    world = KraftWorld(1, config=ReplicationConfig(default_num_partitions=MOST + 1))

    with pytest.raises(ApiException) as refused:
        create(
            world,
            CreatableTopic("fine", 1, 1),
            CreatableTopic("fewer than none", -5, 1),
            many,
            validate_only=validate_only,
        )

    assert refused.value.to_error() == (
        ErrorCode.policy_violation,
        "Excessively large number of partitions per request.",
    )
    assert world.log == []


@pytest.mark.parametrize(
    "topics",
    [
        (CreatableTopic(IMPOSSIBLE, MOST - 1, 1),),
        (CreatableTopic(IMPOSSIBLE, -1, 1),),
        (
            CreatableTopic(
                IMPOSSIBLE, -1, -1, ((CreatableReplicaAssignment(0, (1,)),) * (MOST - 1))
            ),
        ),
        (CreatableTopic("negative", -5, 1), CreatableTopic(IMPOSSIBLE, MOST - 1, 1)),
    ],
    ids=["counted", "by default", "assigned", "a count that is none"],
)
def test_ten_thousand_partitions_are_not_too_many(topics: tuple[CreatableTopic, ...]) -> None:
    world = KraftWorld(1, config=ReplicationConfig(default_num_partitions=MOST - 1))

    *refused, fine = create(world, *topics, CreatableTopic("fine", 1, 1))

    assert fine.error == NO_ERROR
    assert all(each.error.is_failure for each in refused)


@pytest.mark.parametrize("replication_factor", [0, -2])
def test_a_replication_factor_that_is_none_is_distinguished_from_one_out_of_reach(
    replication_factor: int,
) -> None:
    (refused,) = create(KraftWorld(1), CreatableTopic("x", 1, replication_factor))

    assert refused.error == (
        ErrorCode.invalid_replication_factor,
        "Replication factor must be larger than 0, or -1 to use the default value.",
    )


# Of a quota.


class Budget:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, partition_count: int, /) -> None:
        self.asked.append(partition_count)


def test_a_quota_is_charged_with_the_partitions_that_come_or_go() -> None:
    world, budget = KraftWorld(1, 2), Budget()
    control = world.control.topics

    request = CreateTopicsRequest(
        (
            CreatableTopic("a", 3, 1),
            CreatableTopic("b", assignments=(CreatableReplicaAssignment(0, (1,)),)),
        )
    )
    first, _ = world.commit(control.create_topics(request, budget))
    world.commit(control.create_partitions((CreatePartitionsTopic("a", 5),), budget))
    world.commit(control.create_partitions((CreatePartitionsTopic("a", 5),), budget))
    world.commit(control.delete_topics((first.topic_id,), budget))

    assert budget.asked == [3, 1, 2, 5]


# Configurations of a topic that is not there yet.


def test_a_topic_may_be_created_with_configurations_of_its_own() -> None:
    world = QuorumWorld.led(config=QUIET)
    world.start_brokers(1)
    wish = CreatableTopic("orders", 1, 1, configs=(("cleanup.policy", "compact"),))

    (created,) = world.ask(CreateTopics(CreateTopicsRequest((wish,))), tuple)

    assert created.error == NO_ERROR
    orders = ConfigResource(ConfigResourceType.TOPIC, "orders")
    assert world.ask(DescribeConfigs({orders: ()}), dict) == {orders: {"cleanup.policy": "compact"}}


# Elections and moves.


def test_an_unclean_election_is_not_needed_where_there_is_any_leader() -> None:
    world = KraftWorld(1, 2)
    world.create_topic("foo", (1, 2))
    world.fence(1)
    world.unfence(1)

    (answered,) = world.commit(
        world.control.elections.elect_leaders(ElectionType.UNCLEAN, [("foo", (0,))])
    )

    assert [(index, error.error) for index, error in answered.partitions] == [
        (0, ErrorCode.election_not_needed)
    ]


def test_the_numbers_of_elections_and_how_many_are_held_at_once() -> None:
    assert (ElectionType(0), ElectionType(1)) == (ElectionType.PREFERRED, ElectionType.UNCLEAN)
    assert ReplicationConfig().max_elections_per_imbalance == 1_000


def move(world: KraftWorld, replicas: tuple[int, ...] | None) -> ErrorCode:
    ordered = ReassignableTopic("foo", (ReassignablePartition(0, replicas),))
    (answered,) = world.commit(
        world.control.reassignments.alter_partition_reassignments((ordered,))
    )
    return answered.partitions[0][1].error


def test_an_order_for_all_who_come_and_go_changes_nothing_of_who_does() -> None:
    world = KraftWorld(0, 1, 2, 3)
    topic_id = world.create_topic("foo", (0, 1))
    move(world, (2, 3))

    assert move(world, (0, 1, 2, 3)) is ErrorCode.none

    partition = world.partition(topic_id)
    assert partition.replicas == (0, 1, 2, 3)
    assert (partition.adding_replicas, partition.removing_replicas) == ((2, 3), (0, 1))


def test_a_move_that_is_taken_back_at_the_cost_of_records_has_a_leader_if_anybody_can() -> None:
    world = KraftWorld(0, 1, 2, 3)
    topic_id = world.create_topic("foo", (0, 1), unclean_leader_election_enable="true")
    move(world, (2, 3))
    # Of the old ones no one is in sync, and only one is alive.
    world.control.replay(PartitionChangeRecord(0, topic_id, isr=(2,), leader=2))
    world.fence(0)

    assert move(world, None) is ErrorCode.none

    partition = world.partition(topic_id)
    assert (partition.replicas, partition.isr, partition.leader) == ((0, 1), (1,), 1)
    assert partition.leader_recovery_state == RECOVERING


def test_partitions_that_do_not_move_are_not_listed() -> None:
    world = KraftWorld(0, 1, 2)
    world.create_topic("foo", (0, 1), (0, 1))
    move(world, (0, 2))

    listed = world.control.reassignments.list_partition_reassignments([("foo", (0, 1))])

    assert [[each.partition_index for each in topic.partitions] for topic in listed] == [[0]]


def test_a_move_that_only_takes_replicas_away_waits_for_those_that_stay() -> None:
    world = KraftWorld(0, 1, 2)
    topic_id = world.create_topic("foo", (0, 1, 2))
    world.fence(2)

    assert move(world, (1, 2)) is ErrorCode.none

    partition = world.partition(topic_id)
    assert (partition.replicas, partition.removing_replicas) == ((1, 2, 0), (0,))
    assert partition.adding_replicas == ()
    (listed,) = world.control.reassignments.list_partition_reassignments(None)
    assert [each.removing_replicas for each in listed.partitions] == [(0,)]
    assert move(world, None) is ErrorCode.none
    assert not world.partition(topic_id).is_being_reassigned
