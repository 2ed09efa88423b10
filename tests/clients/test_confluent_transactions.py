"""confluent-kafka with transactions: commits, aborts, zombies, offsets, a coordinator that dies."""

from __future__ import annotations

import time
import uuid
from typing import Any

import pytest

from tests.clients.conftest import NewTopicName
from tests.clients.test_confluent_kafka import TIMEOUT_S, consumer_of, start_of
from tests.integration.broker_processes import Cluster

confluent: Any = pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.integration


def producer_of(cluster: Cluster, transactional_id: str, **settings: Any) -> Any:
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


def read(cluster: Cluster, topic: str, count: int, isolation: str) -> list[bytes]:
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
    cluster: Cluster, new_topic: NewTopicName
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
