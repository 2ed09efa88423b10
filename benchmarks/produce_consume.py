"""Records through three brokers of ours, and through three of Kafka 3.9.1, in one run.

``python -m benchmarks.produce_consume`` starts both clusters on one ZooKeeper, each below a path of
its own, and drives them in turn with Kafka's own ``ProducerPerformance`` and
``ConsumerPerformance``: records of 100 and of 1000 bytes, one replica with ``acks=1`` and three
with ``acks=all``.  Each figure is told beside its peer's, with the ratio; memory and processor
time are the three processes' together.  A fifth of the records warms a cluster up, uncounted.

Clients, six brokers and ZooKeeper share one machine: the figures compare, they do not promise.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, kafka_libs, run_kafka_tool
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

PARTITIONS: Final = 6
BROKERS: Final = (1, 2, 3)
WARM_UP: Final = 0.2
"""Share of the records that each cluster gets first, uncounted."""
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "3",
    "group.initial.rebalance.delay.ms": "0",
}
_SENT: Final = re.compile(r"([\d.]+) records/sec \(([\d.]+) MB/sec\), ([\d.]+) ms avg latency")


class Load(NamedTuple):
    """One kind of records."""

    replicas: int
    acks: str
    record_bytes: int

    @property
    def topic(self) -> str:
        return f"rf{self.replicas}-{self.record_bytes}"

    @override
    def __str__(self) -> str:
        return f"RF {self.replicas}, acks={self.acks}, {self.record_bytes} B"


LOADS: Final = tuple(
    Load(replicas, acks, size) for replicas, acks in ((1, "1"), (3, "all")) for size in (100, 1000)
)


class Measured(NamedTuple):
    """What one round gave: records a second, the producer's latency, and what it cost brokers."""

    produced: float
    latency_ms: float
    consumed: float
    produce_cpu_us: float
    """Processor time of the three brokers, in microseconds a record."""
    consume_cpu_us: float


class Cluster:
    """Three brokers of one kind."""

    def __init__(self, brokers: Sequence[BrokerProcess]) -> None:
        self.brokers = brokers
        self.name = brokers[0].name
        self.bootstrap_servers = ""
        """Known once they have started."""

    def start(self) -> None:
        for broker in self.brokers:
            broker.start()
        # Read now: the file that has the line is another after the next full hour.
        self.bootstrap_servers = ",".join(self._address(broker) for broker in self.brokers)

    def stop(self) -> None:
        for broker in self.brokers:
            broker.kill()

    @property
    def rss_mb(self) -> float:
        """Resident memory of the three together."""
        return sum(_rss_kb(broker.pid) for broker in self.brokers) / 1024

    @property
    def cpu_s(self) -> float:
        """Processor time of the three together."""
        return sum(broker.cpu_ms() for broker in self.brokers) / 1000

    def create(self, topic: str, replicas: int) -> None:
        done = run_kafka_tool(
            "org.apache.kafka.tools.TopicCommand",
            *("--bootstrap-server", self.bootstrap_servers, "--create", "--topic", topic),
            *("--partitions", str(PARTITIONS), "--replication-factor", str(replicas)),
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def produce(self, topic: str, load: Load, records: int) -> tuple[float, float]:
        """Records a second, and the average latency in milliseconds."""
        output = _run(
            "org.apache.kafka.tools.ProducerPerformance",
            *("--topic", topic, "--num-records", str(records), "--throughput", "-1"),
            *("--record-size", str(load.record_bytes), "--producer-props"),
            f"bootstrap.servers={self.bootstrap_servers}",
            f"acks={load.acks}",
        )
        *_, last = _SENT.finditer(output)
        return float(last[1]), float(last[3])

    def consume(self, topic: str, records: int) -> float:
        """Records a second, from the first fetch on."""
        output = _run(
            "org.apache.kafka.tools.ConsumerPerformance",
            *("--bootstrap-server", self.bootstrap_servers, "--topic", topic),
            *("--messages", str(records), "--group", f"group-{topic}", "--timeout", "60000"),
        )
        fields = output.strip().splitlines()[-1].split(",")
        return float(fields[-1])

    @staticmethod
    def _address(broker: BrokerProcess) -> str:
        for line in broker.log_lines("server.log"):
            if found := re.search(r"with addresses: PLAINTEXT://([^,\s]+)", line):
                return found[1]
        raise LookupError(f"broker {broker.broker_id} does not say where it listens")


def _run(main_class: str, *arguments: str) -> str:
    java = ["java", "-Xmx512M", "-XX:+UseSerialGC", "-cp", f"{kafka_libs()}/*"]
    done = subprocess.run(
        [*java, main_class, *arguments], capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _rss_kb(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise ProcessLookupError(f"process {pid} tells no VmRSS")


def measure(cluster: Cluster, load: Load, records: int) -> Measured:
    """One load on a fresh topic."""
    warm_up = f"{load.topic}-warm"
    cluster.create(warm_up, load.replicas)
    cluster.produce(warm_up, load, int(records * WARM_UP))
    cluster.create(load.topic, load.replicas)
    started_s = cluster.cpu_s
    produced, latency_ms = cluster.produce(load.topic, load, records)
    produced_s = cluster.cpu_s
    consumed = cluster.consume(load.topic, records)
    consumed_s = cluster.cpu_s
    return Measured(
        produced,
        latency_ms,
        consumed,
        (produced_s - started_s) * 1e6 / records,
        (consumed_s - produced_s) * 1e6 / records,
    )


def clusters(directory: Path, zookeeper: str, under: Sequence[str]) -> Iterator[Cluster]:
    """Ours and Kafka's."""

    def path(kind: str, broker_id: int) -> Path:
        found = directory / f"{kind}-{broker_id}"
        found.mkdir()
        return found

    yield Cluster(
        [
            OurBroker(
                broker_id, f"{zookeeper}/ours", path("ours", broker_id), _PROPERTIES, under=under
            )
            for broker_id in BROKERS
        ]
    )
    yield Cluster(
        [
            KafkaBroker(broker_id, f"{zookeeper}/kafkas", path("kafka", broker_id), _PROPERTIES)
            for broker_id in BROKERS
        ]
    )


def report(load: Load, found: Mapping[str, Measured]) -> str:
    """Both figures and the ratio, a line for each way."""
    ours, kafkas = found.values()
    lines = [
        f"{load!s:24} {way:26} {mine:12,.1f} {theirs:12,.1f} {mine / theirs:8.2f}"
        for way, mine, theirs in (
            ("produced records/s", ours.produced, kafkas.produced),
            ("ms until acknowledged", ours.latency_ms, kafkas.latency_ms),
            ("brokers' us/record", ours.produce_cpu_us, kafkas.produce_cpu_us),
            ("consumed records/s", ours.consumed, kafkas.consumed),
            ("brokers' us/record", ours.consume_cpu_us, kafkas.consume_cpu_us),
        )
    ]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="produce-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
        both = list(clusters(directory, zookeeper.connect, options.under.split()))
        chosen = both[:1] if options.only_ours else both
        for cluster in chosen:
            stack.callback(cluster.stop)
            cluster.start()
        print("".join(f"{c.name}: {c.rss_mb:,.0f} MB resident idle\n" for c in chosen), end="")
        print(f"{'':51} {'ours':>12} {'kafka 3.9.1':>12} {'ratio':>8}", flush=True)
        for load in LOADS:
            if options.load and options.load not in str(load):
                continue
            records = options.megabytes * 1_000_000 // load.record_bytes
            found = {cluster.name: measure(cluster, load, records) for cluster in chosen}
            print(report(load, found) if len(found) == 2 else f"{load}: {found}", flush=True)
        for cluster in chosen:
            print(f"{cluster.name}: {cluster.rss_mb:,.0f} MB resident afterwards")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, prog="benchmarks.produce_consume")
    parser.add_argument(
        "--megabytes", type=int, default=100, help="of records per load (default: %(default)s)"
    )
    parser.add_argument("--load", default="", help="only loads whose name contains this")
    parser.add_argument("--only-ours", action="store_true", help="without Kafka's brokers")
    parser.add_argument("--under", default="", help="a command to run our brokers under")
    return parser


if __name__ == "__main__":
    sys.exit(main())
