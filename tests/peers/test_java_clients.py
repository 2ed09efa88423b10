"""Kafka's own producers, consumers and tools on the records of our brokers, and on their files."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.peers.clients import CONSOLE_CONSUMER, consume, produce, run_tool
from tests.peers.cluster import Cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

# A tool is a JVM of its own, of which a test needs a dozen.
pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

GET_OFFSETS: Final = "org.apache.kafka.tools.GetOffsetShell"
DELETE_RECORDS: Final = "org.apache.kafka.tools.DeleteRecordsCommand"
LOG_DIRS: Final = "org.apache.kafka.tools.LogDirsCommand"
REASSIGN: Final = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
PRODUCER_PERFORMANCE: Final = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER_PERFORMANCE: Final = "org.apache.kafka.tools.ConsumerPerformance"
TRANSACTIONS: Final = "org.apache.kafka.tools.TransactionsCommand"
DUMP_LOG: Final = "kafka.tools.DumpLogSegments"

BROKERS: Final = (1, 2, 3)
VALUES: Final = [f"value {number}" for number in range(50)]


class Disks:
    """Three of our brokers with two log directories each."""

    def __init__(self, cluster: Cluster, directory: Path) -> None:
        self.cluster = cluster
        self._directory = directory

    def start(self, broker_id: int) -> None:
        self.cluster.start_ours(
            broker_id,
            {
                "log.dirs": ",".join(str(path) for path in self.of(broker_id)),
                "group.initial.rebalance.delay.ms": "0",
                "offsets.topic.num.partitions": "1",
            },
        )

    def of(self, broker_id: int) -> tuple[Path, Path]:
        home = self._directory / f"disks-{broker_id}"
        return home / "a", home / "b"

    def tool(self, main_class: str, *arguments: str, option: str = "--bootstrap-server") -> str:
        """What a tool prints that asks these brokers."""
        return run_tool(main_class, option, self.bootstrap, *arguments)

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap(1)

    def create(self, topic: str, partitions: int = 1, *options: str) -> None:
        self.cluster.topic_command(
            1, "--create", "--topic", topic, "--partitions", str(partitions),
            "--replication-factor", "3", *options,
        )  # fmt: skip


@pytest.fixture(scope="module")
def disks(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Disks]:
    """One cluster for the file; each test has a topic of its own."""
    directory = tmp_path_factory.mktemp("java-clients")
    cluster = Cluster(f"{zookeeper.connect}/java-clients", directory)
    disks = Disks(cluster, directory)
    try:
        for broker_id in BROKERS:
            disks.start(broker_id)
        yield disks
    finally:
        cluster.close()


def test_the_console_consumer_reads_what_the_console_producer_wrote(disks: Disks) -> None:
    codecs = ("gzip", "snappy", "lz4", "zstd")
    for codec in codecs:
        # The broker packs anew what the producer sends in the clear.
        disks.create(f"console-{codec}", 1, "--config", f"compression.type={codec}")
        produce(disks.bootstrap, f"console-{codec}", VALUES)

    everything = disks.tool(
        CONSOLE_CONSUMER, "--include", "console-.*", "--group", "console", "--from-beginning",
        "--max-messages", str(4 * len(VALUES)), "--timeout-ms", "30000",
    )  # fmt: skip
    assert sorted(everything.splitlines()) == sorted(VALUES * len(codecs))
    committed = disks.tool(
        CONSOLE_CONSUMER, "--topic", "console-zstd", "--partition", "0", "--offset", "earliest",
        "--isolation-level", "read_committed", "--max-messages", "50", "--timeout-ms", "30000",
    )  # fmt: skip
    assert committed.splitlines() == VALUES


def test_the_performance_tools_do_their_work(disks: Disks) -> None:
    disks.create("performance", 3)
    count = 20_000

    written = run_tool(
        PRODUCER_PERFORMANCE, "--topic", "performance", "--num-records", str(count),
        "--record-size", "100", "--throughput", "-1",
        "--producer-props", f"bootstrap.servers={disks.bootstrap}", "acks=all",
    )  # fmt: skip
    assert f"{count} records sent" in written

    read = disks.tool(
        CONSUMER_PERFORMANCE, "--topic", "performance", "--messages", str(count),
        "--timeout", "30000",
    )  # fmt: skip
    columns = [name.strip() for name in read.splitlines()[0].split(",")]
    values = [value.strip() for value in read.splitlines()[-1].split(",")]
    assert int(dict(zip(columns, values, strict=True))["data.consumed.in.nMsg"]) >= count


def test_get_offsets_finds_places_and_times(disks: Disks) -> None:
    disks.create("places", 2)
    produce(disks.bootstrap, "places", VALUES)

    def offsets(time: str) -> dict[int, int]:
        printed = disks.tool(GET_OFFSETS, "--topic", "places", "--time", time)
        found = re.findall(r"^places:(\d+):(-?\d+)$", printed, re.MULTILINE)
        return {int(partition): int(offset) for partition, offset in found}

    latest = offsets("latest")
    assert set(latest) == {0, 1}
    assert sum(latest.values()) == len(VALUES)
    assert offsets("earliest") == {0: 0, 1: 0}
    assert offsets("earliest-local") == {0: 0, 1: 0}
    assert offsets("0") == {p: 0 for p, end in latest.items() if end}
    # Offsets of records, where there are any.
    assert all(0 <= offset < latest[p] for p, offset in offsets("max-timestamp").items())
    assert offsets("99999999999999") == {}


def test_delete_records_tells_the_low_watermark(disks: Disks, tmp_path: Path) -> None:
    disks.create("deleted")
    produce(disks.bootstrap, "deleted", VALUES)
    file = tmp_path / "offsets.json"
    wanted = {"topic": "deleted", "partition": 0, "offset": 20}
    file.write_text(json.dumps({"version": 1, "partitions": [wanted]}))

    printed = disks.tool(DELETE_RECORDS, "--offset-json-file", str(file))

    assert "partition: deleted-0\tlow_watermark: 20" in printed
    assert consume(disks.bootstrap, "deleted", "group-of-deleted", 30) == VALUES[20:]


def test_producers_are_described(disks: Disks) -> None:
    disks.create("written")
    produce(disks.bootstrap, "written", VALUES)

    printed = disks.tool(TRANSACTIONS, "describe-producers", "--topic", "written",
                         "--partition", "0")  # fmt: skip

    columns, row = (line.split() for line in printed.splitlines())
    told = dict(zip(columns, row, strict=True))
    assert told["ProducerEpoch"] == "0"
    assert int(told["LastSequence"]) == len(VALUES) - 1
    assert told["CurrentTransactionStartOffset"] == "None"


def described(disks: Disks, topic: str) -> dict[int, dict[str, list[dict[str, Any]]]]:
    """Broker to directory to what kafka-log-dirs says of the topic's replicas in it."""
    printed = disks.tool(LOG_DIRS, "--describe", "--topic-list", topic)
    [line] = [line for line in printed.splitlines() if line.startswith("{")]
    return {
        broker["broker"]: {each["logDir"]: each["partitions"] for each in broker["logDirs"]}
        for broker in json.loads(line)["brokers"]
    }


def sizes(disks: Disks, topic: str) -> list[int]:
    """Of partition 0 on every broker."""
    return [
        replica["size"]
        for log_dirs in described(disks, topic).values()
        for replicas in log_dirs.values()
        for replica in replicas
    ]


def test_a_replica_moves_to_the_other_directory_of_its_broker(disks: Disks, tmp_path: Path) -> None:
    disks.create("moved")
    produce(disks.bootstrap, "moved", VALUES)
    found = described(disks, "moved")
    assert set(found) == set(BROKERS)
    for broker_id in BROKERS:
        assert set(found[broker_id]) == {str(path) for path in disks.of(broker_id)}
    [here] = [path for path, replicas in found[2].items() if replicas]
    [there] = [path for path in found[2] if path != here]
    assert found[2][here] == [
        {"partition": "moved-0", "size": found[2][here][0]["size"], "offsetLag": 0,
         "isFuture": False}
    ]  # fmt: skip
    replicas = list(BROKERS)
    file = tmp_path / "moves.json"
    move = {
        "topic": "moved",
        "partition": 0,
        "replicas": replicas,
        "log_dirs": ["any", there, "any"],
    }
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))

    disks.tool(REASSIGN, "--execute", "--reassignment-json-file", str(file))
    disks.cluster.wait_until(
        lambda: bool((Path(there) / "moved-0").exists() and described(disks, "moved")[2][there]),
        "the replica to have moved",
    )

    verified = disks.tool(REASSIGN, "--verify", "--reassignment-json-file", str(file))
    assert "Reassignment of replica moved-0-2 completed successfully." in verified
    now = described(disks, "moved")
    assert now[2][here] == []
    assert now[2][there] == found[2][here]
    produce(disks.bootstrap, "moved", ["more"])
    assert consume(disks.bootstrap, "moved", "group-of-moved", 51) == [*VALUES, "more"]
    # Whether it leads or follows, it goes on in the new place.
    before = now[2][there][0]["size"]
    disks.cluster.wait_until(
        lambda: all(size > before for size in sizes(disks, "moved")), "every replica to have it"
    )
    assert len(set(sizes(disks, "moved"))) == 1


def test_kafka_finds_our_files_sound(disks: Disks) -> None:
    settings = {"segment.bytes": 40_000, "index.interval.bytes": 1}
    disks.create(
        "dumped",
        1,
        *(text for key, value in settings.items() for text in ("--config", f"{key}={value}")),
    )
    values = [f"{value} {'x' * 200}" for value in VALUES * 8]
    produce(disks.bootstrap, "dumped", values)  # some 16 KB a batch
    disks.cluster.brokers[3].stop()  # indexes of the newest segment are written by then
    try:
        [folder] = [path / "dumped-0" for path in disks.of(3) if (path / "dumped-0").exists()]
        files = {suffix: sorted(folder.glob(f"*{suffix}")) for suffix in
                 (".log", ".index", ".timeindex", ".snapshot")}  # fmt: skip
        assert len(files[".log"]) > 1

        def dumped(suffix: str, *options: str) -> str:
            names = ",".join(str(path) for path in files[suffix])
            printed = run_tool(DUMP_LOG, *options, "--files", names)
            for complaint in ("Mismatches", "Non-secutive", "Found", "invalid bytes", "corrupt"):
                assert complaint not in printed, printed
            return printed

        records = dumped(".log", "--deep-iteration", "--print-data-log")
        offsets = [int(each) for each in re.findall(r"^\| offset: (\d+)", records, re.MULTILINE)]
        assert offsets == list(range(len(values)))
        assert records.count("isvalid: true") == records.count("baseOffset:")
        assert "payload: value 49 " in records
        assert dumped(".index").count("offset: ") >= len(files[".log"])
        assert dumped(".timeindex").count("timestamp: ") >= len(files[".log"])
        dumped(".index", "--index-sanity-check")
        assert "producerId: " in dumped(".snapshot")
    finally:
        disks.start(3)
