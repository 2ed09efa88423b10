"""What a broker with a metrics port tells Prometheus of the requests of a real client."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.broker_processes import BrokerProcess, admin_client, wait_for

pytestmark = pytest.mark.integration

admin_module = pytest.importorskip("confluent_kafka.admin")

_SERVED_AT = re.compile(r"Serving metrics at (\S+)")
START = "kafka_network_requestmetrics_"


def test_requests_of_clients_are_counted_and_timed(
    zookeeper_connect: str, chroot: str, tmp_path: Path
) -> None:
    broker = BrokerProcess(tmp_path, zookeeper_connect + chroot, 1)
    try:
        broker.start("--metrics-port", "0", "--metrics-of-partitions").ready()
        url = wait_for(lambda: _SERVED_AT.search(broker.log()), "the metrics port")[1]
        admin = admin_client(broker.address)
        wanted = admin_module.NewTopic("orders", 1, 1)
        [created] = admin.create_topics([wanted], operation_timeout=20).values()
        assert created.result(30) is None

        found = wait_for(
            lambda: said if (said := counts(url)).get(("CreateTopics", "requestbytes")) else None,
            "the request to be counted, which is after its answer",
        )

        assert found["CreateTopics", "totaltimems"] == 1
        assert found["Metadata", "totaltimems"] >= 1
        assert found["LeaderAndIsr", "localtimems"] >= 1
        assert 'kafka_cluster_partition_replicascount{partition="0",topic="orders"} 1.0' in scrape(
            url
        )
        # It waited for the controller and for ZooKeeper, which is not its own time.
        assert sums(url)["CreateTopics", "remotetimems"] > 0
    finally:
        broker.end()
        broker.tell()


def scrape(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10) as response:
        text: str = response.read().decode()
        return text


def counts(url: str) -> dict[tuple[str, str], float]:
    return _samples(url, "_count")


def sums(url: str) -> dict[tuple[str, str], float]:
    return _samples(url, "_sum")


def _samples(url: str, end: str) -> dict[tuple[str, str], float]:
    """Kind of request and name of the histogram, to its number or sum of values."""
    return {
        (sample.labels["request"], sample.name.removeprefix(START).removesuffix(end)): sample.value
        for family in text_string_to_metric_families(scrape(url))
        for sample in family.samples
        if sample.name.startswith(START) and sample.name.endswith(end)
    }
