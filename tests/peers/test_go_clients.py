"""Clients in Go (sarama, kafka-go, franz-go) get the same from our brokers as from Kafka's."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests.peers.kafka_kit_cluster import KafkaKitCluster
from zkcontroller_testing import KafkaCluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

SOURCES: Final = Path(__file__).parent / "go_clients"
LEAST_GO: Final = 22
CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The clients, compiled; the machine's own cache serves their modules."""
    if shutil.which("go") is None:
        pytest.skip("go is not on the PATH")
    go = subprocess.run(("go", "version"), capture_output=True, text=True, check=True).stdout
    version = re.search(r"go1\.(\d+)", go)
    if version is None or int(version[1]) < LEAST_GO:
        pytest.skip(f"go is older than 1.{LEAST_GO}")
    built = tmp_path / "go-clients"
    own = {key: value for key, value in os.environ.items() if not key.startswith("XDG_")}
    command = ("go", "build", "-o", str(built), ".")
    subprocess.run(command, cwd=SOURCES, env=own, check=True, timeout=300)
    return built


@pytest.mark.usefixtures("kafka")
def test_clients_in_go_see_no_difference(
    program: Path, kafka_shared_zookeeper: Path, tmp_path: Path
) -> None:
    ours, kafkas = (
        printed(kind, program, kafka_shared_zookeeper, tmp_path / kind.__name__)
        for kind in (KafkaCluster, KafkaKitCluster)
    )

    assert ours == kafkas
    assert ours.count("\n") > 100


def printed(kind: type[KafkaCluster], program: Path, shared: Path, directory: Path) -> str:
    with kind(
        3, zookeeper="shared", configs=CONFIGS, directory=directory, shared_directory=shared
    ) as cluster:
        command = (program, cluster.bootstrap_servers)
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout
