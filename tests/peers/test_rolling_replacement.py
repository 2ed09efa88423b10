"""A cluster of an older Kafka becomes one of ours, broker by broker, while clients write and read.

Each broker of ours takes over the folder of the one it replaces.  All speak the older Kafka's
protocol among each other until the last of them is ours; a second round of restarts raises it.
"""

from __future__ import annotations

import shutil
from collections.abc import Collection, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from benchmarks.broker_process import OurBroker
from tests.faults.load import Load
from tests.peers.cluster import Cluster
from tests.peers.console_tools import ConsoleTools
from tests.peers.kafka_versions import required_libs
from tests.support.replica_logs import whole_batches
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller_testing.client_history import ClientHistory

pytestmark = [pytest.mark.peers, pytest.mark.timeout(500)]

BROKERS: Final = (1, 2, 3)
TOPIC: Final = "orders"
OLD_TOPIC: Final = "letters"
"""Clients of the older Kafka write it and read it."""
SETTINGS: Final = {
    "replica.lag.time.max.ms": "10000",
    "replica.fetch.backoff.ms": "200",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "2",
    "group.initial.rebalance.delay.ms": "0",
}
PATIENCE_S: Final = 60
BEFORE_KIP_207: Final = ("watermark-back",)
"""Before 2.2 a new leader of Kafka's may say an older high watermark than the last one did."""


class RollingCluster(Cluster):
    """Three brokers, each of which is replaced on its folder and its port."""

    def __init__(self, zookeeper: str, directory: Path, version: str, protocol: str) -> None:
        super().__init__(zookeeper, directory)
        self.older: dict[str, str] = {"inter.broker.protocol.version": protocol}
        self.of_kafka: dict[str, str] = {}
        self._libs = required_libs(version)
        self._ports: dict[int, str] = {}

    def begin(self) -> None:
        """Starts three brokers of the older Kafka."""
        for broker_id in BROKERS:
            self._start(broker_id, "kafka", self.older | self.of_kafka)
            self._ports[broker_id] = self.bootstrap(broker_id).rpartition(":")[2]

    def replace(self, broker_id: int, kind: str, settings: Mapping[str, str]) -> None:
        """Stops that broker, and starts one of that kind in its place; every replica catches up."""
        old = self.brokers[broker_id]
        old.stop()
        self.wait_until(lambda: broker_id not in self.live_brokers(), f"{broker_id} is gone")
        new = old.directory.with_name(f"{kind}-{broker_id}")
        if new != old.directory:
            new.mkdir(exist_ok=True)
            shutil.move(old.directory / "data", new / "data")
        listener = f"PLAINTEXT://127.0.0.1:{self._ports[broker_id]}"
        self._start(broker_id, kind, {**settings, "listeners": listener})
        self.wait_until_in_sync(timeout_s=PATIENCE_S)

    def _start(self, broker_id: int, kind: str, settings: Mapping[str, str]) -> None:
        if kind == "ours":
            self.start_ours(broker_id, SETTINGS | dict(settings))
        else:
            self.start_kafka(broker_id, SETTINGS | dict(settings), libs=self._libs)

    def create(self, topic: str, assignment: str) -> None:
        """Creates a topic whose replicas are in sync then."""
        self.topic_command(1, "--create", "--topic", topic, "--replica-assignment", assignment)
        self.wait_until_in_sync(topic, timeout_s=PATIENCE_S)

    def wait_until_replicas_agree(self) -> None:
        """Waits until the logs of every partition are the same bytes on all brokers."""
        for topic, partition in self.partitions():
            folders = [
                broker.directory / "data" / f"{topic}-{partition}"
                for broker in self.brokers.values()
            ]
            self.wait_until(
                lambda folders=folders: len({whole_batches(each) for each in folders}) == 1,  # type: ignore[misc]
                f"the replicas of {topic}-{partition} agree",
            )

    def error_lines(self) -> list[str]:
        """What our brokers complain of."""
        return [
            line
            for broker in self.brokers.values()
            if isinstance(broker, OurBroker)
            for file in ("server.log", "state-change.log", "controller.log")
            for line in broker.log_lines(file)
            if "] ERROR " in line or "] FATAL " in line
        ]


class Letters:
    """What clients of the older Kafka write to a topic, and read in one group."""

    def __init__(self, cluster: RollingCluster, version: str, settings: Path) -> None:
        self._cluster = cluster
        self._tools = ConsoleTools(version)
        self._settings = settings
        settings.write_text("group.id=readers\n")

    def create(self) -> None:
        self._cluster.create(OLD_TOPIC, "1:2:3")

    def of(self, name: str) -> list[str]:
        return [f"{name} {number}" for number in range(10)]

    def write(self, name: str) -> None:
        self._tools.produce(self._cluster.bootstrap(1), OLD_TOPIC, self.of(name))

    def read(self, *, anew: bool = False) -> list[str]:
        return self._tools.consume(
            self._cluster.bootstrap(1), OLD_TOPIC, self._settings, 10, anew=anew
        )


@pytest.mark.parametrize(
    ("version", "protocol", "record_format"),
    [
        ("1.1.1", "1.1", "0.10.2"),
        ("1.1.1", "1.1", None),
        ("2.4.1", "2.4", None),
        ("2.8.2", "2.8", None),
        ("3.5.2", "3.5", None),
        ("3.9.1", "3.9", None),
    ],
)
def test_brokers_are_replaced_one_by_one_and_no_client_notices(
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    version: str,
    protocol: str,
    record_format: str | None,
) -> None:
    chroot = f"{zookeeper.connect}/rolling-{version}-{record_format}"
    with closing(RollingCluster(chroot, tmp_path, version, protocol)) as cluster:
        letters = Letters(cluster, version, tmp_path / "consumer.properties")
        tolerated = BEFORE_KIP_207 if protocol == "1.1" else ()
        replace_all(cluster, letters, record_format, tolerated)


def replace_all(
    cluster: RollingCluster,
    letters: Letters,
    record_format: str | None,
    tolerated: Collection[str],
) -> None:
    # Records of the format that was there before idempotent producers and transactions.
    is_modern = record_format is None
    if record_format is not None:
        cluster.of_kafka["log.message.format.version"] = record_format
    cluster.begin()
    cluster.create(TOPIC, "1:2:3,2:3:1,3:1:2")
    letters.create()
    letters.write("a")
    assert letters.read(anew=True) == letters.of("a")
    letters.write("b")
    servers = ",".join(cluster.bootstrap(broker_id) for broker_id in BROKERS)

    history = ClientHistory(lambda: {"bootstrap.servers": servers}, lambda: ())
    with history.load(
        TOPIC,
        3,
        transactions=1 if is_modern else 0,
        config={"enable.idempotence": is_modern, "request.timeout.ms": 3_000},
    ) as clients:
        load = Load(history, clients)
        load.wait_for_progress()
        for broker_id in BROKERS:
            cluster.replace(broker_id, "ours", cluster.older)
            load.wait_for_progress()
        # There is a way back, as long as the protocol is the older one.
        for kind, settings in (("kafka", cluster.of_kafka), ("ours", {})):
            cluster.replace(1, kind, cluster.older | settings)
            load.wait_for_progress()
        for broker_id in BROKERS:
            cluster.replace(broker_id, "ours", {})
            load.wait_for_progress()
        cluster.elect()
        load.wait_for_progress()

    assert [each.text() for each in history.violations() if each.name not in tolerated] == []
    assert letters.read() == letters.of("b")
    letters.write("c")
    assert letters.read() == letters.of("c")
    cluster.wait_until_replicas_agree()
    assert cluster.error_lines() == []
