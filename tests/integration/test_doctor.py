"""``zkctl doctor`` on real brokers: silent while all is well, and what their trouble looks like."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.cli_cluster import LocalCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    cluster = LocalCluster(tmp_path_factory.mktemp("doctor"))
    try:
        started = cluster(
            *("cluster", "start", "--brokers", "3", "--detach"),
            # A frozen broker must stay registered while it is looked at.
            *("--override", "zookeeper.session.timeout.ms=60000"),
            *("--override", "auto.leader.rebalance.enable=false"),
        )
        assert started.exit_code == 0, started.stderr
        cluster.json("topic", "create", "orders", "--partitions", "6", "--replication-factor", "3")
        yield cluster
    finally:
        cluster.end()


def findings(cluster: LocalCluster, *arguments: str) -> dict[str, Any]:
    result = cluster("doctor", "-o", "json", *arguments)
    assert result.exit_code in (0, 1), result.stderr
    return {row["rule"]: row for row in result.json}


def wait_until_well(cluster: LocalCluster) -> None:
    cluster.wait_for(lambda: set(findings(cluster)) <= {"P09"}, timeout_s=90)


def broker(cluster: LocalCluster, *, is_controller: bool) -> dict[str, Any]:
    brokers = cluster.json("cluster", "status")["brokers"]
    found: dict[str, Any] = next(b for b in brokers if b["is_controller"] is is_controller)
    return found


def test_all_is_well(cluster: LocalCluster) -> None:
    wait_until_well(cluster)

    result = cluster("doctor")

    assert result.exit_code == 0
    assert "nothing is wrong" in result.stderr or "P09" in result.stdout


def test_a_broker_stopped_in_order_leaves_replicas_behind(cluster: LocalCluster) -> None:
    wait_until_well(cluster)
    other = broker(cluster, is_controller=False)["broker_id"]

    assert cluster("broker", "stop", str(other)).exit_code == 0
    found = findings(cluster)
    again = cluster("broker", "start", str(cluster.properties(other)), "--detach")

    assert again.exit_code == 0, again.stderr
    assert set(found) <= {"P14", "P09"}
    assert (found["P14"]["partition_count"], found["P14"]["topic_count"]) == (6, 1)
    assert all(f"not in sync: {other}" in each["what"] for each in found["P14"]["evidence"])
    wait_until_well(cluster)


def test_a_log_that_is_assigned_to_no_broker_is_a_stray(cluster: LocalCluster) -> None:
    wait_until_well(cluster)
    other = broker(cluster, is_controller=False)["broker_id"]
    assert cluster("broker", "stop", str(other)).exit_code == 0
    data = cluster.directory / f"broker-{other}" / "data"
    (data / "stray-0").mkdir()

    again = cluster("broker", "start", str(cluster.properties(other)), "--detach")
    assert again.exit_code == 0, again.stderr
    cluster.wait_for(lambda: "L01" in findings(cluster))

    finding = findings(cluster)["L01"]
    assert [each["what"] for each in finding["evidence"]] == [
        f"{data} holds stray-0, which is not assigned to it"
    ]
    assert set(findings(cluster, "--ignore", "L01=stray")) <= {"P09"}


def test_a_broker_whose_address_belongs_to_another_cluster_is_found(
    cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The other cluster's ZooKeeper registers an address of this one.

    Its controller sends that broker what it holds, so this cluster is of no use afterwards.
    """
    other = LocalCluster(tmp_path_factory.mktemp("other"))
    try:
        started = other("cluster", "start", "--brokers", "1", "--detach")
        assert started.exit_code == 0, started.stderr
        status = cluster.json("cluster", "status")
        assert other("broker", "stop", "1").exit_code == 0
        port = status["bootstrap_servers"].split(",")[0].rpartition(":")[2]
        announced = f"advertised.listeners=PLAINTEXT://127.0.0.1:{port}"
        again = other(
            *("broker", "start", str(other.properties(1)), "--detach", "--override", announced)
        )
        assert again.exit_code == 0, again.stderr

        found = findings(other)
    finally:
        other.end()

    [evidence] = found["B03"]["evidence"]
    assert evidence["where"] == "Metadata of broker 1"
