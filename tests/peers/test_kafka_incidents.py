"""Incidents by seed on brokers of Kafka: their history finds what was done, and no more."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Final

import pytest

from tests.peers.kafka_kit_cluster import KafkaKitCluster
from tests.support.incident_judge import judged
from tests.support.incidents import DISKS, Incident, properties_of

pytestmark = [pytest.mark.peers, pytest.mark.timeout(900)]

ACTS = 5


class Kafka35(KafkaKitCluster):
    version = "3.5.2"


class Kafka28(KafkaKitCluster):
    version = "2.8.2"


class Kafka24(KafkaKitCluster):
    """Whose own log4j.properties has this level."""

    version = "2.4.1"
    log_levels: ClassVar = {"state.change.logger": "TRACE"}


class Kafka11(Kafka24):
    version = "1.1.1"


# A process of Kafka's that finds its registration there ends at once.
NOT_WITH_KAFKA: Final = frozenset({"bounce"})
NOT_WITH_KAFKA_1: Final = NOT_WITH_KAFKA | {
    "configure", "move", "cancel_move", "elect_preferred", "elect_unclean", "strand",
    "go_amid_order",
}  # fmt: skip
"""Its brokers take none of these orders as a request."""


@pytest.mark.parametrize(
    ("kind", "seed", "without"),
    [
        (KafkaKitCluster, 1, NOT_WITH_KAFKA),
        (KafkaKitCluster, 2, NOT_WITH_KAFKA),
        (Kafka35, 3, NOT_WITH_KAFKA),
        (Kafka28, 4, NOT_WITH_KAFKA),
        (Kafka28, 11, NOT_WITH_KAFKA),
        (Kafka24, 5, NOT_WITH_KAFKA),
        (Kafka24, 32, NOT_WITH_KAFKA),
        (Kafka11, 53, NOT_WITH_KAFKA_1),
    ],
)
def test_what_was_done_to_kafka_is_found_and_nothing_else(
    kind: type[KafkaKitCluster],
    seed: int,
    without: frozenset[str],
    kafka_shared_zookeeper: Path,
    tmp_path: Path,
) -> None:
    with kind(
        zookeeper="shared",
        configs=properties_of(seed),
        disks=DISKS,
        directory=tmp_path / "cluster",
        shared_directory=kafka_shared_zookeeper,
    ) as cluster:
        incident = Incident(cluster, seed, has_disks=bool(DISKS), without=without)
        incident.run(ACTS)

        judgement = judged(
            incident.timeline,
            cluster.directory,
            tmp_path / "history",
            # Before 2.4 a leader says the version at TRACE only.
            tells_versions=kind is not Kafka11,
        )

    assert judgement.is_right, judgement
