"""Metadata requests: every case of Kafka's ``KafkaApis.handleTopicMetadataRequest``."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from replica_manager.coordinators.groups.group_metadata_manager import OFFSETS_TOPIC
from tests.support.broker_world import ORDERS_ID, BrokerWorld, broker, metadata
from zkcontroller.zookeeper.requests import Create
from zkcontroller.zookeeper.znodes import DeleteTopicZnode, TopicZnode


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> BrokerWorld:
    world = BrokerWorld(executor)
    world.update({"orders": {0: metadata(1)}}, topic_ids={"orders": ORDERS_ID})
    return world


def request(version: int, topics: list[str | UUID] | None, **options: bool) -> Any:
    schema: Any = import_module(f"kio.schema.metadata.v{version}.request")
    named = None
    if topics is not None:
        named = tuple(
            schema.MetadataRequestTopic(
                **{"name": None, "topic_id": topic}
                if isinstance(topic, UUID)
                else {"name": topic} | ({"topic_id": None} if version >= 10 else {})
            )
            for topic in topics
        )
    if version >= 8:
        options.setdefault("include_topic_authorized_operations", False)
        if version <= 10:
            options.setdefault("include_cluster_authorized_operations", False)
    return schema.MetadataRequest(topics=named, **options)


def ask(
    world: BrokerWorld, *arguments: Any, listener_name: str = "PLAINTEXT", **options: Any
) -> Any:
    return asyncio.run(world.ask(request(*arguments, **options), listener_name=listener_name))


def errors(response: Any) -> dict[Any, ErrorCode]:
    return {topic.name: topic.error_code for topic in response.topics}


@pytest.mark.parametrize("version", range(13))
def test_every_version_shows_a_topic_with_its_leader(world: BrokerWorld, version: int) -> None:
    response = ask(world, version, ["orders"])

    [topic] = response.topics
    [partition] = topic.partitions
    assert (topic.name, topic.error_code) == ("orders", ErrorCode.none)
    assert (partition.partition_index, partition.leader_id) == (0, 1)
    assert partition.replica_nodes == partition.isr_nodes == (1, 2, 3)
    assert [(b.node_id, b.host, b.port) for b in response.brokers] == [
        (1, "host1", 9092),
        (2, "host2", 9092),
        (3, "host3", 9092),
    ]
    if version >= 1:
        assert response.controller_id == 1
    if version >= 2:
        assert response.cluster_id == "cluster"
    if version >= 10:
        assert topic.topic_id == ORDERS_ID


@pytest.mark.parametrize("version", range(13))
def test_who_asks_for_all_topics_creates_none_and_learns_of_no_unknown_one(
    world: BrokerWorld, version: int
) -> None:
    world.update({OFFSETS_TOPIC: {0: metadata(1)}})
    before = world.session.children("/brokers/topics")
    options: dict[str, Any] = {"allow_auto_topic_creation": True} if version >= 4 else {}

    response = ask(world, version, None if version else [], **options)

    assert errors(response) == {"orders": ErrorCode.none, OFFSETS_TOPIC: ErrorCode.none}
    assert world.session.children("/brokers/topics") == before == []


def test_an_empty_list_means_no_topics_from_version_1_on(world: BrokerWorld) -> None:
    assert ask(world, 1, []).topics == ()


def test_a_dead_leader_is_not_available_but_its_epoch_is_reported(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(9, leader_epoch=4, offline=(9,))}})

    [topic] = ask(world, 12, ["orders"]).topics
    [partition] = topic.partitions

    assert topic.error_code is ErrorCode.none
    assert partition.error_code is ErrorCode.leader_not_available
    assert (partition.leader_id, partition.leader_epoch) == (-1, 4)
    assert partition.offline_replicas == (9,)


@pytest.mark.parametrize(
    ("version", "error"),
    [(5, ErrorCode.leader_not_available), (6, ErrorCode.listener_not_found)],
)
def test_a_leader_without_the_clients_listener_is_distinguished_from_version_6_on(
    world: BrokerWorld, version: int, error: ErrorCode
) -> None:
    world.update({}, brokers=[broker(1), broker(2, "PLAINTEXT", "CLIENT")])

    response = ask(world, version, ["orders"], listener_name="CLIENT")

    assert response.topics[0].partitions[0].error_code is error
    assert [b.node_id for b in response.brokers] == [2]


def test_version_0_leaves_out_dead_replicas_and_says_so(world: BrokerWorld) -> None:
    world.update({}, brokers=[broker(1), broker(2)])

    partition = ask(world, 0, ["orders"]).topics[0].partitions[0]

    assert partition.error_code is ErrorCode.replica_not_available
    assert partition.replica_nodes == partition.isr_nodes == (1, 2)


def test_later_versions_show_dead_replicas(world: BrokerWorld) -> None:
    world.update({}, brokers=[broker(1), broker(2)])

    partition = ask(world, 1, ["orders"]).topics[0].partitions[0]

    assert partition.error_code is ErrorCode.none
    assert partition.replica_nodes == (1, 2, 3)


def test_the_controller_is_named_even_if_it_is_dead(world: BrokerWorld) -> None:
    world.update({}, controller_id=9)

    assert ask(world, 12, None).controller_id == 9


def test_topics_are_found_by_id_and_an_unknown_id_has_no_name(world: BrokerWorld) -> None:
    unknown = UUID(int=1)

    response = ask(world, 12, [ORDERS_ID, unknown])

    assert errors(response) == {None: ErrorCode.unknown_topic_id, "orders": ErrorCode.none}
    assert response.topics[0].topic_id == unknown


@pytest.mark.parametrize("version", [10, 11])
def test_ids_before_version_12_are_an_invalid_request(world: BrokerWorld, version: int) -> None:
    response = ask(world, version, [ORDERS_ID])

    assert [topic.error_code for topic in response.topics] == [ErrorCode.invalid_request]


def test_an_unknown_topic_is_unknown_if_it_must_not_be_created(world: BrokerWorld) -> None:
    response = ask(world, 12, ["bills", "no/such"], allow_auto_topic_creation=False)

    assert errors(response) == {
        "bills": ErrorCode.unknown_topic_or_partition,
        "no/such": ErrorCode.invalid_topic_exception,
    }
    assert world.znode(TopicZnode.path("bills")) is None


def test_an_unknown_topic_is_created_by_this_broker_controller_or_not(world: BrokerWorld) -> None:
    world.controller.is_active = False

    response = ask(world, 12, ["bills"], allow_auto_topic_creation=True)

    assert errors(response) == {"bills": ErrorCode.leader_not_available}
    znode = world.znode(TopicZnode.path("bills"))
    assert znode is not None
    created = TopicZnode.decode("bills", znode.data)
    assert created.topic_id is not None
    assert len(created.partitions) == 1


def test_versions_that_cannot_forbid_creation_create(world: BrokerWorld) -> None:
    assert errors(ask(world, 1, ["bills"])) == {"bills": ErrorCode.leader_not_available}


def test_nothing_is_created_where_auto_creation_is_off(executor: ThreadPoolExecutor) -> None:
    world = BrokerWorld(executor, auto__create__topics__enable="false")
    world.update({})

    response = ask(world, 12, ["bills"], allow_auto_topic_creation=True)

    assert errors(response) == {"bills": ErrorCode.unknown_topic_or_partition}
    assert world.znode(TopicZnode.path("bills")) is None


def test_a_topic_created_meanwhile_is_no_error(world: BrokerWorld) -> None:
    world.session.write(Create(TopicZnode.path("bills"), b"{}"))

    assert errors(ask(world, 4, ["bills"], allow_auto_topic_creation=True)) == {
        "bills": ErrorCode.leader_not_available
    }


def test_a_topic_being_deleted_is_not_created_again(world: BrokerWorld) -> None:
    world.session.write(Create(DeleteTopicZnode.path("bills")))

    ask(world, 4, ["bills"], allow_auto_topic_creation=True)

    assert world.znode(TopicZnode.path("bills")) is None


def test_an_illegal_name_is_not_created(world: BrokerWorld) -> None:
    assert errors(ask(world, 12, ["a b", ".."], allow_auto_topic_creation=True)) == {
        "a b": ErrorCode.invalid_topic_exception,
        "..": ErrorCode.invalid_topic_exception,
    }


def test_internal_topics_are_created_with_their_own_settings_or_not_at_all(
    world: BrokerWorld,
) -> None:
    world.update({}, brokers=[broker(1)])
    assert errors(ask(world, 12, ["__consumer_offsets"], allow_auto_topic_creation=True)) == {
        "__consumer_offsets": ErrorCode.invalid_replication_factor
    }

    world.update({}, brokers=[broker(1), broker(2), broker(3)])
    response = ask(world, 12, ["__consumer_offsets"], allow_auto_topic_creation=True)

    assert response.topics[0].is_internal
    znode = world.znode(TopicZnode.path("__consumer_offsets"))
    assert znode is not None
    assert len(TopicZnode.decode("__consumer_offsets", znode.data).partitions) == 50


def test_authorized_operations_are_reported_only_if_asked_for(world: BrokerWorld) -> None:
    silent = ask(world, 8, ["orders"])
    asked = ask(
        world,
        8,
        ["orders"],
        include_topic_authorized_operations=True,
        include_cluster_authorized_operations=True,
    )

    assert silent.cluster_authorized_operations == -(2**31)
    assert silent.topics[0].topic_authorized_operations == -(2**31)
    # Bits are the codes of AclOperation.
    assert asked.cluster_authorized_operations == sum(1 << c for c in (5, 7, 8, 9, 10, 11, 12))
    assert asked.topics[0].topic_authorized_operations == sum(
        1 << c for c in (*range(3, 9), 10, 11)
    )


def test_a_topic_named_twice_is_shown_once(world: BrokerWorld) -> None:
    assert len(ask(world, 12, ["orders", "orders"]).topics) == 1


async def test_a_big_answer_lets_others_pass_while_it_is_written(world: BrokerWorld) -> None:
    count = 20_000
    world.update({"big": {partition: metadata(1) for partition in range(count)}})

    first = asyncio.ensure_future(world.ask(request(12, ["big"])))
    await asyncio.sleep(0)  # it has begun
    assert not first.done()
    assert (await world.ask(request(12, ["orders"]))).topics[0].name == "orders"
    assert not first.done()
    assert len((await first).topics[0].partitions) == count
