"""Snapshots of the metadata log, made by our nodes and by Kafka's of the same log."""

from __future__ import annotations

import dataclasses
import signal
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException, Producer

from benchmarks.kafka_peer import run_kafka_tool
from kraft.metadata.metadata_batches import (
    ControlBatch,
    DataBatch,
    iterate_metadata_batches,
)
from kraft.metadata.records import ClientQuotaRecord, TopicRecord, VersionedRecord
from kraft.raft.control_records import SnapshotFooter, SnapshotHeader
from tests.peers.clients import run_tool
from tests.peers.quorum_cluster import FOLDER, MixedQuorum, RealBroker
from tests.support.record_text import record_text

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

OURS: Final = (1, 2)
REAL: Final = 3
BROKER, LATE_BROKER = 11, 12
CONFIGS: Final = "kafka.admin.ConfigCommand"
DUMP: Final = "kafka.tools.DumpLogSegments"
EVERY_COMMIT: Final = {"metadata.log.max.record.bytes.between.snapshots": "1"}
_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic


class Cluster:
    """Two nodes of ours, one of Kafka's, all of which make snapshots all the time; a broker."""

    def __init__(self, directory: Path) -> None:
        self.quorum = MixedQuorum(directory / "quorum", OURS, EVERY_COMMIT)
        self.brokers = {
            broker_id: RealBroker(directory / f"broker-{broker_id}", broker_id, self.quorum)
            for broker_id in (BROKER, LATE_BROKER)
        }
        self.clients = {
            broker_id: _admin.AdminClient(
                {"bootstrap.servers": self._address(broker_id), "log_level": 0}
            )
            for broker_id in self.brokers
        }

    def close(self) -> None:
        for broker in self.brokers.values():
            if broker.process is not None and broker.process.poll() is None:
                broker.end(signal.SIGKILL)
        self.quorum.close()

    def topics_at(self, broker_id: int) -> set[str]:
        """The topics that a broker knows; none while it does not answer."""
        try:
            return set(self.clients[broker_id].list_topics(timeout=5).topics)
        except KafkaException:
            return set()

    def live_brokers(self) -> set[int]:
        try:
            return set(self.clients[BROKER].list_topics(timeout=5).brokers)
        except KafkaException:
            return set()

    def create(self, topic: str, partitions: int, **configs: str) -> None:
        new = _admin.NewTopic(topic, partitions, 1, config=configs)
        self.clients[BROKER].create_topics([new])[topic].result(60)

    def delete(self, topic: str) -> None:
        self.clients[BROKER].delete_topics([topic])[topic].result(60)

    def configure(self, *arguments: str) -> None:
        done = run_kafka_tool(CONFIGS, "--bootstrap-server", self._address(BROKER), *arguments)
        assert done.returncode == 0, done.stdout + done.stderr

    def produce(self, topic: str) -> None:
        """Has the broker ask for a block of producer ids."""
        producer = Producer(
            {
                "bootstrap.servers": self._address(BROKER),
                "enable.idempotence": True,
                "log_level": 0,
            }
        )
        producer.produce(topic, b"value")
        assert producer.flush(60) == 0

    def _address(self, broker_id: int) -> str:
        return f"127.0.0.1:{self.brokers[broker_id].port}"

    def live_a_life(self) -> None:
        """Something of everything that a snapshot can hold, as far as a client can bring it."""
        self.create("orders", 3, **{"retention.ms": "3600000", "max.message.bytes": "123456"})
        self.create("payments", 2)
        self.create("gone", 1, **{"retention.ms": "1"})
        self.delete("gone")
        self.produce("orders")
        users = ("--alter", "--entity-type", "users", "--entity-name", "alice")
        self.configure(*users, "--add-config", "producer_byte_rate=1024,consumer_byte_rate=2048")
        self.configure(
            "--alter", "--entity-type", "users", "--entity-default",
            "--entity-type", "clients", "--entity-name", "app",
            "--add-config", "request_percentage=12.5",
        )  # fmt: skip
        self.configure(*users, "--add-config", "SCRAM-SHA-256=[iterations=4096,password=secret]")
        self.configure(
            "--alter", "--entity-type", "brokers", "--entity-name", str(BROKER),
            "--add-config", "log.cleaner.threads=2",
        )  # fmt: skip

    def common_snapshot(self) -> tuple[bytes, bytes]:
        """One that both implementations have made of the same log: ours, and Kafka's."""
        found: list[tuple[bytes, bytes]] = []
        least = self.quorum.high_watermark()

        def is_there() -> bool:
            ours, theirs = (self.quorum.voters[each].snapshots() for each in (OURS[0], REAL))
            names = [each for each in sorted(ours.keys() & theirs.keys()) if end_of(each) >= least]
            found[:] = [(ours[name], theirs[name]) for name in names[:1]]
            return bool(found)

        self.quorum.wait_until(is_there, "both have made a snapshot of the same log")
        return found[0]


@pytest.fixture(scope="module")
def cluster(
    kafka: Path,  # noqa: ARG001 - skips the test without Kafka
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("snapshots"))
    try:
        made.quorum.start()
        made.quorum.make_lead(*OURS)
        made.brokers[BROKER].start()
        made.quorum.wait_until(lambda: made.live_brokers() == {BROKER}, "the broker is there")
        made.live_a_life()
        yield made
    finally:
        made.close()


def end_of(name: str) -> int:
    """The offset in a snapshot's name."""
    return int(name.partition("-")[0])


def records_of(snapshot: bytes) -> list[VersionedRecord]:
    """What stands between header and footer, which must be there."""
    first, *between, last = iterate_metadata_batches(snapshot)
    assert isinstance(first, ControlBatch)
    assert isinstance(first.records[0], SnapshotHeader)
    assert isinstance(last, ControlBatch)
    assert last.records == (SnapshotFooter(),)
    found: list[VersionedRecord] = []
    for batch in between:
        assert isinstance(batch, DataBatch)
        found += batch.records
    return found


def in_any_order(records: list[VersionedRecord]) -> Counter[str]:
    """The records as texts; what is a map in Kafka has no order."""
    return Counter(
        record_text(VersionedRecord(_sorted(record), version)) for record, version in records
    )


def _sorted(record: Any) -> Any:
    if isinstance(record, ClientQuotaRecord):
        parts = sorted(record.entity, key=lambda part: part.entity_type)
        return dataclasses.replace(record, entity=tuple(parts))
    maps = [name for name in ("end_points", "features") if hasattr(record, name)]
    parts_of = {name: sorted(getattr(record, name), key=lambda part: part.name) for name in maps}
    changes: dict[str, Any] = {name: tuple(parts) for name, parts in parts_of.items()}
    return dataclasses.replace(record, **changes) if changes else record


def kinds(records: list[VersionedRecord]) -> list[str]:
    """The kinds of records in their order; of topics, which alternate with partitions, one."""
    names = [type(record).__name__.replace("Topic", "Partition") for record, _ in records]
    return [name for name, _ in groupby(names)]


def test_our_snapshot_says_what_kafkas_says_of_the_same_log(cluster: Cluster) -> None:
    ours, theirs = cluster.common_snapshot()

    assert in_any_order(records_of(ours)) == in_any_order(records_of(theirs))
    assert kinds(records_of(ours)) == kinds(records_of(theirs))
    assert kinds(records_of(ours)) == [
        "FeatureLevelRecord",
        "ZkMigrationStateRecord",
        "RegisterBrokerRecord",
        "RegisterControllerRecord",
        "PartitionRecord",
        "ConfigRecord",
        "ClientQuotaRecord",
        "ProducerIdsRecord",
        "UserScramCredentialRecord",
    ]
    names = {record.name for record, _ in records_of(ours) if isinstance(record, TopicRecord)}
    assert names == {"orders", "payments"}
    headers = [next(iterate_metadata_batches(each)) for each in (ours, theirs)]
    assert headers[0].records == headers[1].records  # the time of the last record
    assert headers[0].place.epoch == headers[1].place.epoch


def test_kafkas_tool_prints_our_snapshot(cluster: Cluster, tmp_path: Path) -> None:
    [*_, (name, snapshot)] = cluster.quorum.voters[OURS[0]].snapshots().items()
    file = tmp_path / name
    file.write_bytes(snapshot)

    printed = run_tool(DUMP, "--cluster-metadata-decoder", "--files", str(file)).splitlines()

    heads = [line for line in printed if line.startswith("baseOffset: ")]
    assert len(heads) == 3
    assert all(line.endswith("isvalid: true") for line in heads)
    payloads = [line.partition(" payload: ")[2] for line in printed if " payload: " in line]
    assert payloads == [record_text(record) for record in records_of(snapshot)]


def test_a_broker_of_kafkas_starts_from_our_snapshot(cluster: Cluster) -> None:
    leader = cluster.quorum.make_lead(*OURS)
    late = cluster.brokers[LATE_BROKER]

    late.start()

    cluster.quorum.wait_until(
        lambda: cluster.topics_at(LATE_BROKER) >= {"orders", "payments"}, "it knows the topics"
    )
    first = first_segment(late.data / FOLDER)
    assert first > 0  # what was before came as a snapshot
    [name] = [each for each in made_at(late.data / FOLDER) if end_of(each) == first]
    assert (late.data / FOLDER / name).read_bytes() == cluster.quorum.voters[leader].snapshots()[
        name
    ]


def test_a_wiped_controller_of_kafkas_catches_up_by_our_snapshot_and_leads(
    cluster: Cluster,
) -> None:
    leader = cluster.quorum.make_lead(*OURS)
    wiped = cluster.quorum.voters[REAL]
    wiped.kill()
    wiped.wipe()

    cluster.quorum.start(REAL)

    cluster.quorum.wait_until_all_follow()
    folder = wiped.data / FOLDER
    first = first_segment(folder)
    assert first > 0
    [name] = [each for each in made_at(folder) if end_of(each) == first]
    assert wiped.snapshots()[name] == cluster.quorum.voters[leader].snapshots()[name]
    assert cluster.quorum.make_lead(REAL) == REAL
    cluster.create("led", 1)
    cluster.quorum.wait_until(
        lambda: cluster.topics_at(BROKER) >= {"led", "orders", "payments"}, "the broker knows it"
    )
    ours, theirs = cluster.common_snapshot()
    assert in_any_order(records_of(ours)) == in_any_order(records_of(theirs))


def test_a_wiped_node_of_ours_catches_up_by_kafkas_snapshot(cluster: Cluster) -> None:
    cluster.quorum.make_lead(REAL)
    wiped = cluster.quorum.voters[OURS[0]]
    wiped.kill()
    wiped.wipe()

    cluster.quorum.start(OURS[0])

    cluster.quorum.wait_until_all_follow()
    assert first_segment(wiped.data / FOLDER) > 0
    ours, theirs = cluster.common_snapshot()
    assert in_any_order(records_of(ours)) == in_any_order(records_of(theirs))


def first_segment(folder: Path) -> int:
    """Where the log begins."""
    return min(int(segment.stem) for segment in folder.glob("*.log"))


def made_at(folder: Path) -> list[str]:
    """The names of the snapshots in a folder."""
    return [path.name for path in folder.glob("*.checkpoint")]
