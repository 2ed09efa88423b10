"""What the tests beside a real Kafka share: one ZooKeeper, a chroot for each cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.peers.cluster import Cluster
from tests.peers.controller_sides import Sides
from tests.peers.kafka_versions import required_libs
from tests.peers.real_brokers import OURS, REAL, RealBrokers
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller_testing import KafkaCluster


@pytest.fixture(scope="session")
def kafka() -> Path:
    """The jars of Kafka 3.9.1; the test is skipped, with the reason, where there are none."""
    return required_libs()


@pytest.fixture(scope="session")
def zookeeper(
    kafka: Path,  # noqa: ARG001 - without Kafka there is nothing to start a ZooKeeper for
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[EmbeddedZooKeeper]:
    """One server for all these tests."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


_chroots = count()

StartKit = Callable[..., KafkaCluster]
"""``(kind, brokers, configs)``, of which configs may be left out."""


@pytest.fixture
def start_kit(
    kafka: Path,  # noqa: ARG001 - what is compared needs both kinds
    kafka_shared_zookeeper: Path,
    tmp_path: Path,
) -> Iterator[StartKit]:
    """Starts the kit's clusters, of our brokers or of Kafka's; they end with the test."""
    with ExitStack() as stack:

        def start(
            kind: type[KafkaCluster], brokers: int, configs: Mapping[str, str] | None = None
        ) -> KafkaCluster:
            cluster = kind(
                brokers,
                zookeeper="shared",
                configs=configs,
                directory=tmp_path / f"cluster-{next(_chroots)}",
                shared_directory=kafka_shared_zookeeper,
            )
            stack.callback(cluster.close)
            return cluster.start()

        yield start


@pytest.fixture
def new_cluster(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Callable[[], Cluster]]:
    """Makes clusters without brokers, each on a chroot of its own; they end with the test."""
    clusters: list[Cluster] = []

    def make() -> Cluster:
        number = next(_chroots)
        clusters.append(
            Cluster(f"{zookeeper.connect}/peers-{number}", tmp_path / f"cluster-{number}")
        )
        return clusters[-1]

    yield make
    for cluster in clusters:
        cluster.close()


@pytest.fixture
def cluster(new_cluster: Callable[[], Cluster]) -> Cluster:
    """A cluster without brokers."""
    return new_cluster()


@pytest.fixture(scope="module")
def started_real_brokers(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RealBrokers]:
    """One cluster for a file of tests: each has topics of its own and leaves all brokers alive."""
    brokers = RealBrokers(
        f"{zookeeper.connect}/peers-{next(_chroots)}", tmp_path_factory.mktemp("real-brokers")
    )
    try:
        brokers.start_all()
        yield brokers
    finally:
        brokers.close()


@pytest.fixture
def real_brokers(started_real_brokers: RealBrokers) -> Iterator[RealBrokers]:
    """The cluster; ours is its controller before and after, and no broker logs an error."""
    brokers = started_real_brokers
    assert brokers.controller_id() == OURS
    before = set(brokers.error_lines())

    yield brokers

    assert brokers.controller_id() == OURS
    assert brokers.live_brokers() == {*REAL, OURS}
    assert [line for line in brokers.error_lines() if line not in before] == []


@pytest.fixture(scope="session")
def sides(
    kafka: Path,  # noqa: ARG001 - skips the test without Kafka
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Sides]:
    """A lone controller of Kafka's and one of ours."""
    made = Sides(tmp_path_factory.mktemp("controllers"))
    try:
        yield made
    finally:
        made.close()
