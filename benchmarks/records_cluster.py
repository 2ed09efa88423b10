"""Three brokers of one kind, driven by Kafka's own performance tools: ours and Kafka's in turn."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, kafka_libs, run_kafka_tool

PARTITIONS: Final = 6
BROKERS: Final = (1, 2, 3)
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
_BATCH_BYTES: Final = 64 * 1024
_TOOL_TIMEOUT_S: Final = 3600
_LOG_TIMEOUT_S: Final = 10.0
_LOOK_AGAIN_S: Final = 0.02
_SENT: Final = re.compile(
    r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency, ([\d.]+) ms max latency"
    r"(?:, (\d+) ms 50th, (\d+) ms 95th, (\d+) ms 99th)?"
)


class Sent(NamedTuple):
    """What the producer tells of its records, of all or of the last seconds."""

    records_s: float
    average_ms: float
    max_ms: float
    p50_ms: float | None
    """Percentiles stand in the last line alone."""
    p99_ms: float | None


class RecordsCluster:
    """Three brokers of one kind."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self.brokers = brokers
        self.name = brokers[0].name
        self.bootstrap_servers = ""
        """Known once they have started."""

    def start(self) -> None:
        """All at once; returns when each serves."""
        for broker in self.brokers:
            broker.launch()
        for broker in self.brokers:
            broker.wait_until_started()
        # Read now: the file that has the line is another after the next full hour.
        self.bootstrap_servers = ",".join(map(_address, self.brokers))

    def stop(self) -> None:
        for broker in self.brokers:
            broker.kill()

    @property
    def rss_mb(self) -> float:
        """Resident memory of the three together."""
        return sum(broker.rss_mb() for broker in self.brokers)

    @property
    def cpu_s(self) -> float:
        """Processor time of the three together."""
        return sum(broker.cpu_ms() for broker in self.brokers) / 1000

    def create(self, topic: str, replicas: int, partitions: int = PARTITIONS) -> None:
        done = run_kafka_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", self.bootstrap_servers, "--create", "--topic", topic),
            *("--partitions", str(partitions), "--replication-factor", str(replicas)),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def produce(
        self, topic: str, *, records: int, record_bytes: int, records_s: int = -1
    ) -> list[Sent]:
        """With acks=all, at most so many a second: the tool's lines, the last one of the whole."""
        output = _run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--throughput", str(records_s)),
            *("--record-size", str(record_bytes), "--producer-props"),
            f"bootstrap.servers={self.bootstrap_servers}",
            "acks=all",
            f"batch.size={_BATCH_BYTES}",
        )
        return sent_lines(output)

    def consume(self, topic: str, records: int) -> float:
        """Records a second, from the first fetch on."""
        output = _run(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", self.bootstrap_servers, "--topic", topic),
            *("--messages", str(records), "--group", f"group-{topic}", "--timeout", "60000"),
        )
        fields = output.strip().splitlines()[-1].split(",")
        return float(fields[-1])


def sent_lines(output: str) -> list[Sent]:
    """The lines of ProducerPerformance."""

    def number(text: str | None) -> float | None:
        return None if text is None else float(text)

    return [
        Sent(float(each[1]), float(each[3]), float(each[4]), number(each[5]), number(each[7]))
        for each in _SENT.finditer(output)
    ]


def our_cluster(
    directory: Path, zookeeper: str, under: Sequence[str] = (), **properties: object
) -> RecordsCluster:
    """Three brokers of ours, below ``/ours``; ``log_segment_bytes`` is ``log.segment.bytes``."""
    return RecordsCluster(
        [
            OurBroker(
                broker_id,
                f"{zookeeper}/ours",
                _folder(directory, "ours", broker_id),
                _all(properties),
                under=under,
            )
            for broker_id in BROKERS
        ]
    )


def kafkas_cluster(directory: Path, zookeeper: str, **properties: object) -> RecordsCluster:
    """Three brokers of Kafka, below ``/kafkas``; ``properties`` as those of ours."""
    return RecordsCluster(
        [
            KafkaBroker(
                broker_id,
                f"{zookeeper}/kafkas",
                _folder(directory, "kafka", broker_id),
                _all(properties),
            )
            for broker_id in BROKERS
        ]
    )


def _all(more: Mapping[str, object]) -> dict[str, str]:
    return _PROPERTIES | {name.replace("_", "."): str(value) for name, value in more.items()}


def _folder(directory: Path, kind: str, broker_id: int) -> Path:
    found = directory / f"{kind}-{broker_id}"
    found.mkdir()
    return found


def _address(broker: BrokerProcess) -> str:
    deadline_s = time.monotonic() + _LOG_TIMEOUT_S  # lines are written a little after the event
    while time.monotonic() < deadline_s:
        for line in broker.log_lines("server.log"):
            if found := re.search(r"with addresses: PLAINTEXT://([^,\s]+)", line):
                return found[1]
        time.sleep(_LOOK_AGAIN_S)
    raise LookupError(f"broker {broker.broker_id} does not say where it listens")


def _run(main_class: str, *arguments: str) -> str:
    java = ["java", "-Xmx512M", "-XX:+UseSerialGC", "-cp", f"{kafka_libs()}/*"]
    done = subprocess.run(
        [*java, main_class, *arguments],
        capture_output=True,
        text=True,
        timeout=_TOOL_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
