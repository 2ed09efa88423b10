"""Kafka's own Java tools on a cluster of our brokers."""

from __future__ import annotations

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from tests.peers.cluster import TOPIC_COMMAND, Cluster

pytestmark = pytest.mark.peers


@pytest.fixture
def ours(cluster: Cluster) -> Cluster:
    for broker_id in (1, 2, 3):
        cluster.start_ours(broker_id)
    return cluster


def test_the_java_topic_tool_creates_and_lists_topics(ours: Cluster) -> None:
    created = ours.topic_command(
        2, "--create", "--topic", "orders", "--partitions", "6", "--replication-factor", "3"
    )
    ours.topic_command(3, "--create", "--topic", "payments", "--replica-assignment", "3:1,1:2,2:3")
    listed = ours.topic_command(1, "--list")

    assert created.strip() == "Created topic orders."
    assert listed.split() == ["orders", "payments"]
    ours.wait_until_all_brokers_agree(partitions=9)
    assert [ours.partitions()["payments", partition].leader for partition in range(3)] == [3, 1, 2]


def test_the_leaders_that_java_sees_are_those_of_the_znodes(ours: Cluster) -> None:
    ours.topic_command(
        1, "--create", "--topic", "orders", "--partitions", "6", "--replication-factor", "3"
    )
    ours.wait_until_all_brokers_agree(partitions=6)

    ours.brokers[3].stop()
    ours.wait_until(lambda: ours.live_brokers() == {1, 2}, "broker 3 leaves")
    ours.wait_until_all_brokers_agree(partitions=6)

    expected = {key: view.leader for key, view in ours.partitions().items()}
    assert set(expected.values()) == {1, 2}
    assert ours.leaders_seen_by_java(1) == expected
    assert ours.leaders_seen_by_java(2) == expected


def test_java_clients_see_why_a_topic_cannot_be_created(ours: Cluster) -> None:
    ours.topic_command(
        1, "--create", "--topic", "orders", "--partitions", "1", "--replication-factor", "1"
    )

    again = run_kafka_tool(
        TOPIC_COMMAND, "--bootstrap-server", ours.bootstrap(2), "--create", "--topic", "orders",
        "--partitions", "1", "--replication-factor", "1",
    )  # fmt: skip
    too_many = run_kafka_tool(
        TOPIC_COMMAND, "--bootstrap-server", ours.bootstrap(2), "--create", "--topic", "huge",
        "--partitions", "1", "--replication-factor", "4",
    )  # fmt: skip

    assert again.returncode == 1
    assert "Topic 'orders' already exists." in again.stdout
    assert too_many.returncode == 1
    assert "larger than available brokers: 3." in too_many.stdout


def test_the_java_topic_tool_deletes_a_topic(ours: Cluster) -> None:
    ours.topic_command(
        1, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3"
    )
    ours.wait_until_all_brokers_agree(partitions=3)

    ours.topic_command(2, "--delete", "--topic", "orders")

    ours.wait_until_all_brokers_agree(partitions=0)
    assert ours.topic_command(3, "--list").split() == []
