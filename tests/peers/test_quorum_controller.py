"""Three nodes of ours are the quorum, and lead a cluster whose brokers are Kafka's own."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.peers.kraft_cluster import PATIENCE_S, KRaftCluster

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

TOPICS: Final = "org.apache.kafka.tools.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECT: Final = "org.apache.kafka.tools.LeaderElectionCommand"


@pytest.fixture(scope="module")
def cluster(
    kafka: Path,  # noqa: ARG001 - without Kafka there is no broker to lead
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[KRaftCluster]:
    made = KRaftCluster(tmp_path_factory.mktemp("kraft"))
    try:
        made.start()
        yield made
    finally:
        made.close()


def test_kafkas_tools_create_change_and_delete_a_topic(cluster: KRaftCluster) -> None:
    cluster.tool(
        TOPICS, "--create", "--topic", "orders", "--partitions", "3", "--replication-factor", "2",
        "--config", "retention.ms=3600000",
    )  # fmt: skip
    cluster.wait_until_known("orders", 3)
    cluster.tool(TOPICS, "--alter", "--topic", "orders", "--partitions", "5")
    cluster.wait_until_known("orders", 5)
    cluster.tool(
        CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "orders",
        "--add-config", "max.message.bytes=123456",
    )  # fmt: skip

    described = cluster.tool(TOPICS, "--describe", "--topic", "orders")

    assert "PartitionCount: 5" in described
    assert "ReplicationFactor: 2" in described
    assert "retention.ms=3600000" in described
    assert "max.message.bytes=123456" in described
    assert all(isr == [11, 12] for _, _, isr in cluster.partitions("orders").values())

    cluster.tool(TOPICS, "--delete", "--topic", "orders")

    cluster.wait_until(
        lambda: "orders" not in cluster.tool(TOPICS, "--list").split(), "the topic is gone"
    )


def test_a_group_reads_what_an_idempotent_producer_has_written(cluster: KRaftCluster) -> None:
    cluster.create("numbers", 3, 2)

    acknowledged = cluster.produce("numbers", range(2_000))
    found = cluster.consume("numbers", 2_000, "readers")

    assert sorted(acknowledged) == list(range(2_000))
    assert sorted(found) == list(range(2_000))


def test_a_killed_broker_leaves_the_isr_and_comes_back_into_it(cluster: KRaftCluster) -> None:
    cluster.create("killed", 4, 2)
    victim = cluster.brokers[12]

    victim.end(signal.SIGKILL)

    cluster.wait_until(
        lambda: all(state[0] == 11 for state in cluster.partitions("killed").values()),
        "the other one leads everything",
    )
    assert all(isr == [11] for _, _, isr in cluster.partitions("killed").values())

    victim.start()

    cluster.wait_until(
        lambda: all(state[2] == [11, 12] for state in cluster.partitions("killed").values()),
        "it is in sync again",
    )
    cluster.tool(ELECT, "--election-type", "preferred", "--all-topic-partitions")
    cluster.wait_until(
        lambda: all(
            leader == replicas[0] for leader, replicas, _ in cluster.partitions("killed").values()
        ),
        "the preferred replicas lead",
    )


def test_a_broker_that_is_stopped_hands_its_leaderships_over_first(cluster: KRaftCluster) -> None:
    cluster.create("stopped", 4, 2)
    stopping = cluster.brokers[12]

    code = stopping.end(signal.SIGTERM)

    assert code == 128 + signal.SIGTERM  # how a JVM ends after a clean stop
    assert all(state[0] == 11 for state in cluster.partitions("stopped").values())

    stopping.start()
    cluster.wait_until(
        lambda: all(state[2] == [11, 12] for state in cluster.partitions("stopped").values()),
        "it is in sync again",
    )


def test_partitions_move_to_another_broker(cluster: KRaftCluster, tmp_path: Path) -> None:
    cluster.create("moving", 2, 1)
    plan = {
        "version": 1,
        "partitions": [
            {"topic": "moving", "partition": 0, "replicas": [11]},
            {"topic": "moving", "partition": 1, "replicas": [12, 11]},
        ],
    }
    cluster.produce("moving", range(100))
    file = tmp_path / "plan.json"
    file.write_text(json.dumps(plan))

    cluster.tool(REASSIGN, "--execute", "--reassignment-json-file", str(file))

    cluster.wait_until(
        lambda: (
            "is still in progress"
            not in cluster.tool(REASSIGN, "--verify", "--reassignment-json-file", str(file))
        ),
        "the partitions have moved",
    )
    moved = cluster.partitions("moving")
    assert moved[0][1:] == ([11], [11])
    assert moved[1][1] == [12, 11]
    assert moved[1][2] == [11, 12]


def test_no_acknowledged_record_is_lost_when_the_active_controller_dies(
    cluster: KRaftCluster,
) -> None:
    cluster.create("failover", 3, 2, **{"min.insync.replicas": "2"})
    acknowledged: list[int] = []
    load = threading.Thread(
        target=lambda: acknowledged.extend(
            value
            for start in range(0, 4_000, 200)
            for value in cluster.produce("failover", range(start, start + 200))
        )
    )

    load.start()
    for _ in range(2):
        leader = cluster.quorum.leader()
        cluster.quorum.voters[leader].kill()
        cluster.create(f"after-{leader}", 1, 2)  # another controller is at work
        cluster.quorum.start(leader)
        cluster.quorum.wait_until_all_follow()
    load.join(timeout=PATIENCE_S)

    assert not load.is_alive()
    assert sorted(acknowledged) == list(range(4_000))
    assert sorted(cluster.consume("failover", 4_000, "checkers")) == list(range(4_000))
    leaders = [voter.leaders() for voter in cluster.quorum.voters.values()]
    merged: dict[int, set[int]] = {}
    for found in leaders:
        for epoch, node_id in found.items():
            merged.setdefault(epoch, set()).add(node_id)
    assert all(len(nodes) == 1 for nodes in merged.values()), merged
