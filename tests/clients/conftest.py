"""Three of our brokers as processes, for clients that know nothing of us."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator

import pytest

from zkcontroller_testing import KafkaCluster

NewTopicName = Callable[..., str]


@pytest.fixture(scope="session")
def cluster(
    zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaCluster]:
    """One cluster for all clients; each test has topics and groups of its own."""
    with KafkaCluster(
        zookeeper=f"{zookeeper_connect}/unmodified-clients",
        configs={"offsets.topic.num.partitions": "3"},
        directory=tmp_path_factory.mktemp("clients"),
    ) as cluster:
        yield cluster


@pytest.fixture
def new_topic(cluster: KafkaCluster) -> NewTopicName:
    """Makes topics with replicas on all brokers, and gives their names."""

    def make(partitions: int = 3, **config: str) -> str:
        name = f"orders-{uuid.uuid4().hex[:8]}"
        configs = {key.replace("__", "."): value for key, value in config.items()}
        cluster.create_topic(name, partitions, configs=configs)
        return name

    return make
