"""Kafka Streams, Connect and MirrorMaker of 3.9.1 on a cluster of ours, and on one of Kafka's.

They use more of the protocol than other clients: transactions of many partitions at once, members
of a group that keep their partitions while it rebalances, topics that they create and configure
themselves, offsets that are translated and altered.  Meanwhile a broker is killed, a controller
replaced, and one of the application's processes killed.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Final
from urllib.error import HTTPError, URLError

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from benchmarks.kafka_peer import application_libs
from tests.peers.kafka_kit_cluster import KafkaKitCluster
from tests.peers.kafka_versions import required
from tests.support.cli_world import zkctl_here
from tests.support.quorum import free_ports
from tests.support.znode_configs import config_of
from zkcontroller.zookeeper.znodes import TopicZnode
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.waiting import until

pytestmark = [pytest.mark.peers, pytest.mark.timeout(400)]

PATIENCE_S: Final = 120.0
WORDS: Final = [f"word-{number}" for number in range(20)]
CONFIGS: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
ALONE: Final = {key: "1" for key in CONFIGS if not key.endswith(".ms")}

Start = Callable[..., KafkaCluster]


@pytest.fixture(params=[KafkaCluster, KafkaKitCluster], ids=["ours", "kafka"])
def start(request: pytest.FixtureRequest, start_kit: Callable[..., KafkaCluster]) -> Start:
    """Starts clusters of one kind."""
    required(application_libs)
    return partial(start_kit, request.param)


@contextmanager
def java(log: Path, main: str, *arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A program of the applications', killed at the end; ``log`` has what it prints."""
    command = ["java", "-Xmx256M", "-XX:TieredStopAtLevel=1", "-cp", f"{application_libs()}/*"]
    with (
        log.open("ab") as output,
        subprocess.Popen(
            [*command, main, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield process
        finally:
            process.kill()


def said(log: Path) -> str:
    return log.read_text(errors="replace")


def records(cluster: KafkaCluster, topic: str, is_enough: Callable[[list[Any]], bool]) -> list[Any]:
    """The committed records of a topic, as soon as they are enough."""
    consumer = Consumer(
        {
            **cluster.client_config(),
            "group.id": f"reader of {topic}",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "topic.metadata.refresh.interval.ms": 1000,
        }
    )
    consumer.subscribe([topic])
    found: list[Any] = []

    def look() -> list[Any] | None:
        found.extend(each for each in consumer.consume(500, 0.5) if each.error() is None)
        return found if is_enough(found) else None

    try:
        return until(look, lambda: f"enough records of {topic}, not {len(found)}", PATIENCE_S)
    finally:
        consumer.close()


# Kafka Streams


def test_kafka_streams_counts_each_word_once_when_processes_are_killed(
    start: Start, tmp_path: Path
) -> None:
    cluster = start(3, CONFIGS)
    for topic in ("lines", "counts"):
        cluster.create_topic(topic, partitions=4)
    random = Random(1)
    counted: Counter[str] = Counter()
    producer = Producer({**cluster.client_config(), "enable.idempotence": True})

    def write(lines: int) -> None:
        for number in range(lines):
            words = random.choices(WORDS, k=3)
            counted.update(words)
            producer.produce("lines", " ".join(words), key=str(number))
            producer.poll(0.01)
        assert producer.flush(PATIENCE_S) == 0

    def application(name: str) -> Any:
        program = Path(__file__).parent / "WordCount.java"
        folder = tmp_path / name
        return java(tmp_path / f"{name}.log", str(program), cluster.bootstrap_servers, folder)

    def wait_running(name: str) -> None:
        log = tmp_path / f"{name}.log"
        until(lambda: "RUNNING\n" in said(log) or None, lambda: said(log), PATIENCE_S)

    with application("one"):
        with application("two"):
            wait_running("one")
            wait_running("two")
            write(200)
            cluster.kill(cluster.wait_leader("counts"))
            cluster.elect_controller()
            write(200)
        # It was killed within a transaction, which is aborted when its time is over.
        [killed] = set(cluster.broker_ids) - set(cluster.live_brokers)
        cluster.start(killed)
        with application("three") as last:
            wait_running("three")
            write(200)
            found = records(cluster, "counts", lambda each: last_counts(each) == counted)
            assert last.stdin is not None
            last.stdin.close()
            assert last.wait(PATIENCE_S) == 0

    by_word = defaultdict(list)
    for each in found:
        by_word[each.key()].append(int(each.value()))
    assert len(by_word) == len(WORDS)
    # A line that is counted again would write a number again.
    assert all(counts == sorted(set(counts)) for counts in by_word.values())
    # What an application makes for itself.
    assert config_of(cluster, "topics/word-count-counts-changelog")["cleanup.policy"] == "compact"
    assert config_of(cluster, "topics/word-count-counts-repartition")["retention.ms"] == "-1"


def last_counts(found: Sequence[Any]) -> Counter[str]:
    return Counter({each.key().decode(): int(each.value()) for each in found})


# Connect


class Worker:
    """A process of Connect's distributed mode, asked by HTTP."""

    def __init__(self, port: int, properties: Path) -> None:
        self._url = f"http://127.0.0.1:{port}"
        self.properties = properties

    def ask(self, method: str, path: str, body: object = None) -> Any:
        """What it answers; None if it cannot yet."""
        request = urllib.request.Request(
            self._url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with suppress(HTTPError, URLError, ConnectionError), urllib.request.urlopen(request) as got:
            text = got.read()
            return json.loads(text) if text else {}
        return None

    def wait(self, method: str, path: str, body: object = None) -> Any:
        """What it answers once it can, as it cannot during a rebalance."""
        return until(lambda: self.ask(method, path, body), lambda: f"{method} {path}", PATIENCE_S)


def test_connect_copies_each_line_when_processes_are_killed(start: Start, tmp_path: Path) -> None:
    cluster = start(3, CONFIGS)
    one, two = (worker(cluster, port, tmp_path) for port in free_ports(2))
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    main = "org.apache.kafka.connect.cli.ConnectDistributed"
    kind = "org.apache.kafka.connect.file.FileStream"

    def write(first: int, last: int) -> None:
        with source.open("a") as file:
            file.writelines(f"line {number}\n" for number in range(first, last))

    def wait_copied(count: int) -> None:
        wanted = {f"line {number}" for number in range(count)}
        until(
            lambda: (sink.exists() and set(sink.read_text().splitlines()) >= wanted) or None,
            lambda: f"{count} lines in {sink}",
            PATIENCE_S,
        )

    with java(tmp_path / "two.log", main, two.properties):
        with java(tmp_path / "one.log", main, one.properties):
            for name, settings in (
                ("source", {"file": str(source), "topic": "copied"}),
                ("sink", {"file": str(sink), "topics": "copied"}),
            ):
                made = {"connector.class": f"{kind}{name.title()}Connector", "tasks.max": "1"}
                one.wait("POST", "/connectors", {"name": name, "config": made | settings})
                two.wait("GET", "/")
            write(0, 500)
            wait_copied(500)
        cluster.kill(cluster.wait_leader("copied"))
        cluster.elect_controller()
        write(500, 1000)
        wait_copied(1000)
        [killed] = set(cluster.broker_ids) - set(cluster.live_brokers)
        cluster.start(killed)

        two.wait("PUT", "/connectors/sink/stop")
        partition = {"kafka_topic": "copied", "kafka_partition": 0}
        altered = [{"partition": partition, "offset": {"kafka_offset": 900}}]
        two.wait("PATCH", "/connectors/sink/offsets", {"offsets": altered})
        offsets = two.wait("GET", "/connectors/sink/offsets")

    assert offsets == {"offsets": altered}
    # The source wrote each line once, in transactions with its own offsets.
    copied = records(cluster, "copied", lambda each: len(each) >= 1000)
    lines = [json.loads(each.value())["payload"] for each in copied]
    assert sorted(lines) == sorted(f"line {number}" for number in range(1000))
    for topic in ("connect-configs", "connect-offsets", "connect-status"):
        assert config_of(cluster, f"topics/{topic}")["cleanup.policy"] == "compact"


def worker(cluster: KafkaCluster, port: int, folder: Path) -> Worker:
    converter = "org.apache.kafka.connect.json.JsonConverter"
    properties = {
        "bootstrap.servers": cluster.bootstrap_servers,
        "group.id": "connect",
        "key.converter": converter,
        "value.converter": converter,
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "status.storage.topic": "connect-status",
        "exactly.once.source.support": "enabled",
        "offset.flush.interval.ms": "1000",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "1000",
        "scheduled.rebalance.max.delay.ms": "1000",
        "consumer.session.timeout.ms": "6000",
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
    }
    file = folder / f"worker-{port}.properties"
    write_properties(file, properties)
    return Worker(port, file)


def write_properties(file: Path, properties: Mapping[str, object]) -> None:
    file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))


# MirrorMaker


def test_mirror_maker_copies_topics_settings_and_offsets(start: Start, tmp_path: Path) -> None:
    source, target = start(1, ALONE), start(1, ALONE)
    source.create_topic("orders", 2, configs={"retention.ms": "777000"})
    producer = Producer(source.client_config())
    for number in range(300):
        producer.produce("orders", f"value {number}", key=str(number), headers={"n": str(number)})
    assert producer.flush(PATIENCE_S) == 0
    # Offsets before the first record that MirrorMaker copied are not translated.
    reader = Consumer({**source.client_config(), "group.id": "readers"})
    ends = [reader.get_watermark_offsets(TopicPartition("orders", p))[1] for p in (0, 1)]
    committed = [TopicPartition("orders", p, end) for p, end in enumerate(ends)]
    reader.commit(offsets=committed, asynchronous=False)
    reader.close()
    properties = {
        "clusters": "a, b",
        "a.bootstrap.servers": source.bootstrap_servers,
        "b.bootstrap.servers": target.bootstrap_servers,
        "a->b.enabled": "true",
        "a->b.topics": "orders.*",
        "a->b.groups": "readers",
        "replication.factor": 1,
        **{
            f"{name}.replication.factor": 1
            for name in (
                *("checkpoints.topic", "heartbeats.topic", "offset-syncs.topic"),
                *("config.storage", "offset.storage", "status.storage"),
            )
        },
        **{
            f"{name}.interval.seconds": 1
            for name in (
                *("emit.checkpoints", "refresh.groups", "refresh.topics"),
                *("sync.group.offsets", "sync.topic.acls", "sync.topic.configs"),
            )
        },
        "sync.group.offsets.enabled": "true",
        "offset.lag.max": 0,
        "exactly.once.source.support": "enabled",
    }
    write_properties(tmp_path / "mirror.properties", properties)

    def offsets() -> list[int] | None:
        """Those of the group in the copy; a translated offset may be smaller, never larger."""
        asked = Consumer({**target.client_config(), "group.id": "readers"})
        try:
            got = asked.committed([TopicPartition("a.orders", p) for p in (0, 1)], timeout=30)
        finally:
            asked.close()
        found = [each.offset for each in got]
        return found if min(found) > 0 else None

    def partitions() -> int:
        data = target.znode(TopicZnode.path("a.orders")).get()
        return 0 if data is None else len(TopicZnode.decode("a.orders", data).partitions)

    main = "org.apache.kafka.connect.mirror.MirrorMaker"
    log = tmp_path / "mirror.log"
    with java(log, main, tmp_path / "mirror.properties"):
        copied = records(target, "a.orders", lambda each: len(each) >= 300)
        translated = until(offsets, lambda: said(log)[-3000:], PATIENCE_S)
        at = ("-b", source.bootstrap_servers, "topic", "alter", "orders")
        assert zkctl_here(*at, "--partitions", "5", "--yes").exit_code == 0
        until(lambda: partitions() == 5 or None, lambda: "5 partitions in the copy", PATIENCE_S)

    expected = {(b"%d" % n, b"value %d" % n, (("n", b"%d" % n),)) for n in range(300)}
    assert len(copied) == 300
    assert {(each.key(), each.value(), tuple(each.headers())) for each in copied} == expected
    assert all(offset <= end for offset, end in zip(translated, ends, strict=True))
    assert config_of(target, "topics/a.orders")["retention.ms"] == "777000"
