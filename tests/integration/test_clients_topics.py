"""Real clients create, list, describe and delete topics, and see what the znodes say."""

from __future__ import annotations

import shutil
import subprocess
from typing import Any

import pytest

from tests.integration.broker_processes import admin_client, wait_for
from zkcontroller.zookeeper.znodes import TopicZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    """Three brokers, for all clients."""
    return kafka_cluster_factory(3, zookeeper=zookeeper_connect)


def leaders_in_znodes(cluster: KafkaCluster, topic: str, partitions: int) -> dict[int, int]:
    """Partition to leader, as the state znodes have it."""
    return {p: cluster.wait_leader(topic, p) for p in range(partitions)}


def is_gone(cluster: KafkaCluster, topic: str) -> bool:
    return cluster.znode(TopicZnode.path(topic)).get() is None


def test_confluent_kafka(cluster: KafkaCluster) -> None:
    admin_module = pytest.importorskip("confluent_kafka.admin")
    admin = admin_client(cluster.bootstrap_servers)
    topic = admin_module.NewTopic("confluent", 6, 3, config={"retention.ms": "1000"})

    [created] = admin.create_topics([topic], operation_timeout=20).values()
    assert created.result(30) is None

    def leaders_seen() -> dict[int, int]:
        listed: Any = admin.list_topics("confluent", timeout=20)
        assert set(listed.brokers) == {1, 2, 3}
        return {p: seen.leader for p, seen in listed.topics["confluent"].partitions.items()}

    # The answer comes when the controller knows; the other brokers get it at the same time.
    leaders = leaders_in_znodes(cluster, "confluent", 6)
    wait_for(lambda: leaders_seen() == leaders, "every broker to know the leaders")

    resource = admin_module.ConfigResource("topic", "confluent")
    [configs] = admin.describe_configs([resource]).values()
    assert configs.result(20)["retention.ms"].value == "1000"

    [again] = admin.create_topics([topic]).values()
    with pytest.raises(Exception, match="already exists"):
        again.result(20)

    [deleted] = admin.delete_topics(["confluent"], operation_timeout=20).values()
    assert deleted.result(30) is None
    wait_for(lambda: is_gone(cluster, "confluent"), "the deletion")


def test_kafka_python(cluster: KafkaCluster) -> None:
    kafka = pytest.importorskip("kafka")
    admin_module = pytest.importorskip("kafka.admin")
    admin = kafka.KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        admin.create_topics([admin_module.NewTopic("kafka-python", 3, 2)], timeout_ms=20_000)

        leaders = leaders_in_znodes(cluster, "kafka-python", 3)

        def leaders_seen() -> dict[int, int]:
            [topic] = admin.describe_topics(["kafka-python"])
            return {p["partition_index"]: p["leader_id"] for p in topic["partitions"]}

        wait_for(lambda: leaders_seen() == leaders, "every broker to know the leaders")
        # Each of them asks a broker of its choice.
        assert wait_for(lambda: "kafka-python" in admin.list_topics(), "the topic in the list")

        admin.delete_topics(["kafka-python"], timeout_ms=20_000)
        wait_for(lambda: is_gone(cluster, "kafka-python"), "the deletion")
    finally:
        admin.close()


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not on the PATH")
def test_kcat(cluster: KafkaCluster) -> None:
    def kcat(*arguments: str) -> str:
        command = ["kcat", "-b", cluster.bootstrap_servers, "-L", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
        return done.stdout

    listed = kcat()
    assert "3 brokers:" in listed
    assert listed.count("(controller)") == 1

    kcat("-t", "kcat-made")  # asking creates
    leaders = leaders_in_znodes(cluster, "kcat-made", 1)

    assert wait_for(
        lambda: f"partition 0, leader {leaders[0]}" in kcat("-t", "kcat-made"), "the leader"
    )
