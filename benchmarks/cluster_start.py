"""From nothing to the first acknowledged record with three replicas: ours and Kafka 3.9.1.

``python -m benchmarks.cluster_start`` starts three brokers at once, creates a topic with three
replicas and waits until one record is acknowledged by all of them: *cold* with a ZooKeeper that is
started first, *warm* on one that runs.  Rounds of the two sides alternate.  The client is the same
for both (librdkafka, in this process, so that no JVM's start is counted).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from benchmarks.records_cluster import RecordsCluster, kafkas_cluster, our_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

TIMEOUT_S: Final = 60
CLIENT_PATIENCE_S: Final = 2
RETRY_S: Final = 0.05
_admin: Any = import_module("confluent_kafka.admin")  # its stubs hide NewTopic

MakeCluster = Callable[[Path, str], RecordsCluster]


def seconds_until_acknowledged(make: MakeCluster, directory: Path, zookeeper: str) -> float:
    """From the start of the first process to the acknowledgement."""
    cluster = make(directory, zookeeper)
    started_s = time.monotonic()
    try:
        cluster.start()
        create_topic(cluster.bootstrap_servers)
        produce(cluster.bootstrap_servers)
        return time.monotonic() - started_s
    finally:
        cluster.stop()


def create_topic(bootstrap_servers: str) -> None:
    """Creates the topic with three replicas, once three brokers are known."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        # A new client each time: librdkafka 2.16 asks no more once a broker that does not know
        # any controller has answered with no brokers.
        admin = _admin.AdminClient({"bootstrap.servers": bootstrap_servers})
        wanted = _admin.NewTopic("first", 1, 3)
        try:
            futures = admin.create_topics([wanted], request_timeout=CLIENT_PATIENCE_S)
            futures["first"].result(CLIENT_PATIENCE_S)
            return
        except Exception as failure:
            # An answer that came too late, on a busy machine.
            if "TOPIC_ALREADY_EXISTS" in str(failure):
                return
            # A broker that has just registered is not known to the controller yet.
            if time.monotonic() > deadline_s:
                raise
            time.sleep(RETRY_S)


def produce(bootstrap_servers: str) -> None:
    """Writes one record, which all replicas acknowledge."""
    errors: list[object] = []
    producer = Producer(
        {"bootstrap.servers": bootstrap_servers, "acks": "all", "linger.ms": 0,
         "retry.backoff.ms": 20, "topic.metadata.refresh.fast.interval.ms": 20}
    )  # fmt: skip
    producer.produce("first", b"record", on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(TIMEOUT_S) == 0, "not acknowledged in time"
    assert errors == [None], errors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="benchmarks.cluster_start", description="Seconds until the first record"
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    sides: dict[str, MakeCluster] = {"zkcontroller": our_cluster, "kafka 3.9.1": kafkas_cluster}
    found: dict[tuple[str, str], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="start-") as folder:
        directory = Path(folder)
        with EmbeddedZooKeeper(directory / "zookeeper") as running:
            for number in range(options.rounds):
                for name, make in sides.items():
                    place = directory / f"{name}-{number}"
                    place.mkdir()
                    chroot = f"{running.connect}/round-{number}"
                    took_s = seconds_until_acknowledged(make, place, chroot)
                    found.setdefault(("warm", name), []).append(took_s)
        for number in range(options.rounds):
            for name, make in sides.items():
                place = directory / f"cold-{name}-{number}"
                place.mkdir()
                started_s = time.monotonic()
                with EmbeddedZooKeeper(place / "zookeeper") as own:
                    took_s = time.monotonic() - started_s
                    took_s += seconds_until_acknowledged(make, place, own.connect)
                found.setdefault(("cold", name), []).append(took_s)
    print(f"{'':28} {'ours s':>8} {'kafka s':>8} {'ratio':>8}")
    for way, text in (("warm", "on a running ZooKeeper"), ("cold", "ZooKeeper started first")):
        ours, kafkas = (statistics.median(found[way, name]) for name in sides)
        print(f"{text:28} {ours:8.2f} {kafkas:8.2f} {ours / kafkas:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
