"""``zkctl`` on brokers of Kafka 2.4.1 and 2.8.2, by brokers alone and by ZooKeeper alone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from benchmarks.kafka_peer import KafkaBroker
from tests.peers.clients import run_tool
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required_libs
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

TOPICS: Final = "kafka.admin.TopicCommand"
BROKERS: Final = (1, 2)


class OldCluster(Cluster):
    """Two brokers of that Kafka."""

    def __init__(self, zookeeper: str, directory: Path, version: str) -> None:
        super().__init__(zookeeper, directory)
        self.version = version

    def start_all(self) -> None:
        for broker_id in BROKERS:
            broker = KafkaBroker(
                broker_id,
                self.zookeeper,
                self._directory / f"old-{broker_id}",
                PROPERTIES | {"log.segment.bytes": "1048576"},
                heap="384M",
                libs=required_libs(self.version),
                is_brief=True,
            )
            self.start(broker)

    @property
    def servers(self) -> str:
        return ",".join(map(self.bootstrap, BROKERS))

    def zkctl(self, *arguments: str, exit_code: int = 0) -> Any:
        """What it says as JSON; the addresses are among the arguments."""
        done = subprocess.run(
            [sys.executable, "-m", "zkcontroller_cli", "-o", "json", *arguments],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == exit_code, done.stderr
        return orjson.loads(done.stdout) if done.stdout else done.stderr


@pytest.fixture(scope="module", params=["2.4.1", "2.8.2"])
def old(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[OldCluster]:
    chroot = f"{zookeeper.connect}/older-{request.param}"
    cluster = OldCluster(chroot, tmp_path_factory.mktemp("older"), request.param)
    try:
        cluster.start_all()
        yield cluster
    finally:
        cluster.close()


@pytest.fixture(params=["brokers", "ZooKeeper"])
def named(request: pytest.FixtureRequest, old: OldCluster) -> Callable[..., Any]:
    """``zkctl`` with one address: of the brokers, or of ZooKeeper."""
    address = ("-b", old.servers) if request.param == "brokers" else ("-z", old.zookeeper)

    def ask(*arguments: str, exit_code: int = 0) -> Any:
        return old.zkctl(*address, *arguments, exit_code=exit_code)

    return ask


def test_a_topic_lives_its_life(old: OldCluster, named: Callable[..., Any]) -> None:
    created = named("topic", "create", "life", "--partitions", "2", "--replication-factor", "2")
    old.wait_until(lambda: len(old.of("life")) == 2, "two partitions")
    grown = named("topic", "alter", "life", "--partitions", "3", "--yes")
    old.wait_until(lambda: len(old.of("life")) == 3, "three partitions")
    changed = named("config", "set", "topic", "life", "--config", "retention.ms=12345", "--yes")
    configs = named("config", "get", "topic", "life", "--key", "retention.ms")
    described = named("topic", "describe", "life")
    by_kafka = run_tool(
        *(TOPICS, "--bootstrap-server", old.servers, "--describe", "--topic", "life"),
        libs=required_libs(old.version),
    )
    offsets = named("topic", "offsets", "life")
    deleted = named("topic", "delete", "life", "--yes")

    assert created["partition_count"] == 2
    assert grown["partition_count"] == 3
    assert [(row["name"], row["value"]) for row in changed] == [("retention.ms", "12345")]
    assert [(row["value"], row["source"]) for row in configs] == [("12345", "topic")]
    assert described["topic_id"] == created["topic_id"]
    topic_id = described["topic_id"]
    assert (topic_id is not None) == (old.version == "2.8.2")
    assert (f"TopicId: {topic_id}\t" if topic_id else "Topic: life\t") in by_kafka
    assert "PartitionCount: 3" in by_kafka
    for row in described["partitions"]:
        replicas, isr = (",".join(map(str, row[key])) for key in ("replicas", "isr"))
        line = f"Partition: {row['partition']}\tLeader: {row['leader']}\tReplicas: {replicas}"
        assert f"{line}\tIsr: {isr}" in by_kafka
    assert [(row["earliest_offset"], row["latest_offset"], row["error"]) for row in offsets] == [
        (0, 0, None)
    ] * 3
    assert [(row["topic"], row["is_deleted"]) for row in deleted] == [("life", True)]
    old.wait_until(lambda: not old.of("life"), "the end of the topic")


def test_replicas_move_and_leaderships_go_back(old: OldCluster, named: Callable[..., Any]) -> None:
    named("topic", "create", "moving", "--replica-assignment", "1,1")
    old.wait_until(lambda: len(old.of("moving")) == 2, "two partitions")

    planned = named("reassign", "start", "moving-0:2,1", "--dry-run")
    begun = named("reassign", "start", "moving-0:2,1", "--yes", "--wait")
    ongoing = named("reassign", "status")
    elected = named("partition", "elect", "moving-0", "--yes")

    assert [row["adding_replicas"] for row in planned] == [[2]]
    assert [row["error"] for row in begun] == [None]
    assert ongoing == []
    assert [row["error"] for row in elected] == [None]
    old.wait_until(lambda: old.of("moving")[0].leader == 2, "the preferred leader")
    named("topic", "delete", "moving", "--yes")
    old.wait_until(lambda: not old.of("moving"), "the end of the topic")


def test_brokers_tell_their_directories_and_configurations(named: Callable[..., Any]) -> None:
    directories = named("log-dirs", "sizes")
    [size] = named("config", "get", "broker", "1", "--key", "log.segment.bytes")

    assert [row["broker_id"] for row in directories] == list(BROKERS)
    assert all(row["error"] is None for row in directories)
    assert (size["value"], size["source"]) == ("1048576", "static_broker")


def test_the_controller_moves(old: OldCluster) -> None:
    elected = old.zkctl("-z", old.zookeeper, "controller", "elect", "--yes")

    assert elected["controller_epoch"] == elected["controller_epoch_before"] + 1
    assert elected["controller_id"] in BROKERS


def test_the_doctor_is_silent_until_a_broker_dies(old: OldCluster) -> None:
    at = ("-b", old.servers, "-z", old.zookeeper)
    old.zkctl(*at, "topic", "create", "watched", "--replica-assignment", "1:2,2:1")
    old.wait_until(lambda: len(old.of("watched")) == 2, "two partitions")

    healthy = {row["rule"] for row in old.zkctl(*at, "doctor")}
    old.brokers[2].kill()
    old.wait_until(lambda: old.live_brokers() == {1}, "the end of its session")
    old.wait_until(
        lambda: all(view.leader == 1 for view in old.of("watched").values()), "other leaders"
    )
    ill = {row["rule"]: row for row in old.zkctl(*at, "doctor", exit_code=1)}

    assert healthy <= {"P09"}
    assert ill["P06"]["partition_count"] >= 2
    states = [each["where"] for each in ill["P06"]["evidence"]]
    assert any("/topics/watched/partitions/0/state" in where for where in states)
    assert set(ill) <= {"P06", "P09", "P01", "P14"}
