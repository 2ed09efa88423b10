"""A coordinator that is killed: its groups and their offsets go on with another broker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pytest

from tests.integration.broker_processes import Cluster, admin_client, cluster_in, wait_for
from tests.integration.coordinators import OF_GROUP, coordinator_of
from tests.support.confluent_calls import unless_retriable

pytestmark = pytest.mark.integration

confluent = pytest.importorskip("confluent_kafka")
admin_module = pytest.importorskip("confluent_kafka.admin")

GROUP: Final = "bereaved"


@pytest.fixture
def cluster(
    zookeeper_connect: str, chroot: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three brokers, one of which will be killed."""
    directory = tmp_path_factory.mktemp("coordinator")
    with cluster_in(directory, f"{zookeeper_connect}{chroot}") as cluster:
        cluster.start(
            1, 2, 3,
            group__initial__rebalance__delay__ms="0",
            offsets__topic__num__partitions="1",
        )  # fmt: skip
        yield cluster


class Consumer:
    """One that belongs to no generation, and commits what it is given."""

    def __init__(self, cluster: Cluster) -> None:
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


def test_offsets_outlive_coordinators_that_are_killed(cluster: Cluster) -> None:
    admin = admin_client(cluster.bootstrap_servers)
    [created] = admin.create_topics([admin_module.NewTopic("orders", 1, 3)]).values()
    created.result(30)
    consumer = Consumer(cluster)
    try:
        consumer.commit(7)
        dead = coordinator_of(cluster, OF_GROUP, GROUP)
        cluster.brokers[dead].kill()

        assert coordinator_of(cluster, OF_GROUP, GROUP, but=dead) != dead
        assert consumer.committed() == 7
        consumer.commit(8)
    finally:
        consumer.close()

    for broker in cluster.brokers.values():
        if broker.broker_id != dead:
            broker.kill()
    for broker in cluster.brokers.values():
        broker.start()
    for broker in cluster.brokers.values():
        broker.ready()

    after = Consumer(cluster)
    try:
        assert after.committed() == 8
    finally:
        after.close()
