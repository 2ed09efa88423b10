"""Transactions while coordinators are killed: what was committed is there, and nothing else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import pytest

from tests.integration.broker_processes import Cluster, admin_client, cluster_in, wait_for
from tests.integration.coordinators import OF_TRANSACTION, coordinator_of
from tests.support.confluent_calls import unless_retriable

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

ID: Final = "ledger"
TOPIC: Final = "orders"
ROUNDS: Final = 12
KILLED_AT: Final = (3, 8)
TIMEOUT_S: Final = 60


@pytest.fixture
def cluster(
    zookeeper_connect: str, chroot: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers, one of which will be killed."""
    directory = tmp_path_factory.mktemp("transactions")
    with cluster_in(directory, f"{zookeeper_connect}{chroot}") as cluster:
        cluster.start(
            1, 2, 3,
            offsets__topic__num__partitions="1",
            transaction__state__log__num__partitions="1",
        )  # fmt: skip
        yield cluster


def finish(end: Any) -> None:
    """Ends a transaction, however often it takes."""
    wait_for(lambda: unless_retriable(lambda: end(10) or True), "the end of a transaction")


def read(cluster: Cluster, count: int) -> list[bytes]:
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
def test_transactions_outlive_coordinators_that_are_killed(cluster: Cluster) -> None:
    admin = admin_client(cluster.bootstrap_servers)
    [created] = admin.create_topics([admin_module.NewTopic(TOPIC, 3, 3)]).values()
    created.result(30)
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
                cluster.brokers[dead].start().ready()
            dead = coordinator_of(cluster, OF_TRANSACTION, ID)
            cluster.brokers[dead].kill()
        finish(producer.commit_transaction if commits else producer.abort_transaction)
        if commits:
            committed += values
    assert dead is not None
    assert coordinator_of(cluster, OF_TRANSACTION, ID, but=dead) != dead

    assert read(cluster, len(committed)) == sorted(committed)
