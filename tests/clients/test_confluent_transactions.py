"""confluent-kafka with transactions: commits, aborts, zombies, offsets, a coordinator that dies."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from tests.clients.confluent import TIMEOUT_S, consumer_of, start_of
from tests.clients.conftest import NewTopicName
from zkcontroller_testing import KafkaCluster

confluent: Any = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.integration


def producer_of(cluster: KafkaCluster, transactional_id: str, **settings: Any) -> Any:
    producer = confluent.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "transactional.id": transactional_id,
            "linger.ms": 5,
            **settings,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    return producer


def new_id() -> str:
    return f"ledger-{uuid.uuid4().hex[:8]}"


def write(producer: Any, topic: str, *values: bytes) -> None:
    for number, value in enumerate(values):
        producer.produce(topic, value, partition=number % 3)
    assert producer.flush(TIMEOUT_S) == 0


def read(cluster: KafkaCluster, topic: str, count: int, isolation: str) -> list[bytes]:
    """The next ``count`` values of all three partitions, and that no more come; sorted."""
    consumer = consumer_of(cluster, **{"isolation.level": isolation})
    values: list[bytes] = []
    try:
        consumer.assign([start_of(topic, partition) for partition in range(3)])
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None:
                assert message.error() is None, message.error()
                values.append(message.value())
        further = consumer.poll(1)
        assert further is None, further.value()
    finally:
        consumer.close()
    return sorted(values)


def test_what_is_committed_is_read_and_what_is_aborted_is_not(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(3)
    producer = producer_of(cluster, new_id())
    producer.begin_transaction()
    write(producer, topic, b"a1", b"a2", b"a3")
    producer.commit_transaction(TIMEOUT_S)
    producer.begin_transaction()
    write(producer, topic, b"b1", b"b2", b"b3")
    producer.abort_transaction(TIMEOUT_S)
    producer.begin_transaction()
    write(producer, topic, b"c1", b"c2", b"c3")
    producer.commit_transaction(TIMEOUT_S)

    committed = [b"a1", b"a2", b"a3", b"c1", b"c2", b"c3"]
    assert read(cluster, topic, 6, "read_committed") == committed
    every = sorted([*committed, b"b1", b"b2", b"b3"])
    assert read(cluster, topic, 9, "read_uncommitted") == every


def test_an_open_transaction_is_not_read_before_it_ends(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(3)
    producer = producer_of(cluster, new_id())
    producer.begin_transaction()
    write(producer, topic, b"a1", b"a2", b"a3")
    assert read(cluster, topic, 0, "read_committed") == []
    assert read(cluster, topic, 3, "read_uncommitted") == [b"a1", b"a2", b"a3"]
    producer.commit_transaction(TIMEOUT_S)
    assert read(cluster, topic, 3, "read_committed") == [b"a1", b"a2", b"a3"]


def test_a_zombie_is_fenced_and_its_transaction_aborted(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic, transactional_id = new_topic(3), new_id()
    zombie = producer_of(cluster, transactional_id)
    zombie.begin_transaction()
    write(zombie, topic, b"zombie")
    successor = producer_of(cluster, transactional_id)
    successor.begin_transaction()
    write(successor, topic, b"successor")
    with pytest.raises(confluent.KafkaException) as refused:
        zombie.commit_transaction(TIMEOUT_S)
    assert refused.value.args[0].code() in (
        confluent.KafkaError._FENCED,
        confluent.KafkaError.PRODUCER_FENCED,
    )
    assert refused.value.args[0].fatal()
    successor.commit_transaction(TIMEOUT_S)

    assert read(cluster, topic, 1, "read_committed") == [b"successor"]
    assert read(cluster, topic, 2, "read_uncommitted") == [b"successor", b"zombie"]


def test_a_transaction_that_takes_too_long_is_aborted(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    topic = new_topic(3)
    producer = producer_of(cluster, new_id(), **{"transaction.timeout.ms": 1_000})
    producer.begin_transaction()
    write(producer, topic, b"late")
    other = producer_of(cluster, new_id())
    other.begin_transaction()
    write(other, topic, b"in time")
    other.commit_transaction(TIMEOUT_S)

    # What comes behind an open transaction is not read before that has ended.
    assert read(cluster, topic, 1, "read_committed") == [b"in time"]
    with pytest.raises(confluent.KafkaException):
        producer.commit_transaction(TIMEOUT_S)


def consume_group(
    cluster: KafkaCluster, topic: str, group: str, count: int
) -> tuple[Any, list[bytes]]:
    consumer = consumer_of(
        cluster,
        **{
            "group.id": group,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        },
    )
    consumer.subscribe([topic])
    values: list[bytes] = []
    deadline = time.monotonic() + TIMEOUT_S
    while len(values) < count and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None, message.error()
            values.append(message.value())
    return consumer, values


def test_offsets_belong_to_the_transaction_that_made_something_of_the_records(
    cluster: KafkaCluster, new_topic: NewTopicName
) -> None:
    source, target, group = new_topic(1), new_topic(3), new_id()
    plain = producer_of(cluster, new_id())
    plain.begin_transaction()
    for number in range(4):
        plain.produce(source, b"%d" % number, partition=0)
    plain.commit_transaction(TIMEOUT_S)

    def committed() -> int:
        asked = [confluent.TopicPartition(source, 0)]
        [found] = consumer.committed(asked, timeout=TIMEOUT_S)
        return int(found.offset)

    producer = producer_of(cluster, new_id())
    consumer, values = consume_group(cluster, source, group, 4)
    try:
        assert values == [b"0", b"1", b"2", b"3"]
        for take, commits in ((2, False), (3, True)):
            producer.begin_transaction()
            write(producer, target, *(b"of " + value for value in values[:take]))
            position = [confluent.TopicPartition(source, 0, take)]
            producer.send_offsets_to_transaction(
                position, consumer.consumer_group_metadata(), TIMEOUT_S
            )
            if commits:
                producer.commit_transaction(TIMEOUT_S)
            else:
                producer.abort_transaction(TIMEOUT_S)
                assert committed() == confluent.OFFSET_INVALID
        assert committed() == 3
    finally:
        consumer.close()
    assert read(cluster, target, 3, "read_committed") == [b"of 0", b"of 1", b"of 2"]
    # The next member of the group goes on where the transaction has left off.
    following, values = consume_group(cluster, source, group, 1)
    try:
        assert values == [b"3"]
    finally:
        following.close()
