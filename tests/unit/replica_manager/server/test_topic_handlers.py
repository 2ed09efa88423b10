"""CreateTopics and DeleteTopics: every check in Kafka's order, and the wait for the metadata."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from tests.support.broker_world import ORDERS_ID, BrokerWorld, broker, metadata
from zkcontroller.zookeeper.requests import Create, Delete
from zkcontroller.zookeeper.znodes import ConfigZnode, ControllerZnode, DeleteTopicZnode, TopicZnode

LONG_MS = 20_000


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
    world.session.write(Create(TopicZnode.path("orders"), b"{}"))
    return world


def create_request(
    *topics: dict[str, Any], version: int = 7, timeout_ms: int = 0, validate_only: bool = False
) -> Any:
    schema: Any = import_module(f"kio.schema.create_topics.v{version}.request")
    options = {"validate_only": validate_only} if version >= 1 else {}
    return schema.CreateTopicsRequest(
        topics=tuple(
            schema.CreatableTopic(
                name=topic["name"],
                num_partitions=topic.get("partitions", -1),
                replication_factor=topic.get("factor", -1),
                assignments=tuple(
                    schema.CreatableReplicaAssignment(partition_index=p, broker_ids=replicas)
                    for p, replicas in topic.get("assignment", ())
                ),
                configs=tuple(
                    schema.CreatableTopicConfig(name=key, value=value)
                    for key, value in topic.get("configs", {}).items()
                ),
            )
            for topic in topics
        ),
        timeout=timedelta(milliseconds=timeout_ms),
        **options,
    )


def created(world: BrokerWorld, *topics: dict[str, Any], **options: Any) -> Any:
    return asyncio.run(world.ask(create_request(*topics, **options))).topics


def outcome(world: BrokerWorld, topic: dict[str, Any]) -> tuple[ErrorCode, str | None]:
    """What a topic comes to; a time-out of 0 ms makes a created one REQUEST_TIMED_OUT."""
    [result] = created(world, topic)
    return result.error_code, result.error_message


async def lead(world: BrokerWorld, topic: str) -> None:
    """What the controller does: gives every partition in the topic's znode a leader."""
    while (znode := world.znode(TopicZnode.path(topic))) is None:
        await asyncio.sleep(0)
    partitions = TopicZnode.decode(topic, znode.data).partitions
    world.update({topic: {p: metadata(a.replicas[0]) for p, a in partitions.items()}})


@pytest.mark.parametrize("version", range(8))
async def test_a_topic_is_created_and_answered_when_its_partitions_have_leaders(
    world: BrokerWorld, version: int
) -> None:
    asking = asyncio.ensure_future(
        world.ask(
            create_request(
                {"name": "bills", "partitions": 3, "factor": 2},
                version=version,
                timeout_ms=LONG_MS,
            )
        )
    )
    await lead(world, "bills")
    [result] = (await asking).topics

    assert (result.name, result.error_code) == ("bills", ErrorCode.none)
    znode = world.znode(TopicZnode.path("bills"))
    assert znode is not None
    topic = TopicZnode.decode("bills", znode.data)
    assert len(topic.partitions) == 3
    assert all(len(a.replicas) == 2 for a in topic.partitions.values())
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 2)
    if version >= 7:
        assert result.topic_id == topic.topic_id is not None


def test_the_configuration_is_written_even_if_empty_and_returned(world: BrokerWorld) -> None:
    created(world, {"name": "plain"}, {"name": "set", "configs": {"retention.ms": "5"}})

    plain, given = (world.znode(ConfigZnode.topic_path(name)) for name in ("plain", "set"))
    assert plain is not None
    assert given is not None
    assert plain.data == b'{"version":1,"config":{}}'
    assert given.data == b'{"version":1,"config":{"retention.ms":"5"}}'


def test_the_answer_has_every_configuration_with_its_source(world: BrokerWorld) -> None:
    [result] = created(
        world, {"name": "bills", "configs": {"retention.ms": "5"}}, validate_only=True
    )

    configs = {entry.name: (entry.value, entry.config_source) for entry in result.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["cleanup.policy"] == ("delete", 5)
    assert len(configs) == 36


def test_counts_left_open_are_the_brokers_defaults(executor: ThreadPoolExecutor) -> None:
    world = BrokerWorld(executor, num__partitions="4", default__replication__factor="2")
    world.update({})

    [result] = created(world, {"name": "bills"}, validate_only=True)

    assert (result.num_partitions, result.replication_factor) == (4, 2)


def test_below_protocol_2_8_topics_have_no_id(executor: ThreadPoolExecutor) -> None:
    world = BrokerWorld(executor, inter__broker__protocol__version="2.7")
    world.update({})

    created(world, {"name": "bills"})

    znode = world.znode(TopicZnode.path("bills"))
    assert znode is not None
    assert TopicZnode.decode("bills", znode.data).topic_id is None


def test_without_leaders_in_time_the_topic_exists_but_timed_out(world: BrokerWorld) -> None:
    [result] = created(world, {"name": "bills"}, timeout_ms=30)

    assert result.error_code is ErrorCode.request_timed_out
    znode = world.znode(TopicZnode.path("bills"))
    assert znode is not None
    assert result.topic_id == TopicZnode.decode("bills", znode.data).topic_id


def test_without_a_time_to_wait_the_answer_is_a_time_out_at_once(world: BrokerWorld) -> None:
    [result] = created(world, {"name": "bills"}, timeout_ms=-1)

    assert result.error_code is ErrorCode.request_timed_out


def test_validate_only_writes_nothing_and_succeeds(world: BrokerWorld) -> None:
    [result] = created(world, {"name": "bills"}, validate_only=True)

    assert result.error_code is ErrorCode.none
    assert world.znode(TopicZnode.path("bills")) is None
    assert world.znode(ConfigZnode.topic_path("bills")) is None


def test_who_is_not_the_controller_says_so_for_each_topic(world: BrokerWorld) -> None:
    world.controller.is_active = False

    results = created(world, {"name": "a"}, {"name": "b"})

    assert [(r.name, r.error_code) for r in results] == [
        ("a", ErrorCode.not_controller),
        ("b", ErrorCode.not_controller),
    ]


def test_a_topic_named_twice_is_refused_and_others_are_not(world: BrokerWorld) -> None:
    results = created(world, {"name": "a"}, {"name": "b"}, {"name": "a"}, validate_only=True)

    assert [(r.name, r.error_code) for r in results] == [
        ("a", ErrorCode.invalid_request),
        ("b", ErrorCode.none),
        ("a", ErrorCode.invalid_request),
    ]


@pytest.mark.parametrize(
    ("topic", "error", "message"),
    [
        ({"name": "__cluster_metadata"}, ErrorCode.invalid_request, "prohibited"),
        ({"name": "orders"}, ErrorCode.topic_already_exists, "Topic 'orders' already exists."),
        (
            {"name": "a", "configs": {"retention.ms": None}},
            ErrorCode.invalid_config,
            "Null value not supported for topic configs: retention.ms",
        ),
        (
            {"name": "a", "partitions": 1, "assignment": [(0, (1,))]},
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor",
        ),
        ({"name": "a", "partitions": 0}, ErrorCode.invalid_partitions, "larger than 0"),
        (
            {"name": "a", "partitions": 2**31 - 1},
            ErrorCode.invalid_partitions,
            "A topic cannot have more than 100000 partitions.",
        ),
        ({"name": "a", "factor": 0}, ErrorCode.invalid_replication_factor, "larger than 0"),
        (
            {"name": "a", "factor": 4},
            ErrorCode.invalid_replication_factor,
            "Replication factor: 4 larger than available brokers: 3.",
        ),
        ({"name": ""}, ErrorCode.invalid_topic_exception, "empty string"),
        ({"name": ".."}, ErrorCode.invalid_topic_exception, "'..' is not allowed"),
        ({"name": "a" * 250}, ErrorCode.invalid_topic_exception, "max allowed length 249"),
        ({"name": "a/b"}, ErrorCode.invalid_topic_exception, "ASCII alphanumerics"),
        ({"name": "ä"}, ErrorCode.invalid_topic_exception, "ASCII alphanumerics"),
        (
            {"name": "a", "assignment": [(0, (1, 2)), (1, (1,))]},
            ErrorCode.invalid_replica_assignment,
            "same number of replicas",
        ),
        (
            {"name": "a", "assignment": [(0, (1, 1))]},
            ErrorCode.invalid_replica_assignment,
            "Duplicate replica assignment found: HashMap(0 -> ArrayBuffer(1, 1))",
        ),
        (
            {"name": "a", "assignment": [(1, (1,))]},
            ErrorCode.invalid_replica_assignment,
            "consecutive 0-based",
        ),
        (
            {"name": "a", "assignment": [(0, ())]},
            ErrorCode.invalid_replica_assignment,
            "broker ids",
        ),
        (
            {"name": "a", "assignment": [(0, (-1,))]},
            ErrorCode.invalid_replica_assignment,
            "broker ids",
        ),
        (
            {"name": "a", "configs": {"no.key": "1"}},
            ErrorCode.invalid_config,
            "Unknown topic config name: no.key",
        ),
        (
            {"name": "a", "configs": {"retention.ms": "soon"}},
            ErrorCode.invalid_config,
            "retention.ms",
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_kafkas_code(
    world: BrokerWorld, topic: dict[str, Any], error: ErrorCode, message: str
) -> None:
    code, text = outcome(world, topic)

    assert code is error
    assert text is not None
    assert message in text
    if topic["name"] == "a":
        assert world.znode(TopicZnode.path("a")) is None


def test_an_explicit_assignment_may_name_brokers_that_are_not_there(world: BrokerWorld) -> None:
    code, _ = outcome(world, {"name": "a", "assignment": [(0, (8, 9)), (1, (9, 8))]})

    assert code is ErrorCode.request_timed_out
    znode = world.znode(TopicZnode.path("a"))
    assert znode is not None
    replicas = [a.replicas for a in TopicZnode.decode("a", znode.data).partitions.values()]
    assert replicas == [(8, 9), (9, 8)]


def test_a_topic_in_zookeeper_that_is_not_in_the_cache_exists(world: BrokerWorld) -> None:
    world.session.write(Create(TopicZnode.path("new"), b"{}"))

    assert outcome(world, {"name": "new"})[0] is ErrorCode.topic_already_exists


def test_a_topic_marked_for_deletion_exists_still(world: BrokerWorld) -> None:
    world.session.write(Create(DeleteTopicZnode.path("old")))

    assert outcome(world, {"name": "old"}) == (
        ErrorCode.topic_already_exists,
        "Topic 'old' is marked for deletion.",
    )


def test_names_that_differ_only_in_dot_and_underscore_collide(world: BrokerWorld) -> None:
    world.session.write(Create(TopicZnode.path("my_topic"), b"{}"))

    code, message = outcome(world, {"name": "my.topic"})

    assert code is ErrorCode.invalid_topic_exception
    assert message == "Topic 'my.topic' collides with existing topics: my_topic"


def test_brokers_of_which_only_some_have_a_rack_get_no_replicas(world: BrokerWorld) -> None:
    world.update({}, brokers=[broker(1, rack="a"), broker(2)])

    assert outcome(world, {"name": "a"})[0] is ErrorCode.unknown_server_error


def test_nothing_is_written_without_a_controller_in_zookeeper(world: BrokerWorld) -> None:
    world.session.write(Delete(ControllerZnode.PATH))

    assert outcome(world, {"name": "a"})[0] is ErrorCode.stale_controller_epoch
    assert world.znode(TopicZnode.path("a")) is None


def test_a_name_as_long_as_a_frame_allows_is_answered(world: BrokerWorld) -> None:
    [result] = created(world, {"name": "a" * 32_767}, version=4)

    assert result.error_code is ErrorCode.invalid_topic_exception


def delete_request(*topics: str | UUID, version: int = 6, timeout_ms: int = 0) -> Any:
    schema: Any = import_module(f"kio.schema.delete_topics.v{version}.request")
    timeout = timedelta(milliseconds=timeout_ms)
    if version < 6:
        return schema.DeleteTopicsRequest(topic_names=topics, timeout=timeout)
    named = tuple(
        schema.DeleteTopicState(name=None, topic_id=topic)
        if isinstance(topic, UUID)
        else schema.DeleteTopicState(name=topic, topic_id=None)
        for topic in topics
    )
    return schema.DeleteTopicsRequest(topics=named, timeout=timeout)


def deleted(world: BrokerWorld, *topics: str | UUID, **options: Any) -> dict[Any, ErrorCode]:
    response = asyncio.run(world.ask(delete_request(*topics, **options)))
    return {
        getattr(result, "topic_id", None) or result.name: result.error_code
        for result in response.responses
    }


@pytest.mark.parametrize("version", range(7))
async def test_a_topic_is_marked_and_answered_when_the_cache_has_forgotten_it(
    world: BrokerWorld, version: int
) -> None:
    asking = asyncio.ensure_future(
        world.ask(delete_request("orders", version=version, timeout_ms=LONG_MS))
    )
    while world.znode(DeleteTopicZnode.path("orders")) is None:
        await asyncio.sleep(0)
    world.update({"orders": {0: metadata(-2)}})
    [result] = (await asking).responses

    assert (result.name, result.error_code) == ("orders", ErrorCode.none)


def test_a_topic_is_deleted_by_its_id(world: BrokerWorld) -> None:
    assert deleted(world, ORDERS_ID) == {ORDERS_ID: ErrorCode.request_timed_out}
    assert world.znode(DeleteTopicZnode.path("orders")) is not None


def test_unknown_names_and_ids_are_distinguished(world: BrokerWorld) -> None:
    unknown = UUID(int=4)

    assert deleted(world, "bills", unknown) == {
        "bills": ErrorCode.unknown_topic_or_partition,
        unknown: ErrorCode.unknown_topic_id,
    }


def test_deleting_again_is_no_error(world: BrokerWorld) -> None:
    world.session.write(Create(DeleteTopicZnode.path("orders")))

    assert deleted(world, "orders") == {"orders": ErrorCode.request_timed_out}


def test_a_topic_gone_from_zookeeper_is_unknown(world: BrokerWorld) -> None:
    world.session.write(Delete(TopicZnode.path("orders")))

    assert deleted(world, "orders") == {"orders": ErrorCode.unknown_topic_or_partition}


def test_a_topic_still_cached_in_time_is_timed_out(world: BrokerWorld) -> None:
    assert deleted(world, "orders", timeout_ms=20) == {"orders": ErrorCode.request_timed_out}


def test_only_the_controller_deletes(world: BrokerWorld) -> None:
    world.controller.is_active = False

    assert deleted(world, "orders") == {"orders": ErrorCode.not_controller}
    assert world.znode(DeleteTopicZnode.path("orders")) is None


@pytest.mark.parametrize(
    ("version", "error"),
    [(2, ErrorCode.invalid_request), (3, ErrorCode.topic_deletion_disabled)],
)
def test_deletion_may_be_disabled(
    executor: ThreadPoolExecutor, version: int, error: ErrorCode
) -> None:
    world = BrokerWorld(executor, delete__topic__enable="false")
    world.update({"orders": {0: metadata(1)}})

    assert deleted(world, "orders", version=version) == {"orders": error}


def test_name_and_id_together_are_an_invalid_request(world: BrokerWorld) -> None:
    schema: Any = import_module("kio.schema.delete_topics.v6.request")
    request = schema.DeleteTopicsRequest(
        topics=(schema.DeleteTopicState(name="orders", topic_id=ORDERS_ID),),
        timeout=timedelta(0),
    )

    [result] = asyncio.run(world.ask(request)).responses

    assert result.error_code is ErrorCode.invalid_request


def test_no_request_waits_for_ever_in_the_waiting_list(world: BrokerWorld) -> None:
    created(world, {"name": "bills"}, timeout_ms=10)

    assert len(world.topics.waiters) == 0
