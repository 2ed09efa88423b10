"""Records through three brokers of ours, and through three of Kafka 3.9.1, in one run.

``python -m benchmarks.produce_consume`` starts both clusters on one ZooKeeper, each below a path of
its own, and drives them in turn with Kafka's own ``ProducerPerformance`` (acks=all, batches of
64 KiB) and ``ConsumerPerformance``: records of 100 and of 1000 bytes, one replica and three; then
2,000 records of 100 bytes a second, for their latency.  Each figure stands beside its peer's, with
the ratio; memory and processor time are the three processes' together.  A fifth of the records
warms a cluster up, uncounted.

Clients, six brokers and ZooKeeper share one machine: the figures compare, they do not promise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from benchmarks.records_cluster import RecordsCluster, kafkas_cluster, our_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

WARM_UP: Final = 0.2
"""Share of the records that each cluster gets first, uncounted."""
STEADY_RECORDS_S: Final = 2_000
STEADY_S: Final = 20
STEADY_RECORD_BYTES: Final = 100


class Load(NamedTuple):
    """One kind of records."""

    replicas: int
    record_bytes: int

    @property
    def topic(self) -> str:
        return f"rf{self.replicas}-{self.record_bytes}"

    @override
    def __str__(self) -> str:
        return f"RF {self.replicas}, {self.record_bytes} B"


LOADS: Final = tuple(Load(replicas, size) for replicas in (1, 3) for size in (100, 1000))


class Measured(NamedTuple):
    """What one round gave: records a second, the producer's latency, and what it cost brokers."""

    produced: float
    latency_ms: float
    consumed: float
    produce_cpu_us: float
    """Processor time of the three brokers, in microseconds a record."""
    consume_cpu_us: float


def measure(cluster: RecordsCluster, load: Load, records: int) -> Measured:
    """One load on a fresh topic."""
    warm_up = f"{load.topic}-warm"
    cluster.create(warm_up, load.replicas)
    cluster.produce(warm_up, records=int(records * WARM_UP), record_bytes=load.record_bytes)
    cluster.create(load.topic, load.replicas)
    started_s = cluster.cpu_s
    sent = cluster.produce(load.topic, records=records, record_bytes=load.record_bytes)[-1]
    produced_s = cluster.cpu_s
    consumed = cluster.consume(load.topic, records)
    consumed_s = cluster.cpu_s
    return Measured(
        sent.records_s,
        sent.average_ms,
        consumed,
        (produced_s - started_s) * 1e6 / records,
        (consumed_s - produced_s) * 1e6 / records,
    )


def measure_latency(cluster: RecordsCluster, replicas: int) -> tuple[float, float]:
    """Milliseconds until a record is acknowledged, at a load far below what is possible."""
    topic = f"steady-{replicas}"
    cluster.create(topic, replicas)
    sent = cluster.produce(
        topic,
        records=STEADY_RECORDS_S * STEADY_S,
        record_bytes=STEADY_RECORD_BYTES,
        records_s=STEADY_RECORDS_S,
    )[-1]
    assert sent.p50_ms is not None, "the last line has percentiles"
    assert sent.p99_ms is not None, "the last line has percentiles"
    return sent.p50_ms, sent.p99_ms


def report(load: Load, found: Mapping[str, Measured]) -> str:
    """Both figures and the ratio, a line for each way."""
    ours, kafkas = found.values()
    lines = [
        line(str(load), way, mine, theirs)
        for way, mine, theirs in (
            ("produced records/s", ours.produced, kafkas.produced),
            ("ms until acknowledged", ours.latency_ms, kafkas.latency_ms),
            ("brokers' us/record", ours.produce_cpu_us, kafkas.produce_cpu_us),
            ("consumed records/s", ours.consumed, kafkas.consumed),
            ("brokers' us/record", ours.consume_cpu_us, kafkas.consume_cpu_us),
        )
    ]
    return "\n".join(lines)


def line(load: str, what: str, mine: float, theirs: float) -> str:
    """A figure of ours, Kafka's, and the ratio."""
    ratio = f"{mine / theirs:8.2f}" if theirs else f"{'-':>8}"
    return f"{load:24} {what:26} {mine:12,.1f} {theirs:12,.1f} {ratio}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="produce-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
        chosen = [our_cluster(directory, zookeeper.connect, options.under.split())]
        if not options.only_ours:
            chosen.append(kafkas_cluster(directory, zookeeper.connect))
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
        for replicas in (1, 3):
            load_name = f"RF {replicas}, {STEADY_RECORDS_S:,} records/s"
            if options.load and options.load not in load_name:
                continue
            latencies = [measure_latency(cluster, replicas) for cluster in chosen]
            for position, what in enumerate(("ms until acknowledged, p50", "p99")):
                mine, theirs = (*(each[position] for each in latencies), 0.0)[:2]
                print(line(load_name, what, mine, theirs), flush=True)
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
