"""Incidents by seed on real brokers: their history finds what was done, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.incident_judge import judged
from tests.support.incidents import DISKS, Incident, properties_of
from zkcontroller_testing import KafkaCluster

pytestmark = [pytest.mark.kit, pytest.mark.timeout(600)]

ACTS = 5


def test_what_was_done_is_found_and_nothing_else(
    incident_seed: int, kafka_shared_zookeeper: Path, tmp_path: Path
) -> None:
    with KafkaCluster(
        zookeeper="shared",
        configs=properties_of(incident_seed),
        disks=DISKS,
        directory=tmp_path / "cluster",
        shared_directory=kafka_shared_zookeeper,
    ) as cluster:
        incident = Incident(cluster, incident_seed, has_disks=bool(DISKS))
        incident.run(ACTS)

        judgement = judged(incident.timeline, cluster.directory, tmp_path / "history")

    assert (judgement.missed, judgement.false) == ([], [])
