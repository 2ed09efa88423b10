"""A cluster for all tests of a file, whole before each."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from zkcontroller_testing import KafkaCluster

QUICK: Final = {
    # The shortest session that a ZooKeeper with ticks of two seconds grants.
    "zookeeper.session.timeout.ms": "4000",
    "replica.lag.time.max.ms": "2000",
    "unclean.leader.election.enable": "false",
}
NEEDS_ROOT: Final = pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a disk")
_names: Final = itertools.count(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--incidents``: how many seeds :mod:`.test_incidents` tries."""
    parser.addoption(
        "--incidents", type=int, default=2, help="how many incidents by seed a history is held to"
    )
    parser.addoption("--first-incident", type=int, default=1, help="with which seed they begin")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test with an ``incident_seed`` runs once for each."""
    if "incident_seed" in metafunc.fixturenames:
        first = metafunc.config.getoption("first_incident", 1)
        count = metafunc.config.getoption("incidents", 2)
        metafunc.parametrize("incident_seed", range(first, first + count))


@pytest.fixture(scope="module")
def module_settings() -> dict[str, Any]:
    """What the cluster of a file shall be; a file may override it."""
    return {"configs": QUICK}


@pytest.fixture(scope="module")
def module_cluster(
    module_settings: dict[str, Any],
    kafka_shared_zookeeper: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KafkaCluster]:
    """The cluster of a file."""
    with KafkaCluster(
        zookeeper="shared",
        directory=tmp_path_factory.mktemp("kafka"),
        shared_directory=kafka_shared_zookeeper,
        **module_settings,
    ) as cluster:
        yield cluster


@pytest.fixture
def cluster(module_cluster: KafkaCluster) -> Iterator[KafkaCluster]:
    """Whole before the test; its epochs are looked at behind it."""
    cluster = module_cluster
    cluster.heal()
    for broker in cluster.broker_ids:
        if not cluster.is_alive(broker):
            cluster.start(broker)
    cluster.wait_registered()
    cluster.wait_controller()
    yield cluster
    cluster.epochs_monotonic()


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """One partition on every broker, all in sync; broker 1 leads it."""
    name = f"orders-{next(_names)}"
    cluster.create_topic(name, replicas=[list(cluster.broker_ids)])
    cluster.wait_isr(name)
    return name
