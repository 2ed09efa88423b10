"""The kit's cluster until its first record with three replicas, beside a Kafka 3.9.1.

``python -m benchmarks.kit_start`` measures *cold*, with a ZooKeeper of its own that is started
first, and *shared*, on one that runs.  It begins where a test asks for its
cluster and ends where a record is acknowledged by three brokers.  Rounds of the two sides
alternate.  A busy machine makes both slower: the seconds of processor time and the ratio say more
than the seconds.  Memory is the proportional share (PSS) of the three brokers, in which pages that
processes share count once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.cluster_start import create_topic, produce
from benchmarks.process_memory import memory_mb
from benchmarks.records_cluster import kafkas_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller_testing import KafkaCluster

TOPIC: Final = "first"


class Measured(NamedTuple):
    """One start."""

    seconds: float
    cpu_s: float
    """Processor time of the three brokers."""
    memory_mb: float


def cpu_s(pids: Sequence[int]) -> float:
    """Processor time of these processes together."""
    found = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        found += (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return found


def kits_start(directory: Path, zookeeper: str) -> Measured:
    """``zookeeper``: as for :class:`.KafkaCluster`."""
    began_s = time.monotonic()
    with KafkaCluster(3, zookeeper, directory=directory) as cluster:
        cluster.create_topic(TOPIC, replication_factor=3)
        cluster.ledger(TOPIC).produce()
        took_s = time.monotonic() - began_s
        pids = [cluster.pid(broker) for broker in cluster.broker_ids]
        return Measured(took_s, cpu_s(pids), sum(memory_mb(pid, "Pss") for pid in pids))


def kafkas_start(directory: Path, zookeeper: str | None) -> Measured:
    """``zookeeper``: where one runs; None to start one first."""
    began_s = time.monotonic()
    with contextlib.ExitStack() as stack:
        if zookeeper is None:
            own = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
            zookeeper = own.connect
        cluster = kafkas_cluster(directory, zookeeper)
        stack.callback(cluster.stop)
        cluster.start()
        create_topic(cluster.bootstrap_servers)
        produce(cluster.bootstrap_servers)
        took_s = time.monotonic() - began_s
        pids = [broker.pid for broker in cluster.brokers]
        return Measured(took_s, cpu_s(pids), sum(memory_mb(pid, "Pss") for pid in pids))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0 when everything was measured."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.kit_start", description="The kit's first record, beside Kafka's"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    found: dict[tuple[str, str], list[Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="kit-start-") as folder:
        directory = Path(folder)
        with EmbeddedZooKeeper(directory / "shared") as shared:
            for number in range(options.rounds):
                for way in ("cold", "shared"):
                    ours, kafkas = (directory / f"{way}-{s}-{number}" for s in ("kit", "kafka"))
                    ours.mkdir()
                    kafkas.mkdir()
                    where = f"{shared.connect}/round-{number}"
                    is_cold = way == "cold"
                    found.setdefault((way, "kit"), []).append(
                        kits_start(ours, "embedded" if is_cold else where)
                    )
                    found.setdefault((way, "kafka"), []).append(
                        kafkas_start(kafkas, None if is_cold else where)
                    )
    print(f"{f'median of {options.rounds}':40} {'kit':>8} {'kafka':>8} {'ratio':>8}")
    for way, text in (("cold", "ZooKeeper started first"), ("shared", "on a shared ZooKeeper")):
        for field, unit in (("seconds", "s"), ("cpu_s", "brokers' cpu s"), ("memory_mb", "MB")):
            kit, kafka = (
                statistics.median(getattr(each, field) for each in found[way, side])
                for side in ("kit", "kafka")
            )
            print(f"{text + ', ' + unit:40} {kit:8.2f} {kafka:8.2f} {kit / kafka:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
