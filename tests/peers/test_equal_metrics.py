"""The metrics of an active controller: the names of Kafka's MBeans, equal gauges, equal counts.

Three counts are left out, each with its reason at ``_NOT_ALIKE``; rates, quantiles and durations
are not compared.
Kafka's are read by JMX, ours from the port that Prometheus scrapes, where they have the names that
the JMX exporter gives to MBeans.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.controller_story import CANDIDATE, ScenarioRunner
from tests.peers.metric_values import Values, kafkas_metrics
from tests.peers.recording_brokers import RecordingBrokers
from tests.peers.scraped_broker import ScrapedBroker

pytestmark = pytest.mark.peers

RECORDERS: Final = (101, 102, 103)
QUIET_S: Final = 1.5
GROUPS: Final = (
    "kafka.controller:*",
    "kafka.server:type=SessionExpireListener,*",
    "kafka.server:type=ZooKeeperClientMetrics,*",
    "kafka.server:type=MetadataLoader,*",
)
PREFIXES: Final = (
    "kafka_controller_",
    "kafka_server_sessionexpirelistener_",
    "kafka_server_zookeeperclientmetrics_",
    "kafka_server_metadataloader_",
)
OFFLINE: Final = "kafka_controller_kafkacontroller_offlinepartitionscount[]"
_NOT_ALIKE: Final = (
    # Our reads are bulk reads and our writes go in transactions.
    "zookeeperrequestlatencyms",
    # After each deletion of the preferred-election znode we check it again, to set the watch.
    "manualleaderbalancerateandtimems",
    "eventqueuetimems",
)


@pytest.mark.timeout(240)
def test_after_the_same_events_metrics_have_the_same_names_and_values(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    ours, kafkas = new_cluster(), new_cluster()
    our_broker = ScrapedBroker(CANDIDATE, ours.zookeeper, tmp_path / "scraped", PROPERTIES)
    ours.start(our_broker)
    kafka_broker = kafkas.start_kafka(CANDIDATE)

    our_chapters = _scenario(ours, our_broker.metrics)
    kafka_chapters = _scenario(kafkas, lambda: kafkas_metrics(kafka_broker.pid, GROUPS))

    for chapter, expected in kafka_chapters.items():
        found = our_chapters[chapter]
        assert sorted(name for name in found if name.startswith(PREFIXES)) == sorted(expected)
        differences = {
            name: (found[name], value)
            for name, value in expected.items()
            if found[name] != value and not any(part in name for part in _NOT_ALIKE)
        }
        assert differences == {}, chapter
    assert our_chapters["a broker is dead"][OFFLINE] == 1


def _scenario(cluster: Cluster, read: Callable[[], Values]) -> dict[str, Values]:
    """What the metrics say after each chapter."""
    chapters: dict[str, Values] = {}
    with RecordingBrokers(cluster.zookeeper, RECORDERS) as brokers:
        teller = ScenarioRunner(cluster, brokers)

        def end_chapter(name: str) -> None:
            brokers.wait_until_quiet(QUIET_S)
            chapters[name] = read()

        end_chapter("a controller alone")
        for broker_id in RECORDERS:
            brokers[broker_id].register()
            brokers.wait_until_quiet(QUIET_S)
        teller.create_topic("alpha", [[101, 102], [102, 103], [103, 101]])
        # One after the other: a controller may see both in one event and send fewer requests.
        brokers.wait_until_quiet(QUIET_S)
        teller.create_topic("beta", [[102], [103]])
        end_chapter("two topics")
        brokers[102].leave()
        end_chapter("a broker is dead")
        teller.delete_topic("beta")
        end_chapter("a topic waits for its deletion")
        brokers[102].register()
        end_chapter("the broker is back")
        teller.ask_for_preferred_leaders(("alpha", 1))
        end_chapter("a preferred leader leads")
        teller.delete_controller()
        end_chapter("the controller is elected again")
    return chapters
