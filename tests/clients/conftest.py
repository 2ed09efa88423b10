"""Three of our brokers as processes, for clients that know nothing of us."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.broker_processes import Cluster, admin_client, cluster_in
from tests.support.metadata import wait_until_known

NewTopicName = Callable[..., str]


@pytest.fixture(scope="session")
def cluster(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all clients; each test has topics and groups of its own."""
    directory = tmp_path_factory.mktemp("clients")
    with cluster_in(directory, f"{zookeeper_connect}/unmodified-clients") as cluster:
        cluster.start(
            1, 2, 3,
            group__initial__rebalance__delay__ms="0",
            offsets__topic__num__partitions="3",
        )  # fmt: skip
        yield cluster


@pytest.fixture
def new_topic(cluster: Cluster) -> NewTopicName:
    """Makes topics with replicas on all brokers, and gives their names."""
    module: Any = pytest.importorskip("confluent_kafka.admin")
    admin = admin_client(cluster.bootstrap_servers)

    def make(partitions: int = 3, **config: str) -> str:
        name = f"orders-{uuid.uuid4().hex[:8]}"
        settings = {key.replace("__", "."): value for key, value in config.items()}
        topic = module.NewTopic(name, partitions, 3, config=settings)
        [created] = admin.create_topics([topic], operation_timeout=20).values()
        created.result(60)
        addresses = [broker.address for broker in cluster.brokers.values()]
        wait_until_known(addresses, cluster.brokers, name)
        return name

    return make
