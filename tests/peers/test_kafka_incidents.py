"""Incidents by seed on brokers of Kafka 3.9.1: their history finds what was done, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.peers.kafka_kit_cluster import KafkaKitCluster
from tests.peers.kafka_versions import required_libs
from tests.support.incident_judge import judged
from tests.support.incidents import DISKS, Incident, properties_of

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

ACTS = 5


@pytest.mark.parametrize("seed", [1, 2])
def test_what_was_done_to_kafka_is_found_and_nothing_else(
    seed: int, kafka_shared_zookeeper: Path, tmp_path: Path
) -> None:
    required_libs()
    with KafkaKitCluster(
        zookeeper="shared",
        configs=properties_of(seed),
        disks=DISKS,
        directory=tmp_path / "cluster",
        shared_directory=kafka_shared_zookeeper,
    ) as cluster:
        # A process of Kafka's that finds its registration there ends at once.
        incident = Incident(cluster, seed, has_disks=bool(DISKS), without={"bounce"})
        incident.run(ACTS)

        judgement = judged(incident.timeline, cluster.directory, tmp_path / "history")

    assert judgement.is_right, judgement
