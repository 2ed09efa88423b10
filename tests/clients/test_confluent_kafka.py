"""confluent-kafka, a current librdkafka: producing, consuming, and asking for offsets."""

from __future__ import annotations

import time
from collections import defaultdict
from typing import Any

import pytest

from tests.clients.confluent import TIMEOUT_S, confluent, consumer_of, start_of
from tests.clients.conftest import NewTopicName
from tests.integration.broker_processes import admin_client
from zkcontroller_testing import KafkaCluster

admin_module: Any = pytest.importorskip("confluent_kafka.admin")

pytestmark = pytest.mark.integration


def produce(
    cluster: KafkaCluster, topic: str, count: int, partitions: int = 3, **settings: Any
) -> dict[int, list[tuple[int, bytes]]]:
    """What was acknowledged: offset and value, by partition."""
    acknowledged: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
    failures: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(error)
        else:
            acknowledged[message.partition()].append((message.offset(), message.value()))

    producer = confluent.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "linger.ms": 5, **settings}
    )
    for number in range(count):
        producer.produce(
            topic,
            b"value %d" % number,
            b"key %d" % number,
            partition=number % partitions,
            headers=[("source", b"test")],
            on_delivery=delivered,
        )
    assert producer.flush(TIMEOUT_S) == 0
    assert failures == []
    return dict(acknowledged)


def bounds(consumer: Any, topic: str) -> tuple[int, int]:
    """Where partition 0 begins and ends."""
    found: tuple[int, int] = consumer.get_watermark_offsets(
        confluent.TopicPartition(topic, 0), TIMEOUT_S
    )
    return found


def consume(consumer: Any, count: int) -> dict[int, list[tuple[int, bytes]]]:
    """The next messages: offset and value, by partition."""
    read: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)
    deadline = time.monotonic() + TIMEOUT_S
    for _ in range(count):
        message = consumer.poll(deadline - time.monotonic())
        assert message is not None, f"only {sum(map(len, read.values()))} of {count}"
        assert message.error() is None, message.error()
        assert message.headers() == [("source", b"test")]
        read[message.partition()].append((message.offset(), message.value()))
    return dict(read)


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_an_idempotent_producer_writes_everything_once_and_in_order(
    cluster: KafkaCluster, new_topic: NewTopicName, codec: str
) -> None:
    topic = new_topic()
    settings: dict[str, Any] = {"enable.idempotence": True, "compression.type": codec}
    acknowledged = produce(cluster, topic, 600, **settings)
    consumer = consumer_of(cluster)
    try:
        consumer.assign(
            [confluent.TopicPartition(topic, each, confluent.OFFSET_BEGINNING) for each in range(3)]
        )
        read = consume(consumer, 600)
    finally:
        consumer.close()

    assert read == acknowledged
    assert {p: [offset for offset, _ in those] for p, those in read.items()} == {
        partition: list(range(200)) for partition in range(3)
    }


@pytest.mark.parametrize("acks", ["0", "1"])
def test_a_producer_may_wait_for_less(
    cluster: KafkaCluster, new_topic: NewTopicName, acks: str
) -> None:
    topic = new_topic(1)
    consumer = consumer_of(cluster)
    try:
        # A broker that does not lead yet refuses records, and with acks=0 none is sent again.
        assert bounds(consumer, topic) == (0, 0)
        produce(cluster, topic, 100, 1, acks=acks)
        consumer.assign([start_of(topic, 0)])
        read = consume(consumer, 100)
    finally:
        consumer.close()

    assert read == {0: [(number, b"value %d" % number) for number in range(100)]}


def test_who_reads_committed_records_sees_what_has_no_transaction(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    written = produce(cluster, topic, 50, 1)
    consumer = consumer_of(cluster, **{"isolation.level": "read_committed"})
    try:
        consumer.assign([start_of(topic, 0)])
        assert consume(consumer, 50) == written
    finally:
        consumer.close()


def test_offsets_are_reported_by_place_and_by_time(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    empty = new_topic(1)
    admin = admin_client(cluster.bootstrap_servers)
    consumer = consumer_of(cluster)
    before_ms = time.time_ns() // 1_000_000
    produce(cluster, topic, 30, 1)

    def listed(name: str, spec: Any, **options: Any) -> tuple[int, int]:
        [found] = admin.list_offsets({confluent.TopicPartition(name, 0): spec}, **options).values()
        result = found.result(TIMEOUT_S)
        return result.offset, result.timestamp

    def by_time(timestamp: int) -> int:
        [found] = consumer.offsets_for_times(
            [confluent.TopicPartition(topic, 0, timestamp)], timeout=TIMEOUT_S
        )
        assert found.error is None
        return int(found.offset)

    try:
        assert bounds(consumer, topic) == (
            0,
            30,
        )
        assert bounds(consumer, empty) == (
            0,
            0,
        )
        assert listed(topic, admin_module.OffsetSpec.earliest())[0] == 0
        assert listed(topic, admin_module.OffsetSpec.latest())[0] == 30
        committed = confluent.IsolationLevel.READ_COMMITTED
        assert listed(topic, admin_module.OffsetSpec.latest(), isolation_level=committed)[0] == 30
        offset, timestamp = listed(topic, admin_module.OffsetSpec.max_timestamp())
        assert 0 <= offset < 30
        assert timestamp >= before_ms
        assert listed(topic, admin_module.OffsetSpec.for_timestamp(before_ms))[0] == 0
        assert listed(empty, admin_module.OffsetSpec.max_timestamp()) == (-1, -1)
        assert by_time(before_ms) == 0
        assert by_time(timestamp + 1) == -1  # librdkafka's word for the end
    finally:
        consumer.close()


def test_deleted_records_are_gone_on_every_replica(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(1)
    written = produce(cluster, topic, 40, 1)
    admin = admin_client(cluster.bootstrap_servers)
    consumer = consumer_of(cluster, **{"auto.offset.reset": "earliest"})

    [deleted] = admin.delete_records([confluent.TopicPartition(topic, 0, 15)]).values()
    assert deleted.result(TIMEOUT_S).low_watermark == 15

    try:
        assert bounds(consumer, topic) == (
            15,
            40,
        )
        consumer.assign([start_of(topic, 0)])
        assert consume(consumer, 25) == {0: written[0][15:]}
    finally:
        consumer.close()
    [refused] = admin.delete_records([confluent.TopicPartition(topic, 0, 41)]).values()
    with pytest.raises(confluent.KafkaException) as failure:
        refused.result(TIMEOUT_S)
    assert failure.value.args[0].code() == confluent.KafkaError.OFFSET_OUT_OF_RANGE
