"""``zkctl metadata diff``, ``snapshot`` and ``check perf`` on brokers of Kafka 3.9.1 and 2.8.2."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import orjson
import pytest

from benchmarks.kafka_peer import KafkaBroker
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required_libs
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import SetData, Znode

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

BROKERS: Final = (1, 2)


class TruthCluster(Cluster):
    """Two brokers of one version of Kafka, started together."""

    version = ""

    def start_version(self, version: str) -> None:
        self.version = version
        for broker_id in BROKERS:
            self.brokers[broker_id] = KafkaBroker(
                broker_id,
                self.zookeeper,
                self._directory / f"kafka-{broker_id}",
                PROPERTIES,
                heap="384M",
                libs=required_libs(version),
                is_brief=True,
            )
            self.brokers[broker_id].launch()
        for broker_id in BROKERS:
            self.brokers[broker_id].wait_until_started()
        self.wait_until(lambda: self.live_brokers() == set(BROKERS), "both are registered")

    def zkctl(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> Any:
        """What a verb says as JSON, by ZooKeeper unless brokers are named."""
        where = () if "-b" in arguments else ("-z", self.zookeeper)
        done = subprocess.run(
            [sys.executable, "-m", "zkcontroller_cli", "-o", "json", *where, *arguments],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode in codes, done.stdout + done.stderr
        return orjson.loads(done.stdout)

    def brokers_alone(self) -> tuple[str, str]:
        return "-b", ",".join(map(self.bootstrap, sorted(self.live_brokers())))


@pytest.fixture(scope="module", params=["3.9.1", "2.8.2"])
def real(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[TruthCluster]:
    chroot = f"{zookeeper.connect}/truth-{request.param}"
    cluster = TruthCluster(chroot, tmp_path_factory.mktemp("truth"))
    try:
        cluster.start_version(request.param)
        created = ("topic", "create", "orders", "--replica-assignment", "1:2,2:1,1:2")
        cluster.zkctl(*cluster.brokers_alone(), *created)
        cluster.wait_until(lambda: len(cluster.of("orders")) == 3, "three partitions")
        yield cluster
    finally:
        cluster.close()


def test_the_way_to_kraft_is_free_for_the_last_kafka_with_zookeeper(real: TruthCluster) -> None:
    rows = real.zkctl("migration", "check", codes=(0, 1))

    if real.version == "3.9.1":
        assert rows == []
    else:
        [row] = rows
        assert (row["effect"], row["check"]) == ("blocks", "protocol-version")
        assert row["where"] == ["broker 1: 2.8-IV1", "broker 2: 2.8-IV1"]


def test_kafkas_brokers_differ_in_nothing(real: TruthCluster) -> None:
    assert real.zkctl("metadata", "diff") == []
    assert real.zkctl("metadata", "diff", *real.brokers_alone()) == []


def test_an_edited_znode_is_found_at_each_of_kafkas_brokers(real: TruthCluster) -> None:
    path = "/brokers/topics/orders/partitions/0/state"
    before = real.session.read(path)
    assert isinstance(before, Znode)
    state = orjson.loads(before.data)
    real.session.write(SetData(path, orjson.dumps(state | {"leader_epoch": 7, "leader": 2})))
    try:
        rows = real.zkctl("metadata", "diff", "--patience", "0", codes=(1,))
    finally:
        real.session.write(SetData(path, before.data))

    found = {(row["what"], row["request"], row["broker_id"]): row["found"] for row in rows}
    assert found == {
        **{("leader", "Metadata", broker): 1 for broker in BROKERS},
        **{("leader_epoch", "Metadata", broker): 0 for broker in BROKERS},
        **{("leader_epoch", "OffsetForLeaderEpoch", broker): "below 7" for broker in BROKERS},
    }
    assert {row["zk_version"] for row in rows} == {before.zk_version + 1}


def test_a_snapshot_of_kafkas_brokers_equals_one_of_zookeeper(
    real: TruthCluster, tmp_path: Path
) -> None:
    ours, theirs = str(tmp_path / "zookeeper.jsonl.gz"), str(tmp_path / "brokers.jsonl")
    real.zkctl("snapshot", "save", ours)
    saved = real.zkctl(*real.brokers_alone(), "snapshot", "save", theirs)

    assert real.zkctl("snapshot", "diff", ours, theirs) == []
    assert {"quota", "scram_user", "topic_config"}.isdisjoint(saved["not_known"])


def test_what_changed_at_kafkas_brokers_is_found(real: TruthCluster, tmp_path: Path) -> None:
    file = str(tmp_path / "before.jsonl")
    real.zkctl("snapshot", "save", file)
    change = ("config", "set", "topic", "orders", "--config", "retention.ms=5000", "--yes")
    real.zkctl(*real.brokers_alone(), *change)
    real.zkctl(*real.brokers_alone(), "topic", "create", "new", "--replica-assignment", "2:1")

    def rows() -> set[tuple[Any, ...]]:
        found = real.zkctl("snapshot", "diff", file, "--live", codes=(0, 1))
        return {(row["kind"], row["name"], row["change"], row["field"]) for row in found}

    real.wait_until(lambda: ("partition", "new-0", "added", None) in rows(), "the new partition")

    assert rows() == {
        ("topic_config", "orders", "changed", "retention.ms"),
        ("topic_config", "new", "added", None),
        ("topic", "new", "added", None),
        ("partition", "new-0", "added", None),
    }


def test_kafkas_brokers_are_measured_and_nothing_is_left(real: TruthCluster) -> None:
    limits = [
        part
        for check in ("zookeeper_read", "controller", "produce", "consume")
        for part in ("--limit", f"{check}=60000")
    ]
    topics = real.zkctl("topic", "list")

    rows = real.zkctl("check", "perf", "--rounds", "2", "--yes", *limits)

    assert [(row["check"], row["broker_id"]) for row in rows] == [
        ("zookeeper_read", None),
        ("controller", real.controller_id()),
        *((check, broker) for check in ("produce", "consume") for broker in BROKERS),
        ("cleanup", None),
    ]
    real.wait_until(lambda: real.zkctl("topic", "list") == topics, "the topic is gone")


def test_no_difference_remains_after_a_broker_was_killed(real: TruthCluster) -> None:
    """The last test: it leaves one broker."""
    killed = next(broker for broker in BROKERS if broker != real.controller_id())
    [left] = set(BROKERS) - {killed}

    real.brokers[killed].kill()
    real.wait_until(lambda: real.live_brokers() == {left}, "its session is over", timeout_s=60)
    real.wait_until(
        lambda: all(view.leader == left for view in real.of("orders").values()), "other leaders"
    )

    assert real.zkctl("metadata", "diff") == []
