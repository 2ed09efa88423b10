"""Topics that are created, extended and deleted by a KRaft controller."""

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.api_error import NO_ERROR, ApiError, ApiException
from kafka_common.errors import IllegalState
from kafka_common.model import ConfigSource
from kraft.controller.replication_control import ReplicationConfig
from kraft.controller.topic_requests import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicResult,
    CreatePartitionsTopic,
    CreateTopicsRequest,
)
from kraft.metadata.metadata_version import from_name
from kraft.metadata.records import (
    ZERO_UUID,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from tests.support.kraft_world import KraftWorld, directory, no_quota


def create(
    world: KraftWorld, *topics: CreatableTopic, **options: Any
) -> tuple[CreatableTopicResult, ...]:
    request = CreateTopicsRequest(topics, **options)
    return world.commit(world.control.topics.create_topics(request, no_quota))


def assigned(*replicas: tuple[int, ...]) -> tuple[CreatableReplicaAssignment, ...]:
    return tuple(CreatableReplicaAssignment(*item) for item in enumerate(replicas))


class Budget:
    """A quota of so many partitions."""

    def __init__(self, left: int) -> None:
        self._left = left

    def __call__(self, partition_count: int, /) -> None:
        if partition_count > self._left:
            raise ApiException(ErrorCode.throttling_quota_exceeded, "too fast")
        self._left -= partition_count


class NoTopicNamedSecret:
    """A policy; remembers what it was shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[object, ...]] = []

    def validate(
        self,
        topic: str,
        num_partitions: int | None,
        replication_factor: int | None,
        assignments: Mapping[int, tuple[int, ...]] | None,
        configs: Mapping[str, str],
    ) -> None:
        self.shown.append((topic, num_partitions, replication_factor, assignments, dict(configs)))
        if topic == "secret":
            raise ApiException(ErrorCode.policy_violation, "no secrets")


# ---------------------------------------------------------------------- CreateTopics


def test_a_topic_is_its_record_then_its_configuration_then_its_partitions_in_one_batch() -> None:
    world = KraftWorld(1, 2, 3)
    topic = CreatableTopic(
        "foo", assignments=assigned((1, 2), (2, 3)), configs=(("cleanup.policy", "compact"),)
    )

    result = world.control.topics.create_topics(CreateTopicsRequest((topic,)), no_quota)

    topic_id = result.response[0].topic_id
    assert result.is_atomic
    assert [versioned.record for versioned in result.records] == [
        TopicRecord("foo", topic_id),
        ConfigRecord(2, "foo", "cleanup.policy", "compact"),
        PartitionRecord(
            0, topic_id, (1, 2), (1, 2), leader=1, leader_epoch=0, partition_epoch=0,
            directories=(directory(1), directory(2)),
        ),
        PartitionRecord(
            1, topic_id, (2, 3), (2, 3), leader=2, leader_epoch=0, partition_epoch=0,
            directories=(directory(2), directory(3)),
        ),
    ]  # fmt: skip
    assert [versioned.version for versioned in result.records] == [0, 0, 1, 1]


def test_before_3_7_iv2_partitions_have_no_directories() -> None:
    world = KraftWorld(1, 2, metadata_version=from_name("3.6"))
    topic = CreatableTopic("foo", assignments=assigned((1, 2)))

    result = world.control.topics.create_topics(CreateTopicsRequest((topic,)), no_quota)

    record = result.records[1].record
    assert isinstance(record, PartitionRecord)
    assert record.directories == ()
    assert result.records[1].version == 0


def test_without_numbers_the_controllers_defaults_hold() -> None:
    world = KraftWorld(1, 2, 3, config=ReplicationConfig(4, 2))

    (created,) = create(world, CreatableTopic("foo"), describable=("foo",))

    assert (created.num_partitions, created.replication_factor) == (4, 2)
    assert all(len(world.partition(created.topic_id, index).replicas) == 2 for index in range(4))


def test_brokers_that_are_not_active_get_replicas_but_are_not_in_sync() -> None:
    world = KraftWorld(1, 2, 3)
    world.fence(1)
    world.begin_controlled_shutdown(2)

    (created,) = create(world, CreatableTopic("foo", assignments=assigned((1, 2, 3))))

    partition = world.partition(created.topic_id)
    assert (partition.isr, partition.leader) == ((3,), 3)


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatableTopic(""), ErrorCode.invalid_topic_exception),
        (CreatableTopic("."), ErrorCode.invalid_topic_exception),
        (CreatableTopic("a" * 250), ErrorCode.invalid_topic_exception),
        (CreatableTopic("a b"), ErrorCode.invalid_topic_exception),
        (CreatableTopic("foo_bar"), ErrorCode.invalid_topic_exception),
        (CreatableTopic("foo.bar"), ErrorCode.topic_already_exists),
        (CreatableTopic("x", replication_factor=0), ErrorCode.invalid_replication_factor),
        (CreatableTopic("x", replication_factor=-2), ErrorCode.invalid_replication_factor),
        (CreatableTopic("x", replication_factor=4), ErrorCode.invalid_replication_factor),
        (CreatableTopic("x", 0, 1), ErrorCode.invalid_partitions),
        (CreatableTopic("x", -2, 1), ErrorCode.invalid_partitions),
        (CreatableTopic("x", 1, -1, assigned((1, 2))), ErrorCode.invalid_request),
        (CreatableTopic("x", -1, 1, assigned((1, 2))), ErrorCode.invalid_request),
        (CreatableTopic("x", assignments=assigned(())), ErrorCode.invalid_replica_assignment),
        (CreatableTopic("x", assignments=assigned((1, 1))), ErrorCode.invalid_replica_assignment),
        (CreatableTopic("x", assignments=assigned((1, 9))), ErrorCode.invalid_replica_assignment),
        (
            CreatableTopic("x", assignments=assigned((1, 2), (1,))),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            CreatableTopic("x", assignments=(CreatableReplicaAssignment(1, (1, 2)),)),
            ErrorCode.invalid_replica_assignment,
        ),
        (
            CreatableTopic(
                "x",
                assignments=(
                    CreatableReplicaAssignment(0, (1,)),
                    CreatableReplicaAssignment(0, (2,)),
                ),
            ),
            ErrorCode.invalid_replica_assignment,
        ),
        (CreatableTopic("x", assignments=assigned((3,))), ErrorCode.invalid_replica_assignment),
        (CreatableTopic("x", 1, 1, configs=(("cleanup.policy", None),)), ErrorCode.invalid_config),
        (CreatableTopic("x", 1, 1, configs=(("no.such.key", "1"),)), ErrorCode.invalid_config),
    ],
)
def test_an_impossible_topic_is_refused_beside_those_that_are_fine(
    topic: CreatableTopic, error: ErrorCode
) -> None:
    world = KraftWorld(1, 2, 3)
    create(world, CreatableTopic("foo.bar", 1, 1))
    world.fence(3)

    for validate_only in (True, False):
        before = len(world.log)
        refused, fine = create(
            world, topic, CreatableTopic("fine", 1, 1), validate_only=validate_only
        )

        assert refused.error.error is error, refused
        assert refused.topic_id == ZERO_UUID
        assert fine.error == NO_ERROR
        assert len(world.log) - before == (0 if validate_only else 2)


def test_nothing_is_placed_where_every_broker_is_fenced_or_stops() -> None:
    world = KraftWorld(1, 2)
    world.begin_controlled_shutdown(1)
    world.begin_controlled_shutdown(2)

    (stopping,) = create(world, CreatableTopic("foo", 1, 2))
    world.fence(1)
    world.fence(2)
    (fenced,) = create(world, CreatableTopic("foo", 1, 2))

    prefix = "Unable to replicate the partition 2 time(s): All brokers are currently fenced"
    assert stopping.error == (
        ErrorCode.invalid_replication_factor, f"{prefix} or in controlled shutdown."
    )  # fmt: skip
    assert fenced.error == (ErrorCode.invalid_replication_factor, f"{prefix}.")


def test_more_than_ten_thousand_partitions_fail_the_whole_request() -> None:
    world = KraftWorld(1)

    with pytest.raises(ApiException) as refused:
        create(world, CreatableTopic("a", 9_999, 1), CreatableTopic("b", 2, 1))

    assert refused.value.error is ErrorCode.policy_violation
    assert world.log == []


def test_an_operators_policy_is_shown_what_was_asked_for() -> None:
    policy = NoTopicNamedSecret()
    world = KraftWorld(1, 2, config=ReplicationConfig(create_topic_policy=policy))

    refused, fine = create(
        world,
        CreatableTopic("secret", 1, 1),
        CreatableTopic("x", assignments=assigned((1, 2)), configs=(("retention.ms", "1"),)),
    )

    assert refused.error == (ErrorCode.policy_violation, "no secrets")
    assert fine.error == NO_ERROR
    assert policy.shown == [
        ("secret", 1, 1, None, {}),
        ("x", None, None, {0: (1, 2)}, {"retention.ms": "1"}),
    ]


def test_who_may_see_it_gets_the_configuration_with_its_sources() -> None:
    world = KraftWorld(1, static_config={"log.retention.minutes": "2"})

    hidden, shown = create(
        world,
        CreatableTopic("hidden", 1, 1),
        CreatableTopic("shown", 1, 1, configs=(("cleanup.policy", "compact"),)),
        describable=("shown",),
    )

    assert hidden.configs is None
    assert shown.configs is not None
    assert [(entry.name, entry.value, entry.source) for entry in shown.configs] == [
        ("cleanup.policy", "compact", ConfigSource.TOPIC),
        ("min.insync.replicas", "1", ConfigSource.DEFAULT),
        ("retention.ms", "120000", ConfigSource.STATIC_BROKER),
        ("unclean.leader.election.enable", "false", ConfigSource.DEFAULT),
    ]


# ---------------------------------------------------------------------- quota


def test_an_exceeded_mutation_quota_throttles_a_topic_and_writes_nothing_for_it() -> None:
    world = KraftWorld(1)
    request = CreateTopicsRequest((CreatableTopic("a", 2, 1), CreatableTopic("b", 2, 1)))
    control = world.control.topics

    one, other = world.commit(control.create_topics(request, Budget(3)))
    grown = world.commit(
        control.create_partitions(
            (CreatePartitionsTopic("a", 4), CreatePartitionsTopic("b", 4)), Budget(1)
        )
    )
    deleted = world.commit(control.delete_topics((one.topic_id,), Budget(1)))

    throttled = ApiError(ErrorCode.throttling_quota_exceeded, "too fast")
    assert (one.error, other.error) == (NO_ERROR, throttled)
    assert grown == (("a", throttled), ("b", ApiError(ErrorCode.unknown_topic_or_partition)))
    assert deleted == {one.topic_id: throttled}
    assert [type(versioned.record) for versioned in world.log] == [
        TopicRecord, PartitionRecord, PartitionRecord
    ]  # fmt: skip


# ---------------------------------------------------------------------- CreatePartitions


@pytest.mark.parametrize(
    ("topic", "error"),
    [
        (CreatePartitionsTopic("bar", 3), ErrorCode.unknown_topic_or_partition),
        (CreatePartitionsTopic("foo", 2), ErrorCode.invalid_partitions),
        (CreatePartitionsTopic("foo", 1), ErrorCode.invalid_partitions),
        (CreatePartitionsTopic("foo", 2**31 - 1), ErrorCode.policy_violation),
        (CreatePartitionsTopic("foo", 4, ((1, 2),)), ErrorCode.invalid_replica_assignment),
        (CreatePartitionsTopic("foo", 3, ((1,),)), ErrorCode.invalid_replica_assignment),
        (CreatePartitionsTopic("foo", 3, ((1, 9),)), ErrorCode.invalid_replica_assignment),
    ],
)
def test_an_impossible_increase_is_refused(topic: CreatePartitionsTopic, error: ErrorCode) -> None:
    world = KraftWorld(1, 2)
    world.create_topic("foo", (1, 2), (2, 1))
    before = len(world.log)

    ((_, answered),) = world.commit(world.control.topics.create_partitions((topic,), no_quota))

    assert answered.error is error
    assert len(world.log) == before


def test_new_partitions_have_as_many_replicas_as_the_old_ones() -> None:
    world = KraftWorld(1, 2, 3)
    topic_id = world.create_topic("foo", (1, 2))

    answered = world.commit(
        world.control.topics.create_partitions((CreatePartitionsTopic("foo", 3),), no_quota)
    )

    assert answered == (("foo", NO_ERROR),)
    assert [len(world.partition(topic_id, index).replicas) for index in (1, 2)] == [2, 2]


def test_new_partitions_are_assigned_by_hand() -> None:
    world = KraftWorld(1, 2, 3)
    topic_id = world.create_topic("foo", (1, 2))
    world.fence(3)

    world.commit(
        world.control.topics.create_partitions(
            (CreatePartitionsTopic("foo", 3, ((3, 1), (2, 3))),), no_quota
        )
    )

    assert world.partition(topic_id, 1)[0:3:2] == ((3, 1), (1,))
    assert world.partition(topic_id, 2)[0:3:2] == ((2, 3), (2,))


# ---------------------------------------------------------------------- DeleteTopics


def test_a_deleted_topic_leaves_nothing_behind() -> None:
    world = KraftWorld(1, 2, 3)
    topic_id = world.create_topic("foo.bar", (1, 2), (2, 1), retention_ms="5")
    world.fence(2)
    state = world.control.state

    deleted = world.commit(world.control.topics.delete_topics((topic_id, UUID(int=9)), no_quota))

    assert deleted == {topic_id: NO_ERROR, UUID(int=9): ApiError(ErrorCode.unknown_topic_id)}
    assert world.log[-1].record == RemoveTopicRecord(topic_id)
    assert state.find_all_topic_ids() == {}
    assert not state.brokers_to_isrs.has_leaderships(1)
    assert list(state.brokers_to_isrs.partitions_with_broker_in_isr(1)) == []
    assert state.partitions_in_directory(directory(1)) == []
    assert not world.control.elections.are_partition_leaders_imbalanced()
    assert world.configs.topic_config("foo.bar", "retention.ms").value == "604800000"
    assert create(world, CreatableTopic("foo_bar", 1, 1))[0].error == NO_ERROR


# ---------------------------------------------------------------------- replay and reads


def test_a_duplicate_topic_record_fails_on_replay() -> None:
    world = KraftWorld(1)
    topic_id = world.create_topic("foo", (1,))

    for again in (topic_id, UUID(int=9)):
        with pytest.raises(IllegalState):
            world.control.replay(TopicRecord("foo", again))


def test_records_about_unknown_topics_and_partitions_fail_on_replay() -> None:
    world = KraftWorld(1)
    topic_id = world.create_topic("foo", (1,))

    with pytest.raises(IllegalState):
        world.control.replay(PartitionRecord(0, UUID(int=9), (1,), (1,)))
    with pytest.raises(IllegalState):
        world.control.replay(RemoveTopicRecord(UUID(int=9)))
    with pytest.raises(IllegalState):
        world.control.replay(PartitionChangeRecord(7, topic_id))


def test_topics_are_found_by_name_and_by_id_as_of_an_epoch() -> None:
    world = KraftWorld(1)
    old = world.create_topic("old", (1,))
    world.registry.get_or_create_snapshot(5)
    world.commit(world.control.topics.delete_topics((old,), no_quota))
    new = world.create_topic("new", (1,))
    state = world.control.state

    assert state.find_all_topic_ids() == {"new": new}
    assert state.find_all_topic_ids(5) == {"old": old}
    assert state.find_topic_ids(["old"], 5) == {"old": old}
    unknown = state.find_topic_ids(["old"])["old"]
    assert isinstance(unknown, ApiError)
    assert unknown.error is ErrorCode.unknown_topic_or_partition
    named = state.find_topic_names([new, old, ZERO_UUID])
    assert named[new] == "new"
    assert isinstance(named[old], ApiError)
    assert isinstance(named[ZERO_UUID], ApiError)


def test_a_controller_that_loses_its_place_forgets_what_was_not_committed() -> None:
    world = KraftWorld(1, 2)
    topic_id = world.create_topic("foo", (1, 2), retention_ms="5")
    world.registry.get_or_create_snapshot(5)
    before = world.partition(topic_id)

    world.replay(world.control.brokers.handle_broker_fenced(1)[:-1])
    world.commit(world.control.topics.delete_topics((topic_id,), no_quota))
    world.create_topic("foo", (2,))
    world.registry.revert_to_snapshot(5)

    assert world.control.state.find_all_topic_ids() == {"foo": topic_id}
    assert world.partition(topic_id) == before
    assert world.control.state.brokers_to_isrs.has_leaderships(1)
    assert not world.control.state.brokers_to_isrs.has_leaderships(2)
    assert world.configs.topic_config("foo", "retention.ms").value == "5"
