"""CreatePartitions: every check in Kafka's order, and the wait for the leaders."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import ReplicaAssignment
from tests.support.broker_world import ORDERS_ID, BrokerWorld, broker, metadata
from zkcontroller.zookeeper.requests import Create, SetData, UnfencedBatch
from zkcontroller.zookeeper.znodes import BrokerIdZnode, DeleteTopicZnode, TopicZnode

LONG_MS = 20_000


def register(world: BrokerWorld, broker_id: int, rack: str | None = None) -> None:
    data = BrokerIdZnode(broker(broker_id, rack=rack), 0).encode()
    world.session.write(Create(BrokerIdZnode.path(broker_id), data))


def write_topic(
    world: BrokerWorld, topic: str, *partitions: tuple[int, ...] | ReplicaAssignment
) -> None:
    assignments = {
        index: given if isinstance(given, ReplicaAssignment) else ReplicaAssignment(given)
        for index, given in enumerate(partitions)
    }
    data = TopicZnode(ORDERS_ID, assignments).encode()
    world.session.write(Create(TopicZnode.path(topic), data))


def partitions_of(world: BrokerWorld, topic: str) -> dict[int, tuple[int, ...]]:
    znode = world.znode(TopicZnode.path(topic))
    assert znode is not None
    partitions = TopicZnode.decode(topic, znode.data).partitions
    return {partition: a.replicas for partition, a in sorted(partitions.items())}


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    for broker_id in (1, 2, 3):
        register(world, broker_id)
    write_topic(world, "orders", (2, 3))
    world.update({"orders": {0: metadata(2)}})
    return world


def request(
    *topics: tuple[str, int] | tuple[str, int, tuple[tuple[int, ...], ...]],
    version: int = 3,
    timeout_ms: int = 0,
    validate_only: bool = False,
) -> Any:
    schema: Any = import_module(f"kio.schema.create_partitions.v{version}.request")
    return schema.CreatePartitionsRequest(
        topics=tuple(
            schema.CreatePartitionsTopic(
                name=name,
                count=count,
                assignments=(
                    tuple(schema.CreatePartitionsAssignment(broker_ids=ids) for ids in given[0])
                    if given
                    else None
                ),
            )
            for name, count, *given in topics
        ),
        timeout=timedelta(milliseconds=timeout_ms),
        validate_only=validate_only,
    )


def outcomes(world: BrokerWorld, *topics: Any, **options: Any) -> dict[str, Any]:
    response = asyncio.run(world.ask(request(*topics, **options)))
    assert len({result.name for result in response.results}) == len(response.results)
    return {r.name: (r.error_code, r.error_message) for r in response.results}


@pytest.mark.parametrize("version", range(4))
async def test_partitions_are_added_and_answered_when_they_have_leaders(
    world: BrokerWorld, version: int
) -> None:
    asking = asyncio.ensure_future(
        world.ask(request(("orders", 4), version=version, timeout_ms=LONG_MS))
    )
    while not world.topics.waiters:
        await asyncio.sleep(0)
    world.update({"orders": {p: metadata(1) for p in range(1, 3)}})
    await asyncio.sleep(0)
    assert not asking.done()
    world.update({"orders": {3: metadata(1)}})
    [result] = (await asking).results

    assert (result.name, result.error_code, result.error_message) == (
        "orders",
        ErrorCode.none,
        None,
    )
    znode = world.znode(TopicZnode.path("orders"))
    assert znode is not None
    assert TopicZnode.decode("orders", znode.data).topic_id == ORDERS_ID


def test_new_partitions_go_on_where_partition_0_began(world: BrokerWorld) -> None:
    """As Kafka 3.9.1's ``AdminUtils`` computes it from the position of broker 2."""
    outcomes(world, ("orders", 6))

    assert partitions_of(world, "orders") == {
        0: (2, 3),
        1: (3, 2),
        2: (1, 3),
        3: (2, 3),
        4: (3, 1),
        5: (1, 2),
    }


def test_a_first_leader_that_is_gone_is_followed_by_the_next_higher_broker(
    world: BrokerWorld,
) -> None:
    write_topic(world, "old", (0,))
    write_topic(world, "new", (9,))

    outcomes(world, ("old", 2), ("new", 2))

    assert partitions_of(world, "old")[1] == (2,)
    assert partitions_of(world, "new")[1] == (2,)


def test_explicit_assignments_are_taken(world: BrokerWorld) -> None:
    outcomes(world, ("orders", 3, ((3, 1), (1, 2))))

    assert partitions_of(world, "orders") == {0: (2, 3), 1: (3, 1), 2: (1, 2)}


def test_validate_only_writes_nothing_and_succeeds(world: BrokerWorld) -> None:
    told = outcomes(world, ("orders", 3), ("none", 1), validate_only=True, timeout_ms=LONG_MS)

    assert told["orders"] == (ErrorCode.none, None)
    assert told["none"][0] is ErrorCode.unknown_topic_or_partition
    assert list(partitions_of(world, "orders")) == [0]


@pytest.mark.parametrize("timeout_ms", [-1, 0, 20])
def test_without_leaders_in_time_the_partitions_exist_but_timed_out(
    world: BrokerWorld, timeout_ms: int
) -> None:
    told = outcomes(world, ("orders", 2), timeout_ms=timeout_ms)

    assert told == {"orders": (ErrorCode.request_timed_out, None)}
    assert list(partitions_of(world, "orders")) == [0, 1]


def test_who_is_not_the_controller_says_so_for_each_topic(world: BrokerWorld) -> None:
    world.controller.is_active = False

    told = outcomes(world, ("orders", 2), ("bills", 2))

    assert told == {
        "orders": (ErrorCode.not_controller, None),
        "bills": (ErrorCode.not_controller, None),
    }


def test_a_topic_named_twice_is_refused_once_and_others_are_not(world: BrokerWorld) -> None:
    told = outcomes(world, ("orders", 2), ("bills", 2), ("orders", 3))

    assert told["orders"] == (ErrorCode.invalid_request, "Duplicate topic in request.")
    assert told["bills"][0] is ErrorCode.unknown_topic_or_partition
    assert list(partitions_of(world, "orders")) == [0]


def test_a_topic_queued_for_deletion_gets_no_partitions(world: BrokerWorld) -> None:
    world.session.write(Create(DeleteTopicZnode.path("orders")))

    assert outcomes(world, ("orders", 2)) == {
        "orders": (ErrorCode.invalid_topic_exception, "The topic is queued for deletion.")
    }


def test_a_topic_under_reassignment_gets_no_partitions(world: BrokerWorld) -> None:
    write_topic(world, "moving", ReplicaAssignment((3, 1), (3,), (1,)))

    assert outcomes(world, ("moving", 2)) == {
        "moving": (
            ErrorCode.reassignment_in_progress,
            "A partition reassignment is in progress for the topic 'moving'.",
        )
    }


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        (("none", 2), ErrorCode.unknown_topic_or_partition, "The topic 'none' does not exist."),
        (("a/b", 2), ErrorCode.unknown_topic_or_partition, "The topic 'a/b' does not exist."),
        (("", 2), ErrorCode.unknown_topic_or_partition, "The topic '' does not exist."),
        (
            ("orders", 0),
            ErrorCode.invalid_partitions,
            "Topic currently has 1 partitions, which is higher than the requested 0.",
        ),
        (("orders", 1), ErrorCode.invalid_partitions, "Topic already has 1 partitions."),
        (
            ("orders", 2**31 - 1),
            ErrorCode.invalid_partitions,
            "A topic cannot have more than 100000 partitions.",
        ),
        (
            ("orders", 2, ((1, 8),)),
            ErrorCode.invalid_replica_assignment,
            "Unknown broker(s) in replica assignment: 8.",
        ),
        (
            ("orders", 3, ((1, 2),)),
            ErrorCode.invalid_replica_assignment,
            "Increasing the number of partitions by 2 but 1 assignments provided.",
        ),
        (
            ("orders", 2, ((),)),
            ErrorCode.invalid_replica_assignment,
            "Cannot have replication factor of 0 for partition id 1.",
        ),
        (
            ("orders", 2, ((1, 1),)),
            ErrorCode.invalid_replica_assignment,
            "Duplicate brokers not allowed in replica assignment: 1, 1 for partition id 1.",
        ),
        (
            ("orders", 3, ((1, 2), (1,))),
            ErrorCode.invalid_replica_assignment,
            "Inconsistent replication factor between partitions, partition 0 has 2 while "
            "partitions [2] have replication factors [1], respectively.",
        ),
    ],
)
def test_partitions_that_cannot_be_are_refused_with_kafkas_code(
    world: BrokerWorld, topic: Any, error: ErrorCode, message: str
) -> None:
    assert outcomes(world, topic) == {topic[0]: (error, message)}
    assert list(partitions_of(world, "orders")) == [0]


def test_more_replicas_than_brokers_are_refused(world: BrokerWorld) -> None:
    write_topic(world, "wide", (1, 2, 3, 4))

    assert outcomes(world, ("wide", 2)) == {
        "wide": (
            ErrorCode.invalid_replication_factor,
            "Replication factor: 4 larger than available brokers: 3.",
        )
    }


def test_a_topic_without_partition_0_is_an_error_of_the_server(world: BrokerWorld) -> None:
    data = TopicZnode(None, {1: ReplicaAssignment((1,))}).encode()
    world.session.write(Create(TopicZnode.path("odd"), data))

    assert outcomes(world, ("odd", 3)) == {"odd": (ErrorCode.unknown_server_error, None)}


def test_brokers_of_which_only_some_have_a_rack_get_no_replicas(world: BrokerWorld) -> None:
    register(world, 4, rack="r")

    assert outcomes(world, ("orders", 2)) == {"orders": (ErrorCode.unknown_server_error, None)}


def test_a_topic_that_changed_meanwhile_keeps_the_change(world: BrokerWorld) -> None:
    """Kafka writes whatever the version, and the move that has just begun is lost."""
    path = TopicZnode.path("orders")
    moved = TopicZnode(ORDERS_ID, {0: ReplicaAssignment((3, 1))}).encode()
    perform, others = world.session.perform, [SetData(path, moved)]

    def raced(asked: Any, session_id: int | None = None) -> Any:
        operations = getattr(asked, "operations", ())
        if others and any(isinstance(each, SetData) and each.path == path for each in operations):
            perform(UnfencedBatch([others.pop()]))
        return perform(asked, session_id)

    world.session.perform = raced  # type: ignore[method-assign, assignment]

    outcomes(world, ("orders", 2))

    partitions = partitions_of(world, "orders")
    assert not others
    assert partitions[0] == (3, 1)
    assert sorted(partitions) == [0, 1]


def test_racks_take_turns(world: BrokerWorld) -> None:
    """As Kafka 3.9.1's ``AdminUtils`` computes it."""
    for broker_id, rack in ((1, "a"), (2, "a"), (3, "b")):
        data = BrokerIdZnode(broker(broker_id, rack=rack), 0).encode()
        world.session.write(SetData(BrokerIdZnode.path(broker_id), data))

    outcomes(world, ("orders", 7))

    assert list(partitions_of(world, "orders").values())[1:] == [
        (2, 3),
        (1, 3),
        (3, 2),
        (2, 3),
        (1, 3),
        (3, 2),
    ]
