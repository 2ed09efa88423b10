"""Real clients on brokers that offer older versions than they could."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import pytest

from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.waiting import until

pytestmark = pytest.mark.kit
confluent_kafka: Any = import_module("confluent_kafka")
kafka_python: Any = pytest.importorskip("kafka")

OLD: Final = {"Produce": (3, 5), "Fetch": (4, 7), "Metadata": (0, 4), "ListOffsets": (1, 2)}
"""What Kafka 1.1 offered, so far as clients of today still know it."""


@pytest.fixture
def old_cluster(cluster: KafkaCluster, topic: str) -> KafkaCluster:
    assert topic
    for api, (least, most) in OLD.items():
        cluster.offer_versions(api, least, most)
    return cluster


def written_and_read_by_librdkafka(cluster: KafkaCluster, topic: str) -> bytes:
    producer = confluent_kafka.Producer(cluster.client_config())
    producer.produce(topic, b"from librdkafka")
    assert producer.flush(20) == 0
    consumer = confluent_kafka.Consumer({**cluster.client_config(), "group.id": "old"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = until(lambda: consumer.poll(1), lambda: "a record")
    consumer.close()
    value = message.value()
    assert isinstance(value, bytes)
    return value


def written_and_read_by_kafka_python(cluster: KafkaCluster, topic: str) -> bytes:
    producer = kafka_python.KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers, enable_idempotence=False
    )
    producer.send(topic, b"from kafka-python", partition=0).get(20)
    producer.close(20)
    consumer = kafka_python.KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", group_id=None
    )
    consumer.assign([kafka_python.TopicPartition(topic, 0)])
    found = until(lambda: consumer.poll(1_000) or None, lambda: "a record")
    consumer.close()
    [[record]] = found.values()
    value = record.value
    assert isinstance(value, bytes)
    return value


@pytest.mark.parametrize(
    "client", [written_and_read_by_librdkafka, written_and_read_by_kafka_python]
)
def test_a_client_speaks_what_an_old_broker_offers(
    old_cluster: KafkaCluster, topic: str, client: Any
) -> None:
    value = client(old_cluster, topic)

    assert value.startswith(b"from ")
    for api, (least, most) in OLD.items():
        used = old_cluster.versions_used(api)
        # librdkafka, which is given an offset, asks for no other.
        assert used or api == "ListOffsets", api
        assert used <= set(range(least, most + 1)), api


def test_a_client_speaks_newer_versions_where_they_are_offered(
    cluster: KafkaCluster, topic: str
) -> None:
    written_and_read_by_librdkafka(cluster, topic)

    assert max(cluster.versions_used("Fetch")) > OLD["Fetch"][1]
    assert max(cluster.versions_used("Metadata")) > OLD["Metadata"][1]


def test_an_idempotent_producer_says_what_a_broker_without_it_lacks(
    cluster: KafkaCluster, topic: str
) -> None:
    cluster.offer_versions("InitProducerId", 1, 0)
    producer = confluent_kafka.Producer(
        {**cluster.client_config(), "enable.idempotence": True, "log_level": 0}
    )
    producer.produce(topic, b"x")

    with pytest.raises(confluent_kafka.KafkaException, match="_UNSUPPORTED_FEATURE"):
        until(lambda: None if producer.poll(0.1) >= 0 else 1, lambda: "a fatal error")

    assert cluster.versions_used("InitProducerId") == set()
    assert cluster.ledger(topic).read() == {}
