"""One cluster for all these tests, each of which leaves it well, and the seed of what happens.

``ZKCONTROLLER_FAULT_SEED=7 make faults`` runs other steps.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from tests.faults.cluster import BROKERS, FaultCluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper


@pytest.fixture
def random() -> Random:
    """Decides whom something happens to, and when; the seed is printed with a failure."""
    seed = int(os.environ.get("ZKCONTROLLER_FAULT_SEED", "1"))
    print(f"ZKCONTROLLER_FAULT_SEED={seed}")
    return Random(seed)


@contextmanager
def three_brokers(
    tmp_path_factory: pytest.TempPathFactory,
    properties: Mapping[str, str] | None = None,
    log_dirs: Mapping[int, Sequence[Path]] | None = None,
) -> Iterator[FaultCluster]:
    """A ZooKeeper that may be killed, and three brokers that serve."""
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as zookeeper:
        directory = tmp_path_factory.mktemp("brokers")
        with FaultCluster(directory, zookeeper, properties or {}, log_dirs or {}) as cluster:
            yield cluster


@pytest.fixture(scope="session")
def started_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    """One for all."""
    with three_brokers(tmp_path_factory) as cluster:
        yield cluster


@pytest.fixture
def old_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaultCluster]:
    """One whose brokers speak with each other as those of Kafka 2.6 do."""
    with three_brokers(tmp_path_factory, {"inter.broker.protocol.version": "2.6"}) as cluster:
        yield cluster
        cluster.tell()


@pytest.fixture
def cluster(started_cluster: FaultCluster) -> Iterator[FaultCluster]:
    """The same, all of it alive; what brokers say is shown if the test fails."""
    cluster = started_cluster
    cluster.heal()
    for broker in BROKERS:
        if not cluster.is_alive(broker):  # a test before this one has failed
            cluster.start(broker)
    yield cluster
    cluster.tell()
