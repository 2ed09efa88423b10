"""Metrics of a local cluster: served where ``zkctl`` says."""

from __future__ import annotations

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_common.net.loopback_ports import free_port
from tests.integration.cli_cluster import LocalCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("cluster"))
    started = cluster(
        *("cluster", "start", "--brokers", "2", "--detach"),
        *("--metrics-port", "0", "--metrics-of-partitions"),
    )
    assert started.exit_code == 0, started.stderr
    for broker in cluster.json("cluster", "status")["brokers"]:
        url = f"http://127.0.0.1:{broker['metrics_port']}/metrics"
        assert f"metrics of broker {broker['broker_id']}: {url}\n" in started.stderr
    yield cluster
    cluster.end()


def metrics_port(cluster: LocalCluster, broker_id: int) -> int:
    [port] = [
        broker["metrics_port"]
        for broker in cluster.json("cluster", "status")["brokers"]
        if broker["broker_id"] == broker_id
    ]
    assert isinstance(port, int)
    return port


def scrape(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as response:
        text: str = response.read().decode()
        return text


def test_every_broker_of_a_cluster_serves_its_metrics_on_a_port_of_its_own(
    cluster: LocalCluster,
) -> None:
    ports = [metrics_port(cluster, broker_id) for broker_id in (1, 2)]

    active = [
        line
        for port in ports
        for line in scrape(port).splitlines()
        if line.startswith("kafka_controller_kafkacontroller_activecontrollercount ")
    ]

    assert len(set(ports)) == 2
    assert sorted(line.rpartition(" ")[2] for line in active) == ["0.0", "1.0"]


def test_a_broker_that_is_started_again_serves_where_it_did_before(cluster: LocalCluster) -> None:
    before = metrics_port(cluster, 2)
    cluster.json("broker", "stop", "2")

    started = cluster.json("broker", "start", str(cluster.properties(2)), "--detach")

    assert started["metrics_port"] == before
    assert "kafka_server_replicamanager_leadercount" in scrape(before)


def test_a_port_that_is_taken_is_refused_before_anything_starts(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    other = LocalCluster(tmp_path / "other")
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        refused = other("cluster", "start", "--detach", "--metrics-port", str(taken))
        status = other("cluster", "status")
        cluster.json("broker", "stop", "2")
        one = cluster(
            *("broker", "start", str(cluster.properties(2)), "--detach"),
            *("--metrics-port", str(taken)),
        )
    remembered = metrics_port(cluster, 2)
    with socket.create_server(("127.0.0.1", remembered)):
        again = cluster("broker", "start", str(cluster.properties(2)), "--detach")
    cluster.json("broker", "start", str(cluster.properties(2)), "--detach")

    assert f"port {remembered}, which the metrics server of the broker needs" in again.stderr
    assert refused.exit_code == 5
    assert f"port {taken}, which the metrics server of broker 1 needs, is in use" in refused.stderr
    assert status.exit_code == 5
    assert one.exit_code == 5
    assert f"port {taken}, which the metrics server of the broker needs, is in use" in one.stderr


def test_a_port_of_the_cluster_itself_is_no_port_for_metrics(tmp_path: Path) -> None:
    other = LocalCluster(tmp_path / "other")
    start = ("cluster", "start", "--brokers", "2", "--detach", "--base-port")
    # One of three ports in a row may be in use.
    tried = (
        (base, other(*start, str(base), "--metrics-port", str(base + 1)))
        for base in range(21300, 21400)
    )
    base, refused = next(each for each in tried if "is in use" not in each[1].stderr)

    assert refused.exit_code == 5
    assert (
        f"port {base + 1}, which the metrics server of broker 1 needs, is that of broker 2"
        in refused.stderr
    )


def test_options_of_metrics_need_a_port(cluster: LocalCluster) -> None:
    refused = cluster("cluster", "start", "--detach", "--metrics-of-partitions")

    assert refused.exit_code == 2
    assert "--metrics-of-partitions needs --metrics-port PORT" in refused.stderr


def test_every_metric_says_what_it_means(cluster: LocalCluster) -> None:
    cluster.json("topic", "create", "orders", "--partitions", "4", "--replication-factor", "2")
    rows = [row for broker_id in ("1", "2") for row in cluster.json("metrics", broker_id)]

    silent = {row["metric"] for row in rows if row["meaning"] in (None, row["metric"])}
    names = {row["metric"] for row in rows}

    assert silent == set()
    assert {
        "process_resident_memory_bytes", "kafka_cluster_partition_underreplicated",
        "kafka_server_replicamanager_leadercount", "kafka_network_requestmetrics_requests_total",
    } <= names  # fmt: skip
    assert not any(row["meaning"].startswith("kafka_") for row in rows)


def test_the_metrics_of_a_broker_are_filtered_by_name(cluster: LocalCluster) -> None:
    name = "kafka_server_replicamanager_partitioncount"

    [row] = cluster.json("metrics", "1", "--name", "*replicamanager_PARTITIONcount")
    lines = cluster("metrics", "1", "--name", name).stdout.splitlines()
    requests = cluster("metrics", "1", "--name", "kafka_network_requestmetrics_requests_total")
    by_address = cluster.json("metrics", "--address", f"127.0.0.1:{metrics_port(cluster, 1)}")
    nothing = cluster("metrics", "1", "--name", "nonsense", "-o", "csv")

    assert row["metric"] == name
    assert row["type"] == "gauge"
    assert row["meaning"] == "Replicas on this broker."
    assert lines[0].split() == ["METRIC", "VALUE", "MEANING"]
    assert lines[1].startswith(name)
    assert 'requests_total{request="Metadata",version="' in requests.stdout
    assert name in {row["metric"] for row in by_address}
    assert nothing.exit_code == 0
    assert nothing.stdout == "metric,labels,value,type,meaning\n"
    assert "is called nonsense" in nothing.stderr


def test_what_serves_no_metrics_is_a_sentence(cluster: LocalCluster, tmp_path: Path) -> None:
    status = cluster.json("cluster", "status")
    listener = status["bootstrap_servers"].split(",")[0]
    free = free_port()
    results = {
        name: cluster("metrics", *arguments, "--timeout", "5")
        for name, arguments in {
            "no port": ("--address", "127.0.0.1"),
            "nothing there": ("--address", f"127.0.0.1:{free}"),
            "a listener": ("--address", listener),
            "no such broker": ("7",),
            "which": (),
            "both": ("1", "--address", listener),
        }.items()
    }
    elsewhere = LocalCluster(tmp_path)("metrics", "1")

    assert {name: result.exit_code for name, result in results.items()} == {
        "no port": 2, "nothing there": 3, "a listener": 5, "no such broker": 5, "which": 2,
        "both": 2,
    }  # fmt: skip
    assert "a broker serves them if it was started with --metrics-port" in (
        results["nothing there"].stderr
    )
    assert "does not speak HTTP" in results["a listener"].stderr
    assert "has no broker 7, but 1, 2" in results["no such broker"].stderr
    assert elsewhere.exit_code == 2
    assert "say --address HOST:PORT" in elsewhere.stderr


def test_a_broker_without_metrics_says_how_to_get_them(tmp_path: Path) -> None:
    plain = LocalCluster(tmp_path)
    try:
        assert plain("cluster", "start", "--brokers", "1", "--detach").exit_code == 0
        refused = plain("metrics")
        path = str(plain.properties(1))
        plain.json("broker", "stop", "1")
        stopped = plain("metrics")
        plain.json("broker", "start", path, "--metrics-port", "0", "--detach")
        rows = plain.json("metrics", "--name", "kafka_server_kafkaserver_brokerstate")
    finally:
        plain.end()

    assert refused.exit_code == 5
    assert f"zkctl broker start {path} --metrics-port 0 --detach" in refused.stderr
    assert "broker 1 does not run" in stopped.stderr
    assert [row["metric"] for row in rows] == ["kafka_server_kafkaserver_brokerstate"]
