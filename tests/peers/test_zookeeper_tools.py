"""The tools that write to ZooKeeper behind every broker's back: only the controller can notice.

They are those of Kafka 2.8, the last that take ``--zookeeper``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Final

import pytest

from tests.peers.clients import consume, produce, run_tool
from tests.peers.kafka_versions import required_libs
from tests.peers.real_brokers import OURS, REAL, RealBrokers
from zkcontroller.zookeeper.requests import ZkCode, Znode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(150)]

TOPICS: Final = "kafka.admin.TopicCommand"
CONFIGS: Final = "kafka.admin.ConfigCommand"
PREFERRED_ELECTION: Final = "kafka.admin.PreferredReplicaLeaderElectionCommand"
REASSIGN: Final = "kafka.admin.ReassignPartitionsCommand"


class ZooKeeperTools:
    """Tools of Kafka 2.8 on one cluster."""

    def __init__(self, cluster: RealBrokers, libs: Path, directory: Path) -> None:
        self.cluster = cluster
        self._libs = libs
        self._directory = directory

    def run(self, tool: str, *arguments: str) -> str:
        """What the tool prints; it must succeed."""
        return run_tool(tool, "--zookeeper", self.cluster.zookeeper, *arguments, libs=self._libs)

    def file(self, content: object) -> str:
        """The path of a file that holds ``content`` as JSON."""
        path = self._directory / "argument.json"
        path.write_text(json.dumps(content))
        return str(path)

    def create(self, topic: str, assignment: str) -> None:
        """Creates a topic in ZooKeeper and waits until every broker knows it."""
        printed = self.run(TOPICS, "--create", "--topic", topic, "--replica-assignment", assignment)
        assert f"Created topic {topic}." in printed
        partitions = assignment.count(",") + 1
        self.wait_for_partitions(topic, partitions)

    def wait_for_partitions(self, topic: str, count: int) -> None:
        """Waits until the topic has so many partitions, and every broker tells of them."""
        self.cluster.wait_until(
            lambda: len(self.cluster.of(topic)) == count, f"{count} partitions of {topic}"
        )
        self.cluster.wait_until_all_brokers_know(topic)

    def reassign(self, what: str, plan: str, *more: str) -> str:
        return self.run(REASSIGN, "--reassignment-json-file", plan, what, *more)


@pytest.fixture
def tools(real_brokers: RealBrokers, tmp_path: Path) -> ZooKeeperTools:
    """Tools on three of Kafka's brokers under our controller."""
    return ZooKeeperTools(real_brokers, required_libs("2.8.2"), tmp_path)


def test_a_topic_is_created_grown_and_deleted_in_zookeeper(tools: ZooKeeperTools) -> None:
    tools.create("fruit", "1:2,2:3")
    znode = tools.cluster.session.read("/brokers/topics/fruit")
    assert isinstance(znode, Znode)
    # Kafka 2.8 wrote none.
    assert json.loads(znode.data)["topic_id"]
    assert [tools.cluster.of("fruit")[partition].leader for partition in (0, 1)] == [1, 2]
    produce(tools.cluster.clients, "fruit", ["apple", "pear"])
    assert sorted(consume(tools.cluster.clients, "fruit", "eaters", 2)) == ["apple", "pear"]

    tools.run(
        TOPICS, "--alter", "--topic", "fruit", "--partitions", "3",
        "--replica-assignment", "1:2,2:3,3:1",
    )  # fmt: skip
    tools.wait_for_partitions("fruit", 3)
    assert tools.cluster.of("fruit")[2].leader == 3

    tools.run(TOPICS, "--delete", "--topic", "fruit")
    tools.wait_for_partitions("fruit", 0)
    tools.cluster.wait_until(
        lambda: "fruit" not in tools.run(TOPICS, "--list"), "its deletion is over"
    )
    for broker_id in REAL:
        data = tools.cluster.brokers[broker_id].directory / "data"
        assert [path.name for path in data.glob("fruit-?")] == []


def test_configurations_written_to_zookeeper_reach_every_broker(tools: ZooKeeperTools) -> None:
    tools.create("tuned", "1:2")

    tools.run(
        CONFIGS, "--alter", "--entity-type", "topics", "--entity-name", "tuned",
        "--add-config", "retention.ms=86400000",
    )  # fmt: skip
    for broker_id in (1, OURS):
        tools.run(
            CONFIGS, "--alter", "--entity-type", "brokers", "--entity-name", str(broker_id),
            "--add-config", "follower.replication.throttled.rate=1234567",
        )  # fmt: skip
    tools.run(
        CONFIGS, "--alter", "--entity-type", "users", "--entity-name", "alice",
        "--add-config", "producer_byte_rate=1000000",
    )  # fmt: skip

    def described(at: int, kind: str, name: str) -> str:
        return run_tool(
            CONFIGS, "--bootstrap-server", tools.cluster.bootstrap(at),
            "--describe", "--entity-type", kind, "--entity-name", name,
        )  # fmt: skip

    def knows_both(broker_id: int) -> bool:
        topic = described(broker_id, "topics", "tuned")
        broker = described(broker_id, "brokers", str(broker_id))
        return "retention.ms=86400000" in topic and "throttled.rate=1234567" in broker

    tools.cluster.wait_until(lambda: knows_both(1), "broker 1 knows both")
    tools.cluster.wait_until(lambda: knows_both(OURS), "ours knows both")
    for broker_id in REAL:
        log = "\n".join(tools.cluster.brokers[broker_id].log_lines("server.log"))
        assert re.search(r"topics/tuned.*retention\.ms -> 86400000", log)


def test_replicas_move_and_leaders_return_by_orders_in_zookeeper(tools: ZooKeeperTools) -> None:
    tools.create("moving", "1:2,2:3")
    values = [f"{number:0>1000}" for number in range(100)]
    produce(tools.cluster.clients, "moving", values)

    plan = tools.file(_plan({0: [3, 1], 1: [3, 2]}))
    started = tools.reassign("--execute", plan, "--throttle", "10000000")
    assert "Successfully started partition reassignments for moving-0,moving-1" in started
    tools.cluster.wait_until(
        lambda: tools.cluster.session.read("/admin/reassign_partitions") is ZkCode.NO_NODE,
        "both have moved",
    )
    verified = tools.reassign("--verify", plan)
    assert "Reassignment of partition moving-0 is complete." in verified
    assert "Reassignment of partition moving-1 is complete." in verified
    moved = tools.cluster.of("moving")
    assert [moved[partition].in_sync_replicas for partition in (0, 1)] == [{3, 1}, {3, 2}]
    assert [moved[partition].leader for partition in (0, 1)] == [1, 2]

    one = {"partitions": [{"topic": "moving", "partition": 0}]}
    elected = tools.run(PREFERRED_ELECTION, "--path-to-json-file", tools.file(one))
    assert "moving-0" in elected
    tools.cluster.wait_until(lambda: tools.cluster.of("moving")[0].leader == 3, "3 leads 0")
    assert tools.cluster.of("moving")[1].leader == 2
    tools.run(PREFERRED_ELECTION)
    tools.cluster.wait_until(lambda: tools.cluster.of("moving")[1].leader == 3, "3 leads 1")

    tools.cluster.wait_until_all_brokers_know("moving")
    assert sorted(consume(tools.cluster.clients, "moving", "movers", 100)) == values


def _plan(targets: dict[int, list[int]]) -> dict[str, object]:
    return {
        "version": 1,
        "partitions": [
            {"topic": "moving", "partition": partition, "replicas": replicas}
            for partition, replicas in targets.items()
        ],
    }
