"""A KRaft cluster's partitions as brokers come, go and stop; elections."""

from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kafka_common.model import RECOVERED, RECOVERING, ElectionType
from kraft.controller.broker_changes import AssignedDirectory
from kraft.controller.broker_transitions import BrokerTransitions
from kraft.controller.directory_ids import UNASSIGNED
from kraft.controller.replication_control import ReplicationConfig
from kraft.metadata.metadata_version import from_name
from kraft.metadata.records import (
    NO_LEADER,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from tests.support.kraft_world import WITH_ELR, KraftWorld, directory
from tests.unit.kraft.controller.proposals import propose


def elect(
    world: KraftWorld, election_type: ElectionType, *partitions: tuple[str, tuple[int, ...]]
) -> dict[str, list[tuple[int, ErrorCode]]]:
    asked = partitions or None
    answered = world.commit(world.control.elections.elect_leaders(election_type, asked))
    return {
        topic.name: [(index, error.error) for index, error in topic.partitions]
        for topic in answered
    }


# ---------------------------------------------------------------------- fencing


def test_a_fenced_broker_first_loses_its_partitions_and_then_is_fenced() -> None:
    world = KraftWorld(1, 2, 3)
    topic_id = world.create_topic("foo", (1, 2, 3), (2, 3, 1))

    records = world.fence(1)

    assert [versioned.record for versioned in records] == [
        PartitionChangeRecord(0, topic_id, isr=(2, 3), leader=2),
        PartitionChangeRecord(1, topic_id, isr=(2, 3)),
        BrokerRegistrationChangeRecord(1, 101, fenced=1),
    ]
    assert [versioned.version for versioned in records] == [1, 1, 0]


def test_the_last_replica_in_sync_stays_in_the_isr_without_leading() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2))
    world.fence(2)

    world.fence(1)

    partition = world.partition(topic_id)
    assert (partition.leader, partition.isr, partition.leader_epoch) == (NO_LEADER, (1,), 1)
    assert world.control.elections.are_some_partitions_leaderless()


def test_an_unfenced_broker_first_is_unfenced_and_then_leads_what_only_it_can() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2))
    world.fence(2)
    world.fence(1)

    others = world.unfence(2)
    records = world.unfence(1)

    assert [versioned.record for versioned in others] == [
        BrokerRegistrationChangeRecord(2, 102, fenced=-1)
    ]
    assert [versioned.record for versioned in records] == [
        BrokerRegistrationChangeRecord(1, 101, fenced=-1),
        PartitionChangeRecord(0, topic_id, leader=1),
    ]
    assert world.partition(topic_id).leader_recovery_state == RECOVERED


def test_before_3_3_iv2_fencing_has_records_of_its_own() -> None:
    world = KraftWorld(1, metadata_version=from_name("3.3-IV1"))

    fenced, unfenced = world.fence(1), world.unfence(1)

    assert [versioned.record for versioned in (*fenced, *unfenced)] == [
        FenceBrokerRecord(1, 101), UnfenceBrokerRecord(1, 101)
    ]  # fmt: skip


def test_a_broker_that_stops_says_so_once_and_hands_its_leaderships_over() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2))
    transitions: BrokerTransitions = world.control.brokers
    assert transitions.has_leaderships(1)

    records = world.begin_controlled_shutdown(1)
    again = world.begin_controlled_shutdown(1)

    assert [versioned.record for versioned in records] == [
        BrokerRegistrationChangeRecord(1, 101, in_controlled_shutdown=1),
        PartitionChangeRecord(0, topic_id, isr=(2,), leader=2),
    ]
    assert records[0].version == 1
    assert again == []
    assert not transitions.has_leaderships(1)


def test_before_3_3_iv3_a_broker_stops_without_a_record() -> None:
    world = KraftWorld(1, 2, metadata_version=from_name("3.3-IV2"))
    world.create_topic("foo", (2, 1))

    (record,) = world.begin_controlled_shutdown(1)

    # The leader epoch rises with every ISR that shrinks at this level.
    assert isinstance(record.record, PartitionChangeRecord)
    assert (record.record.isr, record.record.leader) == ((2,), 2)


def test_a_broker_that_is_unregistered_leaves_isrs() -> None:
    world = KraftWorld(
        1,
        2,
        3,
        metadata_version=WITH_ELR,
        config=ReplicationConfig(eligible_leader_replicas_enabled=True),
    )
    in_isr = world.create_topic("isr", (1, 2, 3))
    in_elr = world.create_topic("elr", (1, 2), min_insync_replicas="2")
    propose(world, in_elr, 1)
    assert world.partition(in_elr).elr == (2,)

    records = world.unregister(2)

    assert records[-1].record == UnregisterBrokerRecord(2, 102)
    assert world.partition(in_isr).isr == (1, 3)
    # As Kafka 3.9: only an unclean shutdown takes a broker out of an ELR.
    assert (world.partition(in_elr).isr, world.partition(in_elr).elr) == ((1,), (2,))


def test_after_an_unclean_restart_a_broker_is_in_no_isr_and_no_elr() -> None:
    world = KraftWorld(
        1,
        2,
        3,
        metadata_version=WITH_ELR,
        config=ReplicationConfig(eligible_leader_replicas_enabled=True),
    )
    in_isr = world.create_topic("isr", (1, 2, 3), min_insync_replicas="3")
    in_elr = world.create_topic("elr", (1, 2, 3), min_insync_replicas="3")
    propose(world, in_elr, 1)
    assert world.partition(in_elr).elr == (2, 3)

    world.replay(world.control.brokers.handle_broker_unclean_shutdown(2))

    assert (world.partition(in_isr).isr, world.partition(in_isr).elr) == ((1, 3), ())
    assert world.partition(in_elr).elr == (3,)
    assert list(world.control.state.brokers_to_isrs.partitions_with_broker_in_elr(2)) == []


def test_below_4_0_an_unclean_restart_changes_nothing() -> None:
    world = KraftWorld(1, 2)
    world.create_topic("foo", (1, 2))

    assert world.control.brokers.handle_broker_unclean_shutdown(2) == []


# ---------------------------------------------------------------------- unclean elections


def test_an_unclean_leader_is_elected_only_where_the_topic_allows_it() -> None:
    world = KraftWorld(1, 2)
    safe = world.create_topic("safe", (1, 2))
    risky = world.create_topic("risky", (1, 2), unclean_leader_election_enable="true")
    for topic_id in (safe, risky):
        propose(world, topic_id, 1)

    world.fence(1)

    assert world.partition(safe).leader == NO_LEADER
    chosen = world.partition(risky)
    assert (chosen.leader, chosen.isr) == (2, (2,))
    assert chosen.leader_recovery_state == RECOVERING


def test_leaderless_partitions_get_an_unclean_leader_once_their_topic_allows_it() -> None:
    world = KraftWorld(1, 2, config=ReplicationConfig(max_elections_per_imbalance=2))
    topic_id = world.create_topic("foo", *[(1, 2)] * 3)
    world.fence(2)
    world.fence(1)
    world.unfence(2)
    task = world.control.elections.maybe_elect_unclean_leaders

    assert task().records == ()
    world.set_topic_config("foo", "unclean.leader.election.enable", "true")

    assert world.commit(task()) is True  # there may be more
    assert world.commit(task()) is False
    assert {world.partition(topic_id, index).leader for index in range(3)} == {2}


def test_a_preferred_election_is_never_unclean() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2), unclean_leader_election_enable="true")
    propose(world, topic_id, 1)
    world.set_topic_config("foo", "unclean.leader.election.enable", "false")
    world.fence(1)
    world.set_topic_config("foo", "unclean.leader.election.enable", "true")

    answered = elect(world, ElectionType.PREFERRED, ("foo", (0,)))

    assert answered == {"foo": [(0, ErrorCode.preferred_leader_not_available)]}
    assert world.partition(topic_id).leader == NO_LEADER


# ---------------------------------------------------------------------- ElectLeaders


def test_each_partition_asked_for_gets_a_verdict() -> None:
    world = KraftWorld(1, 2, 3)
    topic_id = world.create_topic("foo", (1, 2), (2, 1), (3, 2))
    world.create_topic("lone", (3,))
    world.fence(1)
    world.unfence(1)
    propose(world, topic_id, 2, 1)
    world.fence(3)

    preferred = elect(world, ElectionType.PREFERRED, ("foo", (0, 1, 2, 9)), ("bar", (0,)))
    unclean = elect(world, ElectionType.UNCLEAN, ("foo", (0,)), ("lone", (0,)))

    assert preferred == {
        "foo": [
            (0, ErrorCode.none),
            (1, ErrorCode.election_not_needed),
            (2, ErrorCode.preferred_leader_not_available),
            (9, ErrorCode.unknown_topic_or_partition),
        ],
        "bar": [(0, ErrorCode.unknown_topic_or_partition)],
    }
    assert unclean == {
        "foo": [(0, ErrorCode.election_not_needed)],
        "lone": [(0, ErrorCode.eligible_leaders_not_available)],
    }
    assert world.partition(topic_id).leader == 1


def test_asked_for_all_partitions_those_that_need_no_election_are_left_out() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2), (2, 1))
    world.create_topic("bar", (2, 1))
    world.fence(1)
    world.unfence(1)
    propose(world, topic_id, 2, 1)

    assert elect(world, ElectionType.PREFERRED) == {"foo": [(0, ErrorCode.none)], "bar": []}


# ---------------------------------------------------------------------- balancing


def test_the_preferred_leader_leads_again_after_its_return_in_bounded_steps() -> None:
    world = KraftWorld(1, 2, config=ReplicationConfig(max_elections_per_imbalance=2))
    topic_id = world.create_topic("foo", *[(1, 2)] * 3)
    elections = world.control.elections
    world.fence(1)
    assert elections.are_partition_leaders_imbalanced()
    assert elections.maybe_balance_partition_leaders().records == ()
    world.unfence(1)
    for index in range(3):
        propose(world, topic_id, 2, 1, index=index, partition_epoch=1)

    first = world.commit(elections.maybe_balance_partition_leaders())
    second = world.commit(elections.maybe_balance_partition_leaders())

    assert (first, second) == (True, False)
    assert not elections.are_partition_leaders_imbalanced()
    assert {world.partition(topic_id, index).leader for index in range(3)} == {1}


# ---------------------------------------------------------------------- directories


@pytest.fixture
def jbod() -> KraftWorld:
    world = KraftWorld(2, 3)
    world.register(1, directories=2)
    return world


def assign(
    world: KraftWorld, broker_id: int, chosen: UUID, *partitions: tuple[UUID, int]
) -> list[ErrorCode]:
    asked = [AssignedDirectory(chosen, tuple((topic, (index,)) for topic, index in partitions))]
    result = world.control.brokers.assign_replicas_to_dirs(broker_id, 100 + broker_id, asked)
    (answered,) = world.commit(result)
    return [error for _, verdicts in answered.topics for _, error in verdicts]


def test_a_broker_says_where_its_replicas_are(jbod: KraftWorld) -> None:
    topic_id = jbod.create_topic("foo", (1, 2), (2, 3))
    assert jbod.partition(topic_id).directories == (UNASSIGNED, directory(2))

    verdicts = assign(
        jbod, 1, directory(1, 1), (topic_id, 0), (topic_id, 1), (topic_id, 7), (UUID(int=9), 0)
    )

    assert verdicts == [
        ErrorCode.none,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.unknown_topic_id,
    ]
    assert jbod.partition(topic_id).directories == (directory(1, 1), directory(2))
    assert len(jbod.control.state.partitions_in_directory(directory(1, 1))) == 1


def test_a_replica_in_a_directory_that_is_offline_loses_its_leadership(jbod: KraftWorld) -> None:
    topic_id = jbod.create_topic("foo", (1, 2))

    assert assign(jbod, 1, directory(1, 5), (topic_id, 0)) == [ErrorCode.none]

    partition = jbod.partition(topic_id)
    assert (partition.leader, partition.isr) == (2, (2,))


def test_what_was_in_a_directory_that_fails_is_led_elsewhere(jbod: KraftWorld) -> None:
    topic_id = jbod.create_topic("foo", (1, 2), (1, 3))
    assign(jbod, 1, directory(1, 0), (topic_id, 0))
    assign(jbod, 1, directory(1, 1), (topic_id, 1))
    transitions: BrokerTransitions = jbod.control.brokers

    records = jbod.replay(transitions.handle_directories_offline(1, 101, [directory(1, 0)]))
    again = transitions.handle_directories_offline(1, 101, [directory(1, 0)])

    assert [versioned.record for versioned in records] == [
        PartitionChangeRecord(0, topic_id, isr=(2,), leader=2),
        BrokerRegistrationChangeRecord(1, 101, log_dirs=(directory(1, 1),)),
    ]
    assert records[1].version == 2
    assert again == []
    assert jbod.partition(topic_id, 1).leader == 1


def test_directories_are_assigned_from_3_7_iv2_on_and_by_the_living(jbod: KraftWorld) -> None:
    assign_replicas = jbod.control.brokers.assign_replicas_to_dirs

    with pytest.raises(ApiException) as stale:
        assign_replicas(1, 7, [])
    jbod.metadata_version = from_name("3.6")
    with pytest.raises(ApiException) as unsupported:
        assign_replicas(1, 101, [])

    assert stale.value.error is ErrorCode.stale_broker_epoch
    assert unsupported.value.error is ErrorCode.unsupported_version
