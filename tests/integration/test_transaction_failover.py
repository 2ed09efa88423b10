"""Transactions while coordinators are killed: what was committed is there, and nothing else."""

from __future__ import annotations

import time
from typing import Any, Final

import pytest

from tests.integration.broker_processes import wait_for
from tests.integration.coordinators import OF_TRANSACTION, coordinator_of
from tests.support.confluent_calls import unless_retriable
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")

ID: Final = "ledger"
TOPIC: Final = "orders"
ROUNDS: Final = 12
KILLED_AT: Final = (3, 8)
TIMEOUT_S: Final = 60


@pytest.fixture
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """Three brokers, one of which will be killed."""
    return kafka_cluster_factory(3, zookeeper=zookeeper_connect)


def finish(end: Any) -> None:
    """Ends a transaction, however often it takes."""
    wait_for(lambda: unless_retriable(lambda: end(10) or True), "the end of a transaction")


def read(cluster: KafkaCluster, count: int) -> list[bytes]:
    """What is committed: ``count`` values, and no more."""
    consumer = confluent.Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "nobody",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
        }
    )
    values: list[bytes] = []
    try:
        consumer.assign(
            [confluent.TopicPartition(TOPIC, each, confluent.OFFSET_BEGINNING) for each in range(3)]
        )
        deadline = time.monotonic() + TIMEOUT_S
        while len(values) < count and time.monotonic() < deadline:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                values.append(message.value())
        further = consumer.poll(3)
        assert further is None, further.value()
    finally:
        consumer.close()
    return sorted(values)


@pytest.mark.timeout(300)
def test_transactions_outlive_coordinators_that_are_killed(cluster: KafkaCluster) -> None:
    cluster.create_topic(TOPIC, 3)
    producer = confluent.Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "transactional.id": ID, "linger.ms": 0}
    )
    producer.init_transactions(TIMEOUT_S)
    committed: list[bytes] = []
    dead: int | None = None
    for number in range(ROUNDS):
        commits = number % 3 != 2
        values = [b"%d-%d" % (number, partition) for partition in range(3)]
        producer.begin_transaction()
        for partition, value in enumerate(values):
            producer.produce(TOPIC, value, partition=partition)
        assert producer.flush(TIMEOUT_S) == 0
        if number in KILLED_AT:
            # In the middle of a transaction; the one killed before is back by then.
            if dead is not None:
                cluster.start(dead)
            dead = coordinator_of(cluster, OF_TRANSACTION, ID)
            cluster.kill(dead)
        finish(producer.commit_transaction if commits else producer.abort_transaction)
        if commits:
            committed += values
    assert dead is not None
    assert coordinator_of(cluster, OF_TRANSACTION, ID, but=dead) != dead

    assert read(cluster, len(committed)) == sorted(committed)
