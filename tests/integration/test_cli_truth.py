"""``zkctl metadata diff``, ``snapshot`` and ``check perf`` beside three brokers of ours.

Broker 3 listens for the controller behind a proxy: cut off there, it stays registered, answers
clients, and misses what the controller sends.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from typing_extensions import override

from tests.integration.zookeeper_proxy import Proxy
from tests.peers.cluster import Cluster
from tests.support.doctor_causes import EDITED, STATE, World
from tests.support.quorum import free_ports
from zkcontroller.zookeeper.requests import Create, Written
from zkcontroller.zookeeper.znodes import ConfigZnode

pytestmark = pytest.mark.integration

CUT: Final = 3
LISTENERS: Final = {
    "listener_security_protocol_map": "CLIENTS:PLAINTEXT,INTERNAL:PLAINTEXT",
    "inter_broker_listener_name": "INTERNAL",
}


class CutWorld(World):
    """Brokers with a listener for clients and one for brokers, broker 3's behind a proxy."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        super().__init__(cluster, cluster.start_forked, directory)
        clients, self._internal = free_ports(2)
        self.proxy = Proxy(f"127.0.0.1:{self._internal}")
        self._own = {
            "listeners": f"CLIENTS://127.0.0.1:{clients},INTERNAL://127.0.0.1:{self._internal}",
            "advertised_listeners": f"CLIENTS://127.0.0.1:{clients},INTERNAL://"
            + self.proxy.connect,
        }

    @override
    def start(self, broker_id: int, **properties: str) -> None:
        shared = {"listeners": "CLIENTS://127.0.0.1:0,INTERNAL://127.0.0.1:0"}
        own = self._own if broker_id == CUT else shared
        super().start(broker_id, **LISTENERS, **own, **properties)

    @contextmanager
    def cut_off(self) -> Iterator[None]:
        """Nothing reaches broker 3 from other brokers meanwhile."""
        self.proxy.refuse()
        try:
            yield
        finally:
            self.proxy.allow()

    @property
    def zookeeper(self) -> tuple[str, str]:
        return "-z", self.cluster.zookeeper

    @property
    def brokers(self) -> tuple[str, str]:
        return "-b", self.cluster.bootstrap(self.controller)

    def diff(self, *arguments: str, codes: tuple[int, ...] = (0, 1)) -> list[dict[str, Any]]:
        """The rows of ``metadata diff``, with ZooKeeper if nothing else is named."""
        where = () if "-b" in arguments else self.zookeeper
        rows: list[dict[str, Any]] = self.zkctl(
            *("metadata", "diff", "--patience", "1", *where, *arguments), codes=codes
        )
        return rows

    def wait_until_the_same(self) -> None:
        self.cluster.wait_until(lambda: self.diff() == [], "no difference", timeout_s=60)

    def wait_until_as_in(self, snapshot: str, apart_from: str = "") -> None:
        """The controller deletes a topic's znodes after the brokers have forgotten it."""

        def is_same() -> bool:
            diff = (*self.zookeeper, "snapshot", "diff", snapshot, "--live")
            return {row["kind"] for row in self.zkctl(*diff, codes=(0, 1))} <= {apart_from}

        self.cluster.wait_until(is_same, f"znodes as in {snapshot}")


@pytest.fixture(scope="module")
def world(zookeeper_connect: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutWorld]:
    directory = tmp_path_factory.mktemp("truth")
    cluster = Cluster(f"{zookeeper_connect}/truth", directory)
    world = CutWorld(cluster, directory)
    try:
        world.start_all()
        assert world.controller != CUT
        yield world
    finally:
        world.proxy.close()
        cluster.close()


def places(rows: list[dict[str, Any]]) -> set[tuple[str, str, int]]:
    return {(row["what"], row["where"], row["broker_id"]) for row in rows}


def test_brokers_that_know_everything_differ_in_nothing(world: CutWorld) -> None:
    world.wait_until_the_same()

    assert world.diff(codes=(0,)) == []
    assert world.diff(*world.brokers, codes=(0,)) == []


def test_a_broker_that_misses_update_metadata_and_leader_and_isr_is_named(
    world: CutWorld,
) -> None:
    world.wait_until_the_same()

    with world.cut_off():
        world.zkctl(*world.brokers, "topic", "create", "missed", "--replica-assignment", "1:2:3")
        rows = world.diff(codes=(1,))
        alone = world.diff(*world.brokers, codes=(1,))
        others = world.diff("--broker", "2", codes=(0,))
        elsewhere = world.diff("--topic", EDITED, codes=(0,))

    assert places(rows) == {
        ("topic", "missed", CUT),
        ("replica", "missed-0", CUT),
    }
    assert all(row["path"] == "/brokers/topics/missed" for row in rows)
    assert all(row["zk_version"] == 0 and row["is_lasting"] for row in rows)
    assert places(alone) == places(rows)
    assert {row["expected_by"] for row in alone} == {"brokers 1,2,3"}
    assert (others, elsewhere) == ([], [])
    world.wait_until_the_same()


def test_a_leader_epoch_that_a_broker_has_not_taken_is_bounded(world: CutWorld) -> None:
    """The controller moves a leadership, and broker 3 gets no request about it."""
    world.create("led", (1, 2, 3))
    world.wait_until_the_same()

    with world.cut_off():
        world.zkctl(
            *(*world.brokers, "reassign", "start", "led-0:2,1,3", "--yes", "--wait"),
        )
        world.zkctl(*world.brokers, "partition", "elect", "led-0", "--yes")
        rows = world.diff("--topic", "led", codes=(1,))

    found = {(row["what"], row["request"]): row for row in rows}
    assert {row["broker_id"] for row in rows} == {CUT}
    assert found["leader", "Metadata"]["expected"] == 2
    assert found["leader", "Metadata"]["found"] == 1
    epoch = found["leader_epoch", "Metadata"]["expected"]
    assert found["leader_epoch", "OffsetForLeaderEpoch"]["found"] == f"below {epoch}"
    assert found["replicas", "Metadata"]["found"] == [1, 2, 3]
    world.wait_until_the_same()


def test_a_frozen_broker_is_named_as_not_compared(world: CutWorld) -> None:
    world.wait_until_the_same()

    with world.frozen(CUT):
        rows = world.diff("--timeout", "2", codes=(2,))
        again = world.zkctl("metadata", "diff", *world.zookeeper, "--broker", "1", "--timeout", "2")

    assert rows == again == []


def test_a_znode_that_was_edited_differs_from_every_broker(world: CutWorld) -> None:
    world.wait_until_the_same()
    epoch = world.cluster.of(EDITED)[0].leader_epoch

    with world.edited(STATE, leader_epoch=epoch + 3):
        rows = world.diff(codes=(1,))

    assert places(rows) == {("leader_epoch", f"{EDITED}-0", broker) for broker in (1, 2, 3)}
    assert {row["request"] for row in rows} == {"Metadata", "OffsetForLeaderEpoch"}
    assert {row["path"] for row in rows} == {STATE}


# The way to KRaft.


def test_nothing_of_a_whole_cluster_stands_in_the_way_of_a_migration(world: CutWorld) -> None:
    world.wait_until_the_same()

    assert world.zkctl(*world.zookeeper, "migration", "check", codes=(0,)) == []


def test_a_broker_that_does_not_say_how_it_is_configured_is_not_checked(world: CutWorld) -> None:
    with world.frozen(CUT):
        check = ("migration", "check", "--timeout", "2")
        [row] = world.zkctl(*world.zookeeper, *check, codes=(2,))

    assert row["check"] == "silent-broker"
    assert [place[:9] for place in row["where"]] == [f"broker {CUT}:"]


# Snapshots.


def set_retention(world: CutWorld, milliseconds: int) -> None:
    """The brokers take a configuration of a topic."""
    change = ("--config", f"retention.ms={milliseconds}", "--yes")
    world.zkctl(*world.brokers, "config", "set", "topic", EDITED, *change)


def test_a_snapshot_of_brokers_equals_one_of_zookeeper(world: CutWorld, tmp_path: Path) -> None:
    """In what brokers tell: also quotas, users and configurations that ZooKeeper holds."""
    world.wait_until_the_same()
    session = world.cluster.session
    scram = "salt=c2FsdA==,stored_key=c3RvcmVk,server_key=c2VydmVy,iterations=4096"
    for path, config in (
        (ConfigZnode.path("users/alice"), {"SCRAM-SHA-256": scram, "producer_byte_rate": "1024.0"}),
        (ConfigZnode.path("clients/app"), {"request_percentage": "12.5"}),
        (ConfigZnode.broker_path(None), {"log.cleaner.threads": "2"}),
    ):
        assert isinstance(session.write(Create(path, ConfigZnode(config).encode())), Written)
    change = ConfigZnode.path("changes/config_change_")
    for entity in ("users/alice", "clients/app", "brokers/<default>"):
        told = b'{"version":2,"entity_path":"%s"}' % entity.encode()
        session.write(Create(change, told, sequential=True))
    set_retention(world, 5000)
    ours, theirs = str(tmp_path / "zookeeper.jsonl"), str(tmp_path / "brokers.jsonl.gz")

    saved = world.zkctl(*world.zookeeper, "snapshot", "save", ours)

    def is_the_same() -> bool:
        Path(theirs).unlink(missing_ok=True)
        world.zkctl(*world.brokers, "snapshot", "save", theirs)
        found: list[Any] = world.zkctl("snapshot", "diff", ours, theirs, codes=(0, 1))
        return found == []

    world.cluster.wait_until(is_the_same, "brokers tell what ZooKeeper holds")
    assert saved["records"]["scram_user"] == 1
    assert saved["records"]["quota"] == 2
    told = world.zkctl("snapshot", "show", theirs)
    assert {"quota", "scram_user", "topic_config", "broker_config"} <= {r["kind"] for r in told}


def test_what_changed_since_a_snapshot_is_found_with_its_time(
    world: CutWorld, tmp_path: Path
) -> None:
    file = str(tmp_path / "before.jsonl")
    world.zkctl(*world.zookeeper, "snapshot", "save", file)

    set_retention(world, 6000)
    world.create("added", (2, 1))
    rows = world.zkctl(*world.zookeeper, "snapshot", "diff", file, "--live", codes=(1,))

    found = {(row["kind"], row["name"], row["change"], row["field"]): row for row in rows}
    assert set(found) == {
        ("topic_config", EDITED, "changed", "retention.ms"),
        ("topic", "added", "added", None),
        ("topic_config", "added", "added", None),
        ("partition", "added-0", "added", None),
    }
    changed = found["topic_config", EDITED, "changed", "retention.ms"]
    assert changed["new"] == "6000"
    assert changed["changed_at_ms"] > world.zkctl("snapshot", "show", file)[0]["mtime_ms"]


# Performance.

GENEROUS: Final = tuple(
    part
    for check in ("zookeeper_read", "zookeeper_write", "controller", "produce", "consume")
    for part in ("--limit", f"{check}=60000")
)


def test_every_broker_is_measured_and_nothing_is_left(world: CutWorld, tmp_path: Path) -> None:
    world.wait_until_the_same()
    file = str(tmp_path / "before.jsonl")
    world.zkctl(*world.zookeeper, "snapshot", "save", file)

    rows = world.zkctl(
        *(*world.zookeeper, "check", "perf", "--rounds", "3", "--write", "--yes", *GENEROUS)
    )

    measured = {(row["check"], row["broker_id"]) for row in rows}
    assert measured == {
        ("zookeeper_read", None),
        ("zookeeper_write", None),
        ("controller", world.controller),
        *((check, broker) for check in ("produce", "consume") for broker in (1, 2, 3)),
        ("cleanup", None),
    }
    assert all(row["result"] == "PASS" for row in rows)
    assert all(row["round_count"] == 3 for row in rows if row["check"] != "cleanup")
    world.wait_until_as_in(file, apart_from="producer_id_block")


def test_a_limit_that_is_exceeded_fails_and_no_produce_writes_nothing(
    world: CutWorld, tmp_path: Path
) -> None:
    file = str(tmp_path / "before.jsonl")
    world.zkctl(*world.zookeeper, "snapshot", "save", file)

    rows = world.zkctl(
        *(*world.zookeeper, "check", "perf", "--no-produce", "--rounds", "2", *GENEROUS),
        *("--limit", "controller=0.0001"),
        codes=(1,),
    )

    assert [(row["check"], row["result"]) for row in rows] == [
        ("zookeeper_read", "PASS"),
        ("controller", "FAIL"),
    ]
    assert world.zkctl(*world.zookeeper, "snapshot", "diff", file, "--live") == []


def test_an_interrupted_measurement_leaves_no_topic(world: CutWorld) -> None:
    world.wait_until_the_same()

    def made() -> set[str]:
        topics = {topic for topic, _ in world.cluster.partitions()}
        return {topic for topic in topics if topic.startswith("zkctl-check-perf-")}

    command = [sys.executable, "-m", "zkcontroller_cli", *world.zookeeper]
    for _ in range(3):
        with subprocess.Popen(
            [*command, "check", "perf", "--rounds", "20", "--yes"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                # At once: mostly the controller has not answered yet.
                while made() == set():
                    assert process.poll() is None, process.communicate()
                process.send_signal(signal.SIGINT)
                _, errors = process.communicate(timeout=60)
            finally:
                process.kill()

        assert process.returncode == 130, errors
        assert made() == set(), errors


def test_a_named_topic_is_written_to_and_stays(world: CutWorld) -> None:
    world.create("mine", (1, 2), (2, 1))

    rows = world.zkctl(
        *(*world.brokers, "check", "perf", "--topic", "mine", "--rounds", "2", "--yes"), *GENEROUS
    )

    offsets = world.zkctl(*world.brokers, "topic", "offsets", "mine")
    assert [row["offset_count"] for row in offsets] == [3, 3]  # one more, which is not measured
    assert [(row["check"], row["broker_id"]) for row in rows[1:]] == [
        ("produce", 1),
        ("produce", 2),
        ("consume", 1),
        ("consume", 2),
    ]
    missing = world.zkctl(
        *(*world.brokers, "check", "perf", "--topic", "nowhere", "--yes"), codes=(5,)
    )
    assert missing == []
