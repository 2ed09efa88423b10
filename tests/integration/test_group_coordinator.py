"""A coordinator that is killed: its groups and their offsets go on with another broker."""

from __future__ import annotations

from typing import Final

import pytest

from tests.integration.broker_processes import wait_for
from tests.integration.coordinators import OF_GROUP, coordinator_of
from tests.support.confluent_calls import unless_retriable
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")

GROUP: Final = "bereaved"


@pytest.fixture
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """Three brokers, one of which will be killed."""
    return kafka_cluster_factory(3, zookeeper=zookeeper_connect)


class Consumer:
    """One that belongs to no generation, and commits what it is given."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._consumer = confluent.Consumer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "group.id": GROUP,
                "enable.auto.commit": False,
            }
        )

    def commit(self, offset: int) -> None:
        """Returns when it is committed, however often it takes to find the coordinator."""
        place = confluent.TopicPartition("orders", 0, offset)
        wait_for(
            lambda: unless_retriable(
                lambda: self._consumer.commit(offsets=[place], asynchronous=False)
            ),
            f"the commit of {offset}",
        )

    def committed(self) -> int:
        place = confluent.TopicPartition("orders", 0)
        [found] = wait_for(
            lambda: unless_retriable(lambda: self._consumer.committed([place], timeout=10)),
            "the committed offset",
        )
        return int(found.offset)

    def close(self) -> None:
        self._consumer.close()


def test_offsets_outlive_coordinators_that_are_killed(cluster: KafkaCluster) -> None:
    cluster.create_topic("orders")
    consumer = Consumer(cluster)
    try:
        consumer.commit(7)
        dead = coordinator_of(cluster, OF_GROUP, GROUP)
        cluster.kill(dead)

        assert coordinator_of(cluster, OF_GROUP, GROUP, but=dead) != dead
        assert consumer.committed() == 7
        consumer.commit(8)
    finally:
        consumer.close()

    for broker in cluster.broker_ids:
        if broker != dead:
            cluster.kill(broker)
    for broker in cluster.broker_ids:
        cluster.start(broker)

    after = Consumer(cluster)
    try:
        assert after.committed() == 8
    finally:
        after.close()
