"""What a broker remembers of UpdateMetadata."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from kafka_common.model import TopicPartition
from replica_manager.replication.zk_metadata_cache import MetadataUpdate, TopicMetadata
from tests.support.broker_world import ORDERS_ID, BrokerWorld, broker, metadata
from tests.support.steps import completed
from zkcontroller.state_changes.record import Kind


@pytest.fixture
def world(executor: ThreadPoolExecutor) -> Iterator[BrokerWorld]:
    world = BrokerWorld(executor)
    yield world
    world.check_records()


def test_live_brokers_are_replaced_and_partitions_are_merged(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(1)}}, brokers=[broker(1), broker(2)])
    world.update({"orders": {1: metadata(2)}, "bills": {0: metadata(2)}}, brokers=[broker(2)])

    snapshot = world.cache.snapshot
    assert list(snapshot.live_brokers) == [2]
    assert set(snapshot.partitions) == {"orders", "bills"}
    assert set(snapshot.partitions["orders"]) == {0, 1}


def test_an_update_replaces_the_snapshot_and_leaves_the_old_one_alone(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(1)}})
    before = world.cache.snapshot

    world.update({"orders": {0: metadata(2), 1: metadata(2)}})

    assert before.partition("orders", 0) == metadata(1)
    assert before.partition("orders", 1) is None
    assert world.cache.snapshot.partition("orders", 0) == metadata(2)


def test_an_update_without_partitions_only_refreshes_brokers_and_controller(
    world: BrokerWorld,
) -> None:
    world.update({"orders": {0: metadata(1)}})
    world.records.clear()

    world.update({}, brokers=[broker(3)], controller_id=3)

    assert world.cache.snapshot.controller_id == 3
    assert list(world.cache.snapshot.live_brokers) == [3]
    assert world.cache.snapshot.partition("orders", 0) == metadata(1)
    assert world.records == []


def test_a_leader_of_minus_two_removes_the_partition_and_the_last_one_its_topic(
    world: BrokerWorld,
) -> None:
    world.update({"orders": {0: metadata(1), 1: metadata(2)}}, topic_ids={"orders": ORDERS_ID})

    world.update({"orders": {0: metadata(-2)}}, topic_ids={"orders": ORDERS_ID})
    assert set(world.cache.snapshot.partitions["orders"]) == {1}
    assert world.cache.snapshot.topic_ids == {"orders": ORDERS_ID}

    world.update({"orders": {1: metadata(-2)}}, topic_ids={"orders": ORDERS_ID})
    assert world.cache.snapshot.partitions == {}
    assert world.cache.snapshot.topic_ids == {}
    assert world.cache.snapshot.topic_names == {}


def test_a_partition_without_a_leader_is_cached_as_it_is(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(-1)}})

    assert world.cache.snapshot.partition("orders", 0) == metadata(-1)


def test_topic_ids_are_merged_and_a_topic_sent_without_one_loses_it(world: BrokerWorld) -> None:
    other = UUID(int=9)
    world.update(
        {"orders": {0: metadata(1)}, "bills": {0: metadata(1)}},
        topic_ids={"orders": ORDERS_ID, "bills": other},
    )

    world.update({"orders": {0: metadata(1)}})

    assert world.cache.snapshot.topic_ids == {"bills": other}
    assert world.cache.snapshot.topic_names == {other: "bills"}


def test_a_negative_controller_id_is_no_controller(world: BrokerWorld) -> None:
    world.update({}, controller_id=-1)

    assert world.cache.snapshot.controller_id is None


def test_what_was_cached_and_deleted_is_logged_once_per_request(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(1), 1: metadata(1)}, "gone": {0: metadata(-2)}})

    [record] = world.records
    assert record.kind is Kind.METADATA_CACHED
    assert (record.count, record.other_count) == (2, 1)
    assert (record.controller_id, record.controller_epoch) == (1, 1)


def test_every_partition_is_logged_where_kafka_traces(world: BrokerWorld) -> None:
    world.is_tracing = True

    world.update({"orders": {0: metadata(1), 1: metadata(-2)}})

    assert world.kinds() == [
        Kind.METADATA_CACHED_PARTITION,
        Kind.METADATA_DELETED_PARTITION,
        Kind.METADATA_CACHED,
    ]


def test_an_older_controller_is_refused_and_changes_nothing(world: BrokerWorld) -> None:
    world.update({"orders": {0: metadata(1)}}, controller_epoch=5)

    error = world.update({"orders": {0: metadata(2)}}, controller_epoch=4)

    assert error is ErrorCode.stale_controller_epoch
    assert world.cache.snapshot.partition("orders", 0) == metadata(1)
    ignored = world.records[-1]
    assert ignored.kind is Kind.UPDATE_METADATA_IGNORED
    assert (ignored.controller_epoch, ignored.latest_controller_epoch) == (4, 5)


def test_brokers_with_different_listeners_are_complained_about(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        world.update({}, brokers=[broker(1), broker(2, "PLAINTEXT", "EXTRA")])

    assert "Listeners are not identical across brokers" in caplog.text


def test_a_full_update_of_a_kraft_controller_is_complained_about_in_the_state_change_log(
    world: BrokerWorld, caplog: pytest.LogCaptureFixture
) -> None:
    full = MetadataUpdate(8, 1, 1, -1, [], [broker(1)], is_kraft_controller=True, update_type=2)

    with caplog.at_level(logging.ERROR):
        completed(world.cache.update(full, 1, trace=False))

    (record,) = caplog.records
    assert record.name == "state.change.logger"
    assert record.getMessage().startswith(
        "[Broker id=1] Received UpdateMetadataRequest with Type=FULL (2), but ZK migrations"
    )


def test_deleted_partitions_are_reported_unless_they_come_back_in_the_same_request(
    world: BrokerWorld,
) -> None:

    deleted, _ = completed(
        world.cache.update(
            MetadataUpdate(
                api_version=8,
                controller_id=1,
                controller_epoch=1,
                broker_epoch=-1,
                topics=[
                    TopicMetadata(
                        "orders", None, [(0, metadata(-2)), (1, metadata(-2)), (1, metadata(3))]
                    )
                ],
                live_brokers=[broker(1)],
            ),
            1,
            trace=False,
        )
    )

    assert deleted == [TopicPartition("orders", 0)]
    assert set(world.cache.snapshot.partitions["orders"]) == {1}
