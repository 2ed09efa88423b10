"""OffsetForLeaderEpoch as clients and followers are answered.

Source of the behaviours: Kafka ``OffsetsForLeaderEpochTest``, ``OffsetsForLeaderEpochRequestTest``.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.acls import (
    AccessControlEntry,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from kafka_common.model import TopicPartition
from kafka_common.protocol.api_versions import ApiKey
from kafka_common.protocol.versioned_messages import request_schema
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Partition
from replica_manager.security.acl_cache import AclBinding, AclCache
from replica_manager.security.acl_store import AclStore
from replica_manager.security.authorizer import CLUSTER_NAME, Authorizer
from replica_manager.security.principals import Principal
from tests.simulation.replication_log import InMemoryLog
from tests.support.broker_world import BrokerWorld, metadata
from zkcontroller.state_changes.record import Kind, StateChange
from zkcontroller.zookeeper.session import ZooKeeperSession

LED, FOLLOWED, ELSEWHERE, OFFLINE, UNKNOWN = range(5)
LEADER_EPOCH = 7
NOTHING = (-1, -1)


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    world.update({"orders": {index: metadata(1) for index in range(UNKNOWN)}})
    for index, leader in ((LED, 1), (FOLLOWED, 2)):
        world.replicas.partitions[TopicPartition("orders", index)] = hosted(index, leader)
    world.replicas.offline.add(TopicPartition("orders", OFFLINE))
    return world


def hosted(index: int, leader: int) -> Partition:
    """Records 0-2 of epoch 3, 3 and 4 of epoch 5, and nothing yet of the current one."""
    log = InMemoryLog()
    for epoch in (3, 3, 3, 5, 5):
        log.append_as_leader("x", epoch)
    partition = Partition(TopicPartition("orders", index), 1, log=log)
    state = LeaderAndIsrPartitionState(1, leader, LEADER_EPOCH, (1, 2), 0, (1, 2), (), (), False, 0)
    base = StateChange(Kind.LEADER_AND_ISR_HANDLING, "broker", 1, 1, 1)
    if leader == 1:
        partition.make_leader(state, None, base, 0)
    else:
        partition.make_follower(state, None, base)
    return partition


def ask(
    world: BrokerWorld, *asked: tuple[int, int, int], version: int = 4, topic: str = "orders"
) -> list[tuple[ErrorCode, tuple[int, int]]]:
    """(partition, current leader epoch, epoch asked about) to the error, the epoch and its end."""
    schema = request_schema(ApiKey.OFFSET_FOR_LEADER_EPOCH, version)
    partitions = tuple(
        schema.part(
            "OffsetForLeaderPartition",
            partition=partition,
            current_leader_epoch=current,
            leader_epoch=epoch,
        )
        for partition, current, epoch in asked
    )
    request = schema.request(
        replica_id=2,
        topics=(schema.part("OffsetForLeaderTopic", topic=topic, partitions=partitions),),
    )
    response: Any = asyncio.run(world.ask(request))
    (told,) = response.topics
    assert told.topic == topic
    assert [each.partition for each in told.partitions] == [partition for partition, _, _ in asked]
    return [
        (each.error_code, (getattr(each, "leader_epoch", -1), each.end_offset))
        for each in told.partitions
    ]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [
        (2, (2, 0)),
        (3, (3, 3)),
        (4, (3, 3)),
        (5, (5, 5)),
        (LEADER_EPOCH, (LEADER_EPOCH, 5)),
        (LEADER_EPOCH + 1, NOTHING),
    ],
)
def test_an_epoch_ends_where_the_next_one_starts(
    world: BrokerWorld, epoch: int, end: tuple[int, int]
) -> None:
    assert ask(world, (LED, LEADER_EPOCH, epoch)) == [(ErrorCode.none, end)]


def test_whose_leader_epoch_is_another_is_refused_before_anything_else(world: BrokerWorld) -> None:
    old, new = LEADER_EPOCH - 1, LEADER_EPOCH + 1
    asked = [(LED, old, 3), (LED, new, 3), (FOLLOWED, old, 3), (FOLLOWED, new, 3)]
    assert (
        ask(world, *asked)
        == [
            (ErrorCode.fenced_leader_epoch, NOTHING),
            (ErrorCode.unknown_leader_epoch, NOTHING),
        ]
        * 2
    )


def test_who_does_not_say_its_epoch_is_not_fenced(world: BrokerWorld) -> None:
    assert ask(world, (LED, -1, 3)) == [(ErrorCode.none, (3, 3))]


def test_only_the_leader_answers(world: BrokerWorld) -> None:
    asked = [(index, LEADER_EPOCH, 3) for index in (FOLLOWED, ELSEWHERE, OFFLINE, UNKNOWN)]
    assert [error for error, _ in ask(world, *asked)] == [
        ErrorCode.not_leader_or_follower,
        ErrorCode.not_leader_or_follower,
        ErrorCode.kafka_storage_error,
        ErrorCode.unknown_topic_or_partition,
    ]


@pytest.mark.parametrize("version", range(5))
def test_every_version_is_answered(world: BrokerWorld, version: int) -> None:
    epoch = 3 if version >= 1 else -1
    assert ask(world, (LED, LEADER_EPOCH, 3), version=version) == [(ErrorCode.none, (epoch, 3))]


@pytest.mark.parametrize(
    ("resource", "operation", "error"),
    [
        (None, None, ErrorCode.topic_authorization_failed),
        ((ResourceType.TOPIC, "invoices"), AclOperation.DESCRIBE, "topic"),
        ((ResourceType.TOPIC, "orders"), AclOperation.DESCRIBE, ErrorCode.none),
        ((ResourceType.TOPIC, "orders"), AclOperation.READ, ErrorCode.none),
        ((ResourceType.CLUSTER, CLUSTER_NAME), AclOperation.CLUSTER_ACTION, ErrorCode.none),
        ((ResourceType.CLUSTER, CLUSTER_NAME), AclOperation.DESCRIBE, "topic"),
    ],
)
def test_followers_may_ask_about_every_topic_and_others_about_what_they_may_describe(
    world: BrokerWorld,
    resource: tuple[ResourceType, str] | None,
    operation: AclOperation | None,
    error: object,
) -> None:
    world.context.authorizer = Authorizer(AclCache({}), super_users=frozenset())
    store = AclStore(
        cast(ZooKeeperSession, world.session), world.context.authorizer, sleep=lambda _: None
    )
    store.load()
    world.principal = Principal("User", "alice")
    if resource is not None and operation is not None:
        pattern = ResourcePattern(*resource, PatternType.LITERAL)
        entry = AccessControlEntry("User:alice", "*", operation, PermissionType.ALLOW)
        store.create([AclBinding(pattern, entry)])

    expected = ErrorCode.topic_authorization_failed if error == "topic" else error
    ((told, end),) = ask(world, (LED, LEADER_EPOCH, 3))
    assert told is expected
    assert end == ((3, 3) if told is ErrorCode.none else NOTHING)
