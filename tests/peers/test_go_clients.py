"""Clients in Go (sarama, kafka-go, franz-go) get the same from our brokers as from Kafka's."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.peers.kafka_kit_cluster import KafkaKitCluster
from tests.support.language_tools import environment_of_tools, require_go
from zkcontroller_testing import KafkaCluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

SOURCES: Final = Path(__file__).parent / "go_clients"
CONFIGS: Final = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """The clients, compiled; the machine's own cache serves their modules."""
    require_go()
    built = tmp_path / "go-clients"
    command = ("go", "build", "-o", str(built), ".")
    subprocess.run(command, cwd=SOURCES, env=environment_of_tools(), check=True, timeout=300)
    return built


def test_clients_in_go_see_no_difference(
    program: Path, start_kit: Callable[..., KafkaCluster]
) -> None:
    ours, kafkas = (
        printed(start_kit(kind, 3, CONFIGS), program) for kind in (KafkaCluster, KafkaKitCluster)
    )

    assert ours == kafkas
    assert ours.count("\n") > 100


def printed(cluster: KafkaCluster, program: Path) -> str:
    command = (program, cluster.bootstrap_servers)
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
