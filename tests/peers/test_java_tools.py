"""Kafka's own Java tools on a cluster of our brokers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.kafka_peer import run_kafka_tool
from tests.peers.cluster import TOPIC_COMMAND, Cluster, wait_until
from tests.support.znode_configs import config_of
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.znodes import TopicZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

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


def test_the_java_topic_tool_describes_and_deletes_a_topic(ours: Cluster) -> None:
    ours.topic_command(
        1, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "3",
        "--config", "retention.ms=1000",
    )  # fmt: skip
    ours.wait_until_all_brokers_agree(partitions=3)
    described = ours.topic_command(2, "--describe", "--topic", "orders")

    ours.topic_command(2, "--delete", "--topic", "orders")

    ours.wait_until_all_brokers_agree(partitions=0)
    assert ours.topic_command(3, "--list").split() == []
    assert "PartitionCount: 3\tReplicationFactor: 3\tConfigs: retention.ms=1000" in described


@pytest.fixture(scope="module")
def administered(kafka_cluster_factory: StartCluster, zookeeper: EmbeddedZooKeeper) -> KafkaCluster:
    """Three brokers, for the tools that change what is there."""
    return kafka_cluster_factory(3, zookeeper=f"{zookeeper.connect}/administered")


def tool(cluster: KafkaCluster, main_class: str, *arguments: str) -> str:
    """What a tool prints, which must succeed."""
    servers = ("--bootstrap-server", cluster.bootstrap_servers)
    done = run_kafka_tool(main_class, *servers, *arguments)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_java_topic_tool_adds_partitions(administered: KafkaCluster) -> None:
    administered.create_topic("growing")

    tool(administered, TOPIC_COMMAND, "--alter", "--topic", "growing", "--partitions", "3")

    data = administered.znode(TopicZnode.path("growing")).get()
    assert data is not None
    assert len(TopicZnode.decode("growing", data).partitions) == 3


def test_the_java_tool_moves_replicas_with_a_throttle(
    administered: KafkaCluster, tmp_path: Path
) -> None:
    administered.create_topic("moving", replicas=[[1, 2]])
    command = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
    plan = tmp_path / "plan.json"
    move = {"topic": "moving", "partition": 0, "replicas": [2, 3]}
    plan.write_text(json.dumps({"version": 1, "partitions": [move]}))
    given = ("--reassignment-json-file", str(plan))

    begun = tool(administered, command, *given, "--execute", "--throttle", "1000000")
    throttled = config_of(administered, "brokers/1"), config_of(administered, "topics/moving")
    wait_until(
        lambda: "No partition reassignments found" in tool(administered, command, "--list"),
        "the move",
    )
    verified = tool(administered, command, *given, "--verify")

    assert "Successfully started partition reassignment" in begun
    assert throttled == (
        {
            "leader.replication.throttled.rate": "1000000",
            "follower.replication.throttled.rate": "1000000",
        },
        {
            "leader.replication.throttled.replicas": "0:1,0:2",
            "follower.replication.throttled.replicas": "0:3",
        },
    )
    assert "Reassignment of partition moving-0 is completed." in verified
    assert config_of(administered, "brokers/1") == {}
    assert config_of(administered, "topics/moving") == {}


def test_the_java_tool_elects_the_preferred_leader(administered: KafkaCluster) -> None:
    administered.create_topic("elected", replicas=[[2, 1]])
    administered.bounce(2)
    administered.wait_isr("elected", brokers=(1, 2))
    assert administered.leader("elected") == 1

    said = tool(
        administered,
        "org.apache.kafka.tools.LeaderElectionCommand",
        *("--election-type", "preferred", "--topic", "elected", "--partition", "0"),
    )

    assert "Successfully completed leader election (PREFERRED) for partitions" in said
    assert administered.leader("elected") == 2


def test_the_java_tool_configures(administered: KafkaCluster) -> None:
    administered.create_topic("configured")
    command = "kafka.admin.ConfigCommand"
    topic = ("--entity-type", "topics", "--entity-name", "configured")
    everybody = ("--entity-type", "brokers", "--entity-default")
    loggers_of_one = ("--entity-type", "broker-loggers", "--entity-name", "1")

    tool(administered, command, *topic, "--alter", "--add-config", "retention.ms=7000")
    tool(administered, command, *everybody, "--alter", "--add-config", "log.retention.ms=9000")
    described = tool(administered, command, *topic, "--describe")
    loggers = tool(administered, command, *loggers_of_one, "--describe")
    tool(administered, command, *everybody, "--alter", "--delete-config", "log.retention.ms")

    assert "retention.ms=7000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=7000" in (
        described
    )
    assert "kafka.controller.KafkaController=" in loggers
    assert config_of(administered, "topics/configured") == {"retention.ms": "7000"}
    assert config_of(administered, "brokers/<default>") == {}
