"""A real Prometheus scrapes real brokers, with the alerts and the panels of ``compose/``."""

from __future__ import annotations

import json
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.cli_cluster import LocalCluster
from tests.support.monitoring import (
    ALERTS,
    CONFIG,
    alerts,
    installed,
    names_used,
    panel_queries,
)
from tests.support.quorum import free_ports

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

client: Any = pytest.importorskip("confluent_kafka")


class Prometheus:
    """A Prometheus of its own data that scrapes every second."""

    def __init__(self, directory: Path, targets: list[str]) -> None:
        program = installed("prometheus")
        [port] = free_ports(1)
        self._url = f"http://127.0.0.1:{port}/api/v1"
        config = yaml.safe_load(CONFIG.read_text())
        config["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        config["rule_files"] = [str(ALERTS)]
        [job] = config["scrape_configs"]
        job["static_configs"] = [{"targets": targets}]
        path = directory / "prometheus.yml"
        path.write_text(yaml.safe_dump(config))
        with (directory / "prometheus.log").open("w") as log:
            self._process = subprocess.Popen(
                [
                    program,
                    f"--config.file={path}",
                    f"--storage.tsdb.path={directory / 'data'}",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def ask(self, path: str, **parameters: str) -> Any:
        """The data of an answer of its API; None while it does not answer."""
        url = f"{self._url}/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                answer = json.load(response)
        except OSError:
            return None
        assert answer["status"] == "success", answer
        return answer["data"]

    def end(self) -> None:
        self._process.terminate()
        self._process.wait(30)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    installed("prometheus")
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    started = cluster("cluster", "start", "--brokers", "2", "--detach", "--metrics-port", "0")
    assert started.exit_code == 0, started.stderr
    yield cluster
    cluster.end()


def test_prometheus_knows_every_metric_of_the_dashboard_and_misses_a_broker_that_died(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    use(cluster)
    brokers = cluster.json("cluster", "status")["brokers"]
    targets = [f"127.0.0.1:{broker['metrics_port']}" for broker in brokers]
    prometheus = Prometheus(tmp_path, targets)
    try:
        cluster.wait_for(lambda: states(prometheus) == ["up", "up"])
        cluster.wait_for(lambda: names_used() <= set(prometheus.ask("label/__name__/values")))
        for title, query in panel_queries().items():
            assert prometheus.ask("query", query=query)["resultType"] == "vector", title
        value = prometheus.ask(
            "query", query="sum(kafka_controller_kafkacontroller_activecontrollercount)"
        )
        cluster.wait_for(lambda: {rule["health"] for rule in rules(prometheus)} == {"ok"})
        loaded = rules(prometheus)
        # The first scrape of one broker may come before that of the controller.
        cluster.wait_for(lambda: active(prometheus) == set())

        cluster.json("broker", "stop", "2", "--kill")
        cluster.wait_for(lambda: "KafkaBrokerSilent" in active(prometheus))
        cluster.wait_for(lambda: "KafkaUnderReplicatedPartitions" in active(prometheus))
    finally:
        prometheus.end()

    assert value["result"][0]["value"][1] == "1"
    assert {rule["name"] for rule in loaded} == {alert["alert"] for alert in alerts()}


def use(cluster: LocalCluster) -> None:
    """A topic, records in it and a group that reads them."""
    cluster.json("topic", "create", "orders", "--partitions", "2", "--replication-factor", "2")
    servers = {"bootstrap.servers": cluster.json("cluster", "status")["bootstrap_servers"]}
    producer = client.Producer(servers)
    producer.produce("orders", b"first")
    assert producer.flush(30) == 0
    consumer = client.Consumer(servers | {"group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["orders"])
    message = consumer.poll(30)
    assert message is not None
    assert message.error() is None
    consumer.close()


def states(prometheus: Prometheus) -> list[str]:
    data = prometheus.ask("targets")
    return [] if data is None else [target["health"] for target in data["activeTargets"]]


def rules(prometheus: Prometheus) -> list[dict[str, Any]]:
    data = prometheus.ask("rules")
    return [] if data is None else [rule for group in data["groups"] for rule in group["rules"]]


def active(prometheus: Prometheus) -> set[str]:
    """The alerts that are pending or firing."""
    return {alert["labels"]["alertname"] for alert in prometheus.ask("alerts")["alerts"]}
