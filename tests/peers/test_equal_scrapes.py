"""Prometheus sees the same of our brokers as of Kafka's behind the JMX exporter.

The exporter applies its usual rules.  The names of all samples and the keys of their labels are
compared, scrape by scrape, after the same events.  What only one side has stands in a table of
``docs/metrics.md``, which this test reads.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from prometheus_client.parser import text_string_to_metric_families
from typing_extensions import override

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, jmx_exporter
from tests.peers.clients import run_tool
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required
from tests.support.monitoring import names_used
from tests.support.paths import ROOT
from tests.support.quorum import free_ports

pytestmark = [pytest.mark.peers, pytest.mark.timeout(240)]

client: Any = pytest.importorskip("confluent_kafka")
admin: Any = pytest.importorskip("confluent_kafka.admin")

RULES: Final = Path(__file__).with_name("jmx-exporter.yml")
BROKERS: Final = (1, 2)
OVERRIDES: Final = PROPERTIES | {
    "offsets.topic.replication.factor": "2",
    "transaction.state.log.replication.factor": "2",
    "transaction.state.log.min.isr": "1",
}
RECORDS: Final = 20
_ROW: Final = re.compile(r"\| `([a-z_*]+)` \| (Kafka|ours|labels) \|")

Samples: TypeAlias = set[tuple[str, frozenset[str]]]
"""Name, and the keys of the labels."""


class Scraped:
    """A broker with a port of metrics."""

    metrics_port: int

    def samples(self) -> Samples:
        """What Prometheus would store, but for the values."""
        url = f"http://127.0.0.1:{self.metrics_port}/metrics"
        with urllib.request.urlopen(url, timeout=60) as response:
            text = response.read().decode()
        return {
            (re.sub("_count_total$", "_count", sample.name), frozenset(sample.labels))
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }


class OurScrapedBroker(OurBroker, Scraped):
    """Ours, with every metric that it has."""

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        [self.metrics_port] = free_ports(1)
        port = f"--metrics-port={self.metrics_port}"
        return [*super()._command(properties), port, "--metrics-of-partitions"]


class KafkaWithExporter(KafkaBroker, Scraped):
    """Kafka's, with the JMX exporter as its agent."""

    @override
    def _command(self, properties: Path) -> Sequence[str]:
        [self.metrics_port] = free_ports(1)
        java, *rest = super()._command(properties)
        agent = f"-javaagent:{jmx_exporter()}=127.0.0.1:{self.metrics_port}:{RULES}"
        return [java, agent, *rest]


@pytest.fixture(autouse=True)
def exporter() -> None:
    required(jmx_exporter)


def test_names_and_labels_are_those_that_the_jmx_exporter_gives_to_kafkas(
    new_cluster: Callable[[], Cluster], tmp_path: Path
) -> None:
    ours = scrapes_after_the_scenario(new_cluster(), OurScrapedBroker, tmp_path / "ours")
    kafkas = scrapes_after_the_scenario(new_cluster(), KafkaWithExporter, tmp_path / "kafkas")
    table = dict(_ROW.findall((ROOT / "docs" / "metrics.md").read_text()))

    unexplained = {
        side: sorted(
            (name, sorted(labels))
            for name, labels in found - others
            if not any(fnmatchcase(name, glob) for glob in globs_of(table, side))
        )
        for side, found, others in (("ours", ours, kafkas), ("Kafka", kafkas, ours))
    }
    stale = [
        glob
        for glob, side in table.items()
        for found, others in ((ours, kafkas), (kafkas, ours))
        if side == "labels" or (side == "ours") is (found is ours)
        if not any(fnmatchcase(name, glob) for name, _ in found - others)
    ]

    # The dashboard and the alerts serve a Kafka as well.
    assert names_used() <= {name for name, _ in kafkas}
    assert unexplained == {"ours": [], "Kafka": []}
    assert stale == []
    assert len(ours & kafkas) > 180
    assert ("kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent_count",
            frozenset()) in ours & kafkas  # fmt: skip


def globs_of(table: dict[str, str], side: str) -> Iterator[str]:
    return (glob for glob, only in table.items() if only in (side, "labels"))


def scrapes_after_the_scenario(
    cluster: Cluster, kind: Callable[..., BrokerProcess], directory: Path
) -> Samples:
    """The samples of both brokers, after topics, records, a transaction, a group and a quota."""
    for broker_id in BROKERS:
        cluster.start(kind(broker_id, cluster.zookeeper, directory / str(broker_id), OVERRIDES))
    bootstrap = ",".join(map(cluster.bootstrap, BROKERS))
    run_tool(
        "kafka.admin.ConfigCommand", "--bootstrap-server", bootstrap, "--alter",
        "--entity-type", "clients", "--entity-name", "limited",
        "--add-config", "producer_byte_rate=1000000,consumer_byte_rate=1000000",
    )  # fmt: skip
    administrator = admin.AdminClient({"bootstrap.servers": bootstrap})
    topics = ("orders", "doomed")
    wanted = [admin.NewTopic(topic, 2, 2) for topic in topics]
    for created in administrator.create_topics(wanted).values():
        created.result(30)

    limited = {"bootstrap.servers": bootstrap, "client.id": "limited"}
    producer = client.Producer(limited | {"acks": "all", "compression.type": "gzip"})
    for number in range(RECORDS):
        producer.produce("orders", b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    transactional = client.Producer({"bootstrap.servers": bootstrap, "transactional.id": "t"})
    transactional.init_transactions(30)
    transactional.begin_transaction()
    transactional.produce("orders", b"in a transaction")
    transactional.commit_transaction(30)
    consumer = client.Consumer(limited | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    for _ in range(RECORDS + 1):
        message = consumer.poll(30)
        assert message is not None
        assert message.error() is None
    consumer.commit(asynchronous=False)
    consumer.close()
    for deleted in administrator.delete_topics(["doomed"]).values():
        deleted.result(30)

    brokers = [cluster.brokers[broker_id] for broker_id in BROKERS]
    scraped = [broker for broker in brokers if isinstance(broker, Scraped)]
    assert zkctls_partition_count(scraped[0]) > 0
    return {each for broker in scraped for each in broker.samples()}


def zkctls_partition_count(broker: Scraped) -> int:
    """What ``zkctl metrics`` shows of that broker, ours or Kafka's."""
    name = "kafka_server_replicamanager_partitioncount"
    address = f"127.0.0.1:{broker.metrics_port}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "zkcontroller_cli", "metrics"),
            *("--address", address, "--name", name, "-o", "json"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    [row] = json.loads(done.stdout)
    assert (row["metric"], row["type"]) == (name, "gauge")
    assert row["meaning"]
    return int(row["value"])
