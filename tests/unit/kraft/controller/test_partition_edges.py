"""Elections and changes of partitions at the edges of their rules: what must not happen."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.model import RECOVERED, RECOVERING
from kraft.controller.alter_partition import (
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.partition_change_builder import PartitionChangeBuilder
from kraft.controller.partition_election import PartitionElection
from kraft.controller.partition_reassignment import (
    PartitionReassignmentReplicas,
    PartitionReassignmentRevert,
)
from kraft.controller.partition_registration import PartitionRegistration
from kraft.controller.replication_control import ReplicationConfig
from kraft.metadata.metadata_version import from_name
from kraft.metadata.records import NO_LEADER, PartitionChangeRecord
from tests.support.kraft_world import WITH_ELR, KraftWorld, directory

TOPIC: Final = UUID(int=77)
DIRECTORIES: Final = tuple(UUID(int=1000 + broker) for broker in range(10))
NEEDS_BUMPS: Final = from_name("3.5-IV2")


def partition(
    *replicas: int, isr: tuple[int, ...] | None = None, **fields: Any
) -> PartitionRegistration:
    return PartitionRegistration(
        replicas,
        tuple(DIRECTORIES[broker] for broker in replicas),
        replicas if isr is None else isr,
        fields.get("removing", ()),
        fields.get("adding", ()),
        fields.get("leader", replicas[0]),
        fields.get("recovery_state", RECOVERED),
        leader_epoch=10,
        partition_epoch=20,
        elr=fields.get("elr", ()),
        last_known_elr=fields.get("last_known_elr", ()),
    )


def change(
    before: PartitionRegistration, *, alive: tuple[int, ...] = (1, 2, 3), **wanted: Any
) -> PartitionChangeRecord | None:
    version = wanted.pop("metadata_version", from_name("3.9"))
    return PartitionChangeBuilder(
        before,
        TOPIC,
        0,
        alive.__contains__,
        version,
        2,
        DIRECTORIES.__getitem__,
        **wanted,
    ).build()


def record(**fields: Any) -> PartitionChangeRecord:
    return PartitionChangeRecord(0, TOPIC, **fields)


# The leader epoch.


def test_a_leader_that_leaves_a_shrinking_isr_is_replaced_and_not_confirmed() -> None:
    wanted = change(
        partition(1, 2, 3), target_isr=(2, 3), alive=(2, 3), metadata_version=NEEDS_BUMPS
    )

    assert wanted == record(isr=(2, 3), leader=2)


def test_an_isr_in_another_order_is_no_smaller_one() -> None:
    wanted = change(partition(1, 2, 3), target_isr=(3, 2, 1), metadata_version=NEEDS_BUMPS)

    assert wanted == record(isr=(3, 2, 1))


def test_a_change_of_replicas_alone_asks_nothing_of_the_isr() -> None:
    wanted = change(partition(1, 2, 3), target_replicas=(3, 2, 1), metadata_version=NEEDS_BUMPS)

    assert wanted == record(replicas=(3, 2, 1))


# The recovery state.


def test_a_leader_that_recovers_is_followed_by_one_that_still_recovers() -> None:
    before = partition(1, 2, 3, isr=(1,), recovery_state=RECOVERING)

    wanted = change(before, alive=(2, 3), election=PartitionElection.UNCLEAN)

    assert wanted == record(isr=(2,), leader=2)
    assert before.merge(record(isr=(2,), leader=2)).leader_recovery_state == RECOVERING


def test_the_state_that_a_partition_is_in_is_no_change() -> None:
    before = partition(1, 2, 3)

    assert change(before, target_leader_recovery_state=RECOVERED) is None
    unclean = change(
        partition(1, 2, 3, isr=(1,)),
        alive=(2, 3),
        election=PartitionElection.UNCLEAN,
        target_leader_recovery_state=RECOVERED,
    )
    assert unclean == record(isr=(2,), leader=2, leader_recovery_state=RECOVERING)


def test_a_proposal_that_changes_nothing_is_answered_and_not_written() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2))
    before, written = world.partition(topic_id), len(world.log)
    wish = ProposedPartition(0, 0, 0, (IsrMember(1), IsrMember(2)), RECOVERED)
    request = AlterPartitionRequest(1, world.epoch(1), (ProposedTopic((wish,), topic_id, ""),))

    (answered,) = world.commit(world.control.isr.alter(request, 3))

    assert answered.partitions[0].error is ErrorCode.none
    assert answered.partitions[0].partition_epoch == 0
    assert (world.partition(topic_id), len(world.log)) == (before, written)


# Who is elected.


def test_a_preferred_election_goes_through_all_the_others_in_their_order() -> None:
    before = partition(1, 2, 3, isr=(2, 3), leader=3)

    assert change(before, alive=(1, 2), election=PartitionElection.PREFERRED) == record(leader=2)


def test_an_unclean_leader_needs_its_directory() -> None:
    world = KraftWorld(2, 3)
    world.register(1, directories=2)
    topic_id = world.create_topic("foo", (2, 1), unclean_leader_election_enable="true")
    # Where broker 1 has it is said by the broker; then that directory fails.
    world.replay(
        world.control.brokers.handle_directories_offline(1, world.epoch(1), [directory(1, 0)])
    )
    lost = PartitionChangeRecord(0, topic_id, directories=(directory(2), directory(1, 0)))
    world.control.replay(lost)

    world.fence(2)

    assert world.partition(topic_id).isr == (1,)
    assert world.partition(topic_id).leader == NO_LEADER


@pytest.mark.parametrize(
    ("is_configured", "version"), [(True, from_name("3.9")), (False, WITH_ELR)]
)
def test_eligible_leaders_take_a_configuration_and_a_level(
    is_configured: bool, version: Any
) -> None:
    world = KraftWorld(
        1,
        2,
        metadata_version=version,
        config=ReplicationConfig(eligible_leader_replicas_enabled=is_configured),
    )
    topic_id = world.create_topic("foo", (1, 2), min_insync_replicas="2")

    world.fence(2)
    world.fence(1)

    assert (world.partition(topic_id).isr, world.partition(topic_id).elr) == ((1,), ())


def elr_change(before: PartitionRegistration, **wanted: Any) -> PartitionChangeRecord | None:
    return change(before, metadata_version=WITH_ELR, is_elr_enabled=True, **wanted)


def test_an_eligible_leader_leads_only_when_no_replica_is_in_sync() -> None:
    before = partition(1, 2, 3, isr=(1,), elr=(2,))

    wanted = elr_change(before, alive=(2,))

    assert wanted is not None
    assert wanted.leader == NO_LEADER


@pytest.mark.parametrize(
    ("before", "is_elr_enabled"),
    [
        (partition(1, 2, 3, isr=(), leader=NO_LEADER, last_known_elr=(2,)), False),
        (partition(1, 2, 3, isr=(), leader=NO_LEADER, last_known_elr=(2,), elr=(3,)), True),
        (partition(1, 2, 3, isr=(1,), leader=NO_LEADER, last_known_elr=(2,)), True),
        (partition(1, 2, 3, isr=(), leader=NO_LEADER, last_known_elr=(2, 3)), True),
    ],
    ids=["without ELR", "an eligible one", "one in sync", "several"],
)
def test_the_last_known_leader_is_the_last_resort(
    before: PartitionRegistration, is_elr_enabled: bool
) -> None:
    wanted = change(before, alive=(2,), metadata_version=WITH_ELR, is_elr_enabled=is_elr_enabled)

    assert wanted is None or wanted.leader not in (2, 3)


def test_the_isr_that_counts_for_eligible_leaders_is_no_larger_than_the_replicas() -> None:
    world = KraftWorld(
        1,
        2,
        metadata_version=WITH_ELR,
        config=ReplicationConfig(eligible_leader_replicas_enabled=True),
    )
    alone = world.create_topic("alone", (1,), min_insync_replicas="2")
    pair = world.create_topic("pair", (1, 2), min_insync_replicas="1")

    world.fence(2)

    assert (world.partition(alone).isr, world.partition(alone).elr) == ((1,), ())
    assert (world.partition(pair).isr, world.partition(pair).elr) == ((1,), ())


# Reassignments.


def test_replicas_that_only_come_are_there_once_they_are_in_sync() -> None:
    growing = PartitionReassignmentReplicas((), (3,), (1, 2, 3))

    assert growing.completed((1, 2)) is None
    assert growing.completed((1, 2, 3)) == ((1, 2, 3), (1, 2, 3))


def test_a_move_from_nowhere_cannot_be_taken_back() -> None:
    with pytest.raises(ApiException) as refused:
        PartitionReassignmentRevert.of(partition(1, 2, adding=(1, 2)))

    assert refused.value.error is ErrorCode.invalid_replica_assignment


# Directories.


def test_what_a_broker_cannot_have_in_a_directory_that_is_offline_is_refused_and_no_more() -> None:
    world = KraftWorld(2, 3)
    world.register(1, directories=2)
    topic_id = world.create_topic("foo", (1, 2), (2, 3))
    offline = AssignedDirectory(directory(1, 9), ((UUID(int=9), (0,)), (topic_id, (0, 1, 7))))

    (answered,) = world.commit(
        world.control.brokers.assign_replicas_to_dirs(1, world.epoch(1), [offline])
    )

    assert [error for _, verdicts in answered.topics for _, error in verdicts] == [
        ErrorCode.unknown_topic_id,
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
    ]
    assert (world.partition(topic_id).leader, world.partition(topic_id).isr) == (2, (2,))
    assert (world.partition(topic_id, 1).leader, world.partition(topic_id, 1).isr) == (2, (2, 3))
