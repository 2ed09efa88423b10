"""Half an hour at half load: whether memory and latency stay what they are.

``python -m benchmarks.soak --minutes 30 --records 3000`` lets Kafka's ``ProducerPerformance`` send
records of 1000 bytes, three replicas, acks=all, at a steady rate through three brokers of ours, and
a consumer group follow; old segments are deleted all the while.  Every line of the producer (five
seconds each) and the memory of the brokers are kept; reported are the first and the last third, and
the slope of memory.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer
from typing_extensions import override

from benchmarks.records_cluster import RecordsCluster, our_cluster
from kafka_common.observability.loop_watch import VARIABLE
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

LOOP_BOUND_MS: Final = 20
"""A callback of the brokers' event loops that takes longer is printed."""
_HELD: Final = re.compile(r"WARN (.*) held the event loop for (\d+) ms")
RECORD_BYTES: Final = 1000
SAMPLE_S: Final = 5.0
TOPIC: Final = "soak"
_KEPT_BYTES: Final = 64 * 1024 * 1024
"""Of each partition: a soak must not fill the disk."""


class Watcher(threading.Thread):
    """Samples the memory of the brokers."""

    def __init__(self, cluster: RecordsCluster) -> None:
        super().__init__(daemon=True)
        self._cluster = cluster
        self._is_over = threading.Event()
        self.samples: list[tuple[float, float]] = []
        """Seconds since the start, MB of the three together."""

    @override
    def run(self) -> None:
        started_s = time.monotonic()
        while not self._is_over.wait(SAMPLE_S):
            self.samples.append((time.monotonic() - started_s, self._cluster.rss_mb))

    def end(self) -> None:
        self._is_over.set()
        self.join()


class Follower(threading.Thread):
    """A consumer group of one, which reads along and commits."""

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__(daemon=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "soak",
            "auto.offset.reset": "earliest",
        }
        self._consumer = Consumer(settings)
        self._is_over = threading.Event()
        self.records = 0

    @override
    def run(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self._is_over.is_set():
            self.records += sum(
                1 for message in self._consumer.consume(1000, 0.5) if message.error() is None
            )
        self._consumer.close()

    def end(self) -> None:
        self._is_over.set()
        self.join()


def longest_callbacks(cluster: RecordsCluster) -> list[str]:
    """For each broker the callback that held its event loop longest, as its server.log names it."""
    lines = []
    for broker in cluster.brokers:
        found = [each for line in broker.log_lines("server.log") if (each := _HELD.search(line))]
        longest = max(found, key=lambda each: int(each[2]), default=None)
        held = (
            f"none of {LOOP_BOUND_MS} ms" if longest is None else f"{longest[2]} ms, {longest[1]}"
        )
        lines.append(f"broker {broker.broker_id}, longest callback of the event loop: {held}")
    return lines


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """Medians of the first third and of the last."""
    size = max(1, len(values) // 3)
    return statistics.median(values[:size]), statistics.median(values[-size:])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="benchmarks.soak", description="A long steady load")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--records", type=int, default=3_000, help="a second (default: 3000)")
    options = parser.parse_args(arguments)
    os.environ.setdefault(VARIABLE, str(LOOP_BOUND_MS))
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="soak-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
        cluster = our_cluster(
            directory,
            zookeeper.connect,
            log_segment_bytes=16 * 1024 * 1024,
            log_retention_bytes=_KEPT_BYTES,
            log_retention_check_interval_ms=10_000,
        )
        stack.callback(cluster.stop)
        cluster.start()
        cluster.create(TOPIC, 3)
        watcher, follower = Watcher(cluster), Follower(cluster.bootstrap_servers)
        watcher.start()
        follower.start()
        records = int(options.minutes * 60 * options.records)
        *lines, whole = cluster.produce(
            TOPIC, records=records, record_bytes=RECORD_BYTES, records_s=options.records
        )
        time.sleep(SAMPLE_S)  # the follower reads what is left
        watcher.end()
        follower.end()
        held = longest_callbacks(cluster)
    print(f"{records:,} records sent at {whole.records_s:,.0f} a second, {follower.records:,} read")
    for what, values in (
        ("MB resident, three brokers", [mb for _, mb in watcher.samples]),
        ("ms until acknowledged, average", [line.average_ms for line in lines]),
        ("ms until acknowledged, longest", [line.max_ms for line in lines]),
    ):
        first, last = thirds(values)
        print(f"{what:32} first third {first:8.1f}   last third {last:8.1f}   {last / first:5.2f}")
    hours = [seconds / 3600 for seconds, _ in watcher.samples[len(watcher.samples) // 3 :]]
    megabytes = [mb for _, mb in watcher.samples[len(watcher.samples) // 3 :]]
    slope = statistics.linear_regression(hours, megabytes).slope
    print(*held, sep="\n")
    print(f"memory grows by {slope:.1f} MB an hour, over the last two thirds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
