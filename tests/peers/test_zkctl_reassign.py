"""``zkctl reassign`` and Kafka's own tools on Kafka 3.9.1 and 2.8.2: equal throttles and ends.

Kafka's tools are those of 3.9.1 on both, in one JVM for each cluster.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from benchmarks.kafka_peer import (
    KafkaBroker,
    kafka_tool,
)
from tests.peers.cluster import PROPERTIES, Cluster, wait_until
from tests.peers.kafka_versions import required_libs
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import Znode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

confluent_kafka: Any = pytest.importorskip("confluent_kafka")

TOOL: Final = str(Path(__file__).with_name("ReassignTool.java"))
BROKERS: Final = (1, 2, 3)
SLOW: Final = "30000"
FAST: Final = "1000000000"
SIZE: Final = 3_000_000
PROPOSED: Final = "Proposed partition reassignment configuration"
RATES: Final = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")

Replicas = dict[int, list[int]]


class Said(NamedTuple):
    """What ``zkctl`` came to."""

    exit_code: int
    json: Any
    stderr: str


class RealCluster(Cluster):
    """Three brokers of Kafka's with two log directories each, ``zkctl``, and Kafka's tools."""

    def start_version(self, version: str) -> None:
        for broker_id in BROKERS:
            directory = self._directory / f"broker-{broker_id}"
            log_dirs = ",".join(str(directory / name) for name in ("first", "second"))
            broker = KafkaBroker(
                broker_id,
                self.zookeeper,
                directory,
                PROPERTIES | {"log.dirs": log_dirs, "num.io.threads": "2"},
                heap="256M",
                libs=required_libs(version),
                is_brief=True,
            )
            self.brokers[broker_id] = broker
            broker.launch()
        for started in self.brokers.values():
            started.wait_until_started()
        self.wait_until(lambda: self.live_brokers() == set(BROKERS), "three brokers")
        self._tool = subprocess.Popen(
            kafka_tool(TOOL, self.servers),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def end(self) -> None:
        with self._tool as tool:
            tool.kill()
        self.close()

    @property
    def servers(self) -> str:
        return ",".join(map(self.bootstrap, BROKERS))

    def run(self, *arguments: str) -> Said:
        command = [sys.executable, "-m", "zkcontroller_cli", "-b", self.servers, "-o", "json"]
        done = subprocess.run(
            [*command, *arguments], capture_output=True, text=True, timeout=90, check=False
        )
        return Said(done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr)

    def zkctl(self, *arguments: str) -> Any:
        """What a command says that must succeed."""
        said = self.run(*arguments)
        assert said.exit_code == 0, said.stderr
        return said.json

    def kafka(self, line: str, *, exit_code: str = "0") -> list[str]:
        """The lines that one of Kafka's tools prints."""
        assert self._tool.stdin is not None
        assert self._tool.stdout is not None
        self._tool.stdin.write(line + "\n")
        self._tool.stdin.flush()
        printed: list[str] = []
        while not (said := self._tool.stdout.readline()).startswith("### "):
            assert said, "the tool has ended"
            printed.append(said.rstrip())
        assert said.split()[1] == exit_code, printed
        return [each for each in printed if each]

    def create(self, topic: str, assignment: str, *, size: int = 0) -> None:
        self.zkctl("topic", "create", topic, "--replica-assignment", assignment)
        count = len(assignment.split(","))

        def is_led() -> bool:
            found = self.run("topic", "describe", topic).json
            return found is not None and count == sum(
                each["leader"] >= 0 and set(each["isr"]) == set(each["replicas"])
                for each in found["partitions"]
            )

        self.wait_until(is_led, f"leaders of {topic}")
        if not size:
            return
        producer = confluent_kafka.Producer({"bootstrap.servers": self.servers, "acks": "all"})
        for partition in range(count):
            for _ in range(0, size, 10_000):
                producer.produce(topic, bytes(10_000), partition=partition)
        assert producer.flush(60) == 0

    def replicas(self, topic: str) -> Replicas:
        znode = self.session.read(f"/brokers/topics/{topic}")
        assert isinstance(znode, Znode)
        return {int(n): each for n, each in sorted(json.loads(znode.data)["partitions"].items())}

    def throttle(self, topic: str) -> dict[str, dict[str, str]]:
        """What is set on the topic, and on every broker."""
        found = {}
        for entity in (f"topics/{topic}", *(f"brokers/{each}" for each in BROKERS)):
            znode = self.session.read(f"/config/{entity}")
            if isinstance(znode, Znode) and (config := json.loads(znode.data)["config"]):
                found[entity.replace(topic, "TOPIC")] = config
        return found


@pytest.fixture(scope="module", params=["3.9.1", "2.8.2"])
def real(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[RealCluster]:
    version = request.param
    cluster = RealCluster(
        f"{zookeeper.connect}/reassign-{version}", tmp_path_factory.mktemp("reassign")
    )
    try:
        cluster.start_version(version)
        yield cluster
    finally:
        cluster.end()


def plan_file(path: Path, topic: str, replicas: Replicas) -> str:
    listed = [{"topic": topic, "partition": n, "replicas": each} for n, each in replicas.items()]
    path.write_text(json.dumps({"version": 1, "partitions": listed}))
    return str(path)


def moved(before: Replicas, after: Replicas) -> int:
    return sum(len(set(after[n]) - set(before[n])) for n in before)


def spread(assignment: Replicas, *, is_led: bool = False) -> int:
    """How much more the fullest broker holds, or leads, than the emptiest."""
    held: Counter[int] = Counter(dict.fromkeys(BROKERS, 0))
    for replicas in assignment.values():
        held.update(replicas[:1] if is_led else replicas)
    return max(held.values()) - min(held.values())


newest_only = pytest.mark.parametrize("real", ["3.9.1"], indirect=True)


@newest_only
def test_a_plan_is_as_even_as_kafkas_and_moves_less(real: RealCluster, tmp_path: Path) -> None:
    real.create("planned", ",".join(["1:2", "2:1", "1:3", "3:2", "1:2", "1:2", "2:1"]))
    topics = tmp_path / "topics.json"
    topics.write_text('{"version":1,"topics":[{"topic":"planned"}]}')
    before = real.replicas("planned")

    printed = real.kafka(
        f"reassign --generate --topics-to-move-json-file {topics} --broker-list 1,2,3"
    )
    rows = real.zkctl("reassign", "plan", "--balance", "--topic", "planned")

    proposed = json.loads(printed[1 + printed.index(PROPOSED)])
    theirs = {each["partition"]: each["replicas"] for each in proposed["partitions"]}
    ours = {**before, **{row["partition"]: row["replicas"] for row in rows}}
    assert spread(ours) <= spread(theirs)
    assert spread(ours, is_led=True) <= spread(theirs, is_led=True)
    # 14 replicas on three brokers: 6, 6 and 2 of them become 5, 5 and 4.
    assert moved(before, ours) == 2 <= moved(before, theirs)


def test_throttles_states_and_ends_are_those_of_kafkas_tool(
    real: RealCluster, tmp_path: Path
) -> None:
    target: Replicas = {0: [3, 2], 1: [2, 1]}
    by_kafka = plan_file(tmp_path / "kafka.json", "kafkas", target)
    by_us = plan_file(tmp_path / "ours.json", "ours", target)
    for topic in ("kafkas", "ours"):
        real.create(topic, "1:2,1:2", size=SIZE)

    real.kafka(f"reassign --execute --reassignment-json-file {by_kafka} --throttle {SLOW}")
    theirs = real.throttle("kafkas")
    unfinished = real.run("reassign", "verify", "--file", by_kafka, "--yes")
    # It is Kafka's plan; zkctl only makes it faster, and sees it to its end.
    faster = ("--throttle", FAST, "--wait", "--yes")
    raised = real.run("reassign", "start", "--file", by_kafka, *faster)
    after_theirs = real.throttle("kafkas")
    verified = real.kafka(f"reassign --verify --reassignment-json-file {by_kafka}")

    begun = real.run("reassign", "start", "--file", by_us, "--throttle", SLOW, "--yes")
    ours = real.throttle("ours")
    listed = real.kafka("reassign --list")
    status = real.run("reassign", "status", "--interval", "1")
    under_way = real.kafka(f"reassign --verify --reassignment-json-file {by_us}")
    real.zkctl("reassign", "start", "--file", by_us, "--throttle", FAST, "--yes")

    def ended() -> bool:
        return real.run("reassign", "verify", "--file", by_us, "--yes").exit_code == 0

    wait_until(ended, "the end of ours", timeout_s=60)
    after_ours = real.throttle("ours")
    agreed = real.kafka(f"reassign --verify --reassignment-json-file {by_us}")

    rates = dict.fromkeys(RATES, SLOW)
    assert theirs == {
        "topics/TOPIC": {
            "leader.replication.throttled.replicas": "0:1,0:2,1:1,1:2",
            "follower.replication.throttled.replicas": "0:3",
        },
        **{f"brokers/{each}": rates for each in BROKERS},
    }
    assert ours == theirs
    assert unfinished.exit_code == 1
    assert {row["partition"]: row["status"] for row in unfinished.json} == {
        0: "in_progress",
        1: "done",
    }
    assert raised.exit_code == 0, raised.stderr
    assert [row["status"] for row in raised.json] == ["done", "done"]
    assert after_theirs == after_ours == {}
    for topic, lines in (("kafkas", verified), ("ours", agreed)):
        for partition in (0, 1):
            assert f"Reassignment of partition {topic}-{partition} is completed." in lines
    assert begun.exit_code == 0, begun.stderr
    assert "ours-0: replicas: 3,2,1. adding: 3. removing: 1." in listed
    [move] = status.json
    assert (move["replicas"], move["adding_replicas"], move["removing_replicas"]) == (
        *([3, 2], [3], [1]),
    )
    assert 0 <= move["copied_bytes"] < move["total_bytes"]
    assert move["total_bytes"] >= SIZE
    assert "Reassignment of partition ours-0 is still in progress." in under_way
    assert real.replicas("ours") == real.replicas("kafkas") == target


@newest_only
def test_a_cancelled_move_and_its_throttle_are_gone_for_kafkas_tool_too(
    real: RealCluster, tmp_path: Path
) -> None:
    real.create("turned", "1:2", size=SIZE)
    file = plan_file(tmp_path / "turned.json", "turned", {0: [1, 3]})
    real.zkctl("reassign", "start", "--file", file, "--throttle", SLOW, "--yes")

    cancelled = real.run("reassign", "cancel", "--file", file, "--yes")
    listed = real.kafka("reassign --list")
    verified = real.kafka(f"reassign --verify --preserve-throttles --reassignment-json-file {file}")

    assert cancelled.exit_code == 0, cancelled.stderr
    assert [row["is_cancelled"] for row in cancelled.json] == [True]
    assert "No partition reassignments found." in listed
    assert any("rather than 1,3" in line for line in verified)
    assert real.throttle("turned") == {}
    assert real.replicas("turned") == {0: [1, 2]}


def described(cluster: RealCluster, topics: Sequence[str]) -> set[tuple[Any, ...]]:
    """What kafka-log-dirs says."""
    printed = cluster.kafka(f"log-dirs --describe --topic-list {','.join(topics)}")
    document = json.loads(next(line for line in printed if line.startswith("{")))
    return {
        (broker["broker"], log_dir["logDir"], each["partition"], each["size"], each["isFuture"])
        for broker in document["brokers"]
        for log_dir in broker["logDirs"]
        for each in log_dir["partitions"]
    }


def test_log_directories_are_those_of_kafkas_tool_before_and_after_a_move(
    real: RealCluster, tmp_path: Path
) -> None:
    real.create("disks", "1:2,2:1", size=100_000)

    def sizes() -> set[tuple[Any, ...]]:
        return {
            (row["broker_id"], row["log_dir"], f"{row['topic']}-{row['partition']}",
             row["size_bytes"], row["is_future"])
            for row in real.zkctl("log-dirs", "sizes", "--by", "partition", "--topic", "disks")
        }  # fmt: skip

    before, by_kafka = sizes(), described(real, ["disks"])
    [source] = [path for broker, path, name, *_ in before if (broker, name) == (1, "disks-0")]
    [target] = [
        row["log_dir"] for row in real.zkctl("log-dirs", "sizes", "1") if row["log_dir"] != source
    ]
    moved_there = real.run("log-dirs", "move", "1", "disks-0", "--to", target, "--wait", "--yes")
    there, there_by_kafka = sizes(), described(real, ["disks"])
    back = tmp_path / "back.json"
    listed = {"topic": "disks", "partition": 0, "replicas": [1, 3], "log_dirs": [source, "any"]}
    back.write_text(json.dumps({"version": 1, "partitions": [listed]}))
    planned = real.run("reassign", "start", "--file", str(back), "--wait", "--yes")
    verified = real.kafka(f"reassign --verify --reassignment-json-file {back}")
    strays = real.zkctl("log-dirs", "strays")

    assert before == by_kafka
    assert moved_there.exit_code == 0, moved_there.stderr
    assert [row["status"] for row in moved_there.json] == ["done"]
    assert there == there_by_kafka
    assert (1, target, "disks-0") in {each[:3] for each in there}
    assert planned.exit_code == 0, planned.stderr
    assert "Reassignment of partition disks-0 is completed." in verified
    assert "Reassignment of replica disks-0-1 completed successfully." in verified
    assert strays == []


def test_a_broker_is_emptied_and_leaders_are_elected_as_kafkas_tools_have_it(
    real: RealCluster, tmp_path: Path
) -> None:
    real.create("full", "3:1,1:3", size=10_000)
    named = tmp_path / "named.json"
    named.write_text('{"partitions":[{"topic":"full","partition":0}]}')

    handed = real.run("broker", "drain", "1", "--leadership-only", "--yes")
    led = {view.leader for view in real.partitions().values()}
    drained = real.run("broker", "drain", "3", "--throttle", FAST, "--yes")
    held = {broker for view in real.partitions().values() for broker in view.replicas}
    elected = real.run("partition", "elect", "--file", str(named), "--yes")
    by_kafka = real.kafka(
        f"elect --election-type preferred --path-to-json-file {named}", exit_code="0"
    )

    assert handed.exit_code == 0, handed.stderr
    assert 1 not in led
    assert drained.exit_code == 0, drained.stderr
    assert drained.json["is_drained"]
    assert held == {1, 2}
    assert real.throttle("full") == {}
    assert elected.exit_code == 0, elected.stderr
    assert by_kafka == ["Valid replica already elected for partitions full-0"]
