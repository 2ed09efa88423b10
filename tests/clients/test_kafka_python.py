"""kafka-python: the client written in Python, with its own view of the protocol."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.clients.conftest import NewTopicName
from tests.integration.broker_processes import wait_for
from zkcontroller_testing import KafkaCluster

kafka: Any = pytest.importorskip("kafka")

pytestmark = pytest.mark.integration

TIMEOUT_MS = 30_000


def produce(cluster: KafkaCluster, topic: str, values: list[bytes], **settings: Any) -> list[int]:
    """The offsets in partition 0, in the order of the values."""
    producer = kafka.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, acks="all", linger_ms=5, **settings
    )
    try:
        sent = [producer.send(topic, value, partition=0) for value in values]
        return [each.get(TIMEOUT_MS / 1000).offset for each in sent]
    finally:
        producer.close(10)


def read(consumer: Any, count: int) -> list[tuple[int, bytes]]:
    """The next records of all partitions."""
    # A poll of kafka-python 3.0 whose time is over between the answers to JoinGroup and SyncGroup
    # forgets its assignment and its heartbeats for good; so a poll takes as long as it needs.
    records: list[tuple[int, bytes]] = []

    def is_enough() -> bool:
        for some in consumer.poll(timeout_ms=TIMEOUT_MS).values():
            records.extend((record.offset, record.value) for record in some)
        return len(records) >= count

    wait_for(is_enough, f"{count} records")
    return records


@pytest.mark.parametrize("codec", [None, "gzip"])
@pytest.mark.parametrize("is_idempotent", [False, True])
def test_records_come_back_as_they_went(
    cluster: KafkaCluster, new_topic: NewTopicName, codec: str | None, *, is_idempotent: bool
) -> None:
    topic = new_topic(1)
    values = [b"value %d" % number for number in range(200)]

    offsets = produce(
        cluster, topic, values, compression_type=codec, enable_idempotence=is_idempotent
    )

    assert offsets == list(range(200))
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    )
    try:
        consumer.assign([kafka.TopicPartition(topic, 0)])
        assert read(consumer, 200) == list(enumerate(values))
    finally:
        consumer.close()


def test_offsets_are_reported_by_place_and_by_time(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    tp = kafka.TopicPartition(topic, 0)
    before_ms = time.time_ns() // 1_000_000
    produce(cluster, topic, [b"a", b"b", b"c"])
    consumer = kafka.KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        assert consumer.beginning_offsets([tp]) == {tp: 0}
        assert consumer.end_offsets([tp]) == {tp: 3}
        found = consumer.offsets_for_times({tp: before_ms})[tp]
        assert found.offset == 0
        assert found.timestamp >= before_ms
        assert consumer.offsets_for_times({tp: found.timestamp + 600_000}) == {tp: None}
    finally:
        consumer.close()


def test_a_group_goes_on_where_it_has_committed(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    group = f"group-of-{topic}"

    def consumer() -> Any:
        return kafka.KafkaConsumer(
            topic,
            bootstrap_servers=cluster.bootstrap_servers,
            group_id=group,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            heartbeat_interval_ms=200,
            session_timeout_ms=6000,
        )

    produce(cluster, topic, [b"one", b"two"])
    first = consumer()
    try:
        assert read(first, 2) == [(0, b"one"), (1, b"two")]
        first.commit()
    finally:
        first.close()
    produce(cluster, topic, [b"three"])
    second = consumer()
    try:
        assert read(second, 1) == [(2, b"three")]
        assert second.committed(kafka.TopicPartition(topic, 0)) == 2
    finally:
        second.close()
