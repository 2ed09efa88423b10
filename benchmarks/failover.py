"""How long a failover takes at 100,000 partitions: this controller beside a real Kafka 3.9.1.

One ZooKeeper, two chroots with the same cluster.  In each: all topics, brokers that only listen,
one broker that runs for ``/controller``.  A round deletes ``/controller`` and ends when the last
listening broker has the last byte of its last UpdateMetadata; rounds of the two sides alternate, so
that whatever else the machine does falls on both.  A round counts only if every broker got
every partition and every replica, by a controller one epoch younger.

Kafka 3.9.1 with one candidate is left without a controller for ever if ``/controller`` goes while a
failover is running, so each round waits until the brokers get nothing for a while.

Run ``python -m benchmarks.failover`` in the repository; ``--only ours`` needs no Kafka.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

if not __package__:  # started as a file: the packages are beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.cluster_data import write_cluster
from benchmarks.kafka_peer import KafkaBroker, KafkaUnavailableError, kafka_libs
from benchmarks.stub_client import StubBrokers
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import CheckExists, Delete, Stat, Written, Znode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

CANDIDATE_ID: Final = 1
FIRST_STUB_ID: Final = 101
REPLICATION_FACTOR: Final = 3
# Heap and compiler of a server in production: it must not be what either side waits for.
ZOOKEEPER_FLAGS: Final = ("-Xms1g", "-Xmx2g", "-XX:TieredStopAtLevel=4")
ROUND_TIMEOUT_MS: Final = 120_000


@dataclass(frozen=True, slots=True)
class Size:
    """How big the cluster is."""

    topics: int
    partitions_per_topic: int
    brokers: int

    @property
    def partitions(self) -> int:
        return self.topics * self.partitions_per_topic


@dataclass(frozen=True, slots=True)
class Round:
    """One failover; all times in ms after the deletion of ``/controller`` was sent."""

    elected_ms: float
    """Creation of the new ``/controller``, by ZooKeeper's clock: whole milliseconds."""
    first_request_ms: float
    last_leader_and_isr_ms: float
    last_update_metadata_ms: float
    cpu_ms: float
    """What the candidate computed until it was quiet; less at the mercy of other processes."""


class UnfinishedFailoverError(Exception):
    """Not every broker got everything."""


class Side:
    """One chroot: its znodes, its listening brokers, its candidate."""

    def __init__(
        self, candidate: BrokerProcess, zookeeper: str, size: Size, stack: ExitStack
    ) -> None:
        self.name = candidate.name
        self.rounds: list[Round] = []
        self._candidate = candidate
        self._size = size
        self._session = ZooKeeperSession(ZooKeeperConfig(connect=zookeeper))
        self._session.start()
        stack.callback(self._session.close)
        broker_ids = range(FIRST_STUB_ID, FIRST_STUB_ID + size.brokers)
        write_cluster(
            self._session,
            topics=size.topics,
            partitions_per_topic=size.partitions_per_topic,
            broker_ids=broker_ids,
            replication_factor=min(REPLICATION_FACTOR, size.brokers),
        )
        self._stubs = StubBrokers(zookeeper, FIRST_STUB_ID, size.brokers)
        stack.callback(self._stubs.close)

    def start(self, stack: ExitStack) -> None:
        """Starts the candidate and waits for its first failover to end."""
        self._stubs.mark()
        stack.callback(self._candidate.kill)
        self._candidate.start()
        self._told_everything(self._collect())

    def fail_over(self) -> Round:
        """Deletes ``/controller`` and waits until every broker got everything."""
        self._stubs.mark()
        epoch = self._controller_epoch()
        cpu_ms = self._candidate.cpu_ms()
        deleted_at_ms = time.time() * 1000
        deleted_at_ns = time.monotonic_ns()
        deletion = self._session.write(Delete("/controller"))
        if not isinstance(deletion, Written):
            raise UnfinishedFailoverError(f"{self.name}: no /controller to delete: {deletion.name}")
        requests = self._told_everything(self._collect())

        if self._controller_epoch() != epoch + 1:
            raise UnfinishedFailoverError(f"{self.name}: /controller_epoch did not grow by one")
        if {request["controller_epoch"] for request in requests} != {epoch + 1}:
            raise UnfinishedFailoverError(f"{self.name}: requests of another controller epoch")
        [stat] = self._session.perform(CheckExists(["/controller"]))
        if not isinstance(stat, Stat):
            raise UnfinishedFailoverError(f"{self.name}: /controller is gone again")

        def last(api: str) -> float:
            return max(_ms(r["at_ns"] - deleted_at_ns) for r in requests if r["api"] == api)

        return Round(
            elected_ms=stat.ctime_ms - deleted_at_ms,
            first_request_ms=min(_ms(r["at_ns"] - deleted_at_ns) for r in requests),
            last_leader_and_isr_ms=last("LeaderAndIsr"),
            last_update_metadata_ms=last("UpdateMetadata"),
            cpu_ms=self._candidate.cpu_ms() - cpu_ms,
        )

    def peak_rss_bytes(self) -> int:
        """Of the candidate, since its start."""
        return self._candidate.peak_rss_bytes()

    def _collect(self) -> dict[str, Any]:
        return self._stubs.collect(quiet_ms=3_000, timeout_ms=ROUND_TIMEOUT_MS)

    def _controller_epoch(self) -> int:
        znode = self._session.read("/controller_epoch")
        return int(znode.data) if isinstance(znode, Znode) else 0

    def _told_everything(self, report: dict[str, Any]) -> list[dict[str, Any]]:
        """The requests, if they carry every partition to every broker that must know it."""
        told: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for request in report["requests"]:
            told[request["api"]][request["broker"]] += request["partitions"]
        replicas = self._size.partitions * min(REPLICATION_FACTOR, self._size.brokers)
        problems = list(report["refused"])
        if not report["complete"]:
            problems.append(f"not done in {ROUND_TIMEOUT_MS} ms")
        if sum(told["LeaderAndIsr"].values()) != replicas:
            problems.append(
                f"LeaderAndIsr told of {sum(told['LeaderAndIsr'].values())} replicas of {replicas}"
            )
        if list(told["UpdateMetadata"].values()) != [self._size.partitions] * self._size.brokers:
            problems.append(f"UpdateMetadata: partitions by broker {dict(told['UpdateMetadata'])}")
        if problems:
            raise UnfinishedFailoverError(f"{self.name}: " + "; ".join(problems))
        requests: list[dict[str, Any]] = report["requests"]
        return requests


def _ms(ns: int) -> float:
    return ns / 1_000_000


def _measure(size: Size, options: argparse.Namespace, directory: Path) -> list[Side]:
    with ExitStack() as stack:
        zookeeper = stack.enter_context(
            EmbeddedZooKeeper(directory / "zookeeper", jvm_flags=ZOOKEEPER_FLAGS)
        )
        sides: list[Side] = []
        if options.only != "kafka":
            connect = f"{zookeeper.connect}/ours"
            ours = OurBroker(CANDIDATE_ID, connect, directory / "ours", under=options.under.split())
            sides.append(Side(ours, connect, size, stack))
        if options.only != "ours":
            connect = f"{zookeeper.connect}/kafka"
            kafka = KafkaBroker(CANDIDATE_ID, connect, directory / "kafka")
            sides.append(Side(kafka, connect, size, stack))
        _talk(f"{size.partitions} partitions x {REPLICATION_FACTOR} stand in each chroot")
        for side in sides:
            side.start(stack)
            _talk(f"{side.name} leads; warming up")
        for number in range(options.warm_up + options.rounds):
            for side in sides:
                result = side.fail_over()
                if number >= options.warm_up:
                    side.rounds.append(result)
                _talk(f"{side.name}: {result.last_update_metadata_ms:.0f} ms")
        _report(sides, size, options)
        return sides


def _report(sides: list[Side], size: Size, options: argparse.Namespace) -> None:
    peaks = {side.name: side.peak_rss_bytes() for side in sides}
    medians = {
        side.name: statistics.median(r.last_update_metadata_ms for r in side.rounds)
        for side in sides
    }
    ratios = [
        ours.last_update_metadata_ms / theirs.last_update_metadata_ms
        for ours, theirs in zip(sides[0].rounds, sides[-1].rounds, strict=True)
    ]
    if options.json:
        summary: dict[str, Any] = {
            "size": asdict(size),
            "rounds": {side.name: [asdict(one) for one in side.rounds] for side in sides},
            "median_last_update_metadata_ms": medians,
            "peak_rss_bytes": peaks,
        }
        if len(sides) == 2:
            summary |= {"ratios": ratios, "median_ratio": statistics.median(ratios)}
        print(json.dumps(summary, indent=2))
        return
    print(
        f"\nfailover at {size.partitions} partitions x {REPLICATION_FACTOR}, "
        f"{size.brokers} brokers; ms after the deletion of /controller"
    )
    print(f"{'':14}{'round':>6}{'elected':>9}{'first':>9}{'LISR':>9}{'UMR':>9}{'cpu':>9}")
    for number in range(len(sides[0].rounds)):
        for side in sides:
            one = side.rounds[number]
            print(
                f"{side.name:14}{number + 1:>6}{one.elected_ms:>9.0f}{one.first_request_ms:>9.0f}"
                f"{one.last_leader_and_isr_ms:>9.0f}{one.last_update_metadata_ms:>9.0f}"
                f"{one.cpu_ms:>9.0f}"
            )
    for side in sides:
        print(
            f"{side.name:14}median {medians[side.name]:.0f} ms, "
            f"peak RSS {peaks[side.name] / 1024**2:.0f} MiB"
        )
    if len(sides) == 2:
        print(
            f"ratio, pair by pair: median {statistics.median(ratios):.3f}, "
            f"from {min(ratios):.3f} to {max(ratios):.3f}"
        )


def _talk(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> int:
    """Measures and prints; 0 if every round was complete, 1 if not, 2 if Kafka is missing."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.failover",
        description="From the deletion of /controller to the last UpdateMetadata",
    )
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--partitions-per-topic", type=int, default=100)
    parser.add_argument("--brokers", type=int, default=10, help="brokers that listen")
    parser.add_argument("--rounds", type=int, default=5, help="measured deletions of each side")
    parser.add_argument("--warm-up", type=int, default=3, help="deletions before that")
    parser.add_argument("--only", choices=("ours", "kafka"))
    parser.add_argument(
        "--under", default="", help="run our broker under this command (a profiler)"
    )
    parser.add_argument("--dir", type=Path, help="keep data and logs there (default: a temporary)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    size = Size(
        max(options.partitions // options.partitions_per_topic, 1),
        options.partitions_per_topic,
        options.brokers,
    )
    try:
        if options.only != "ours":
            kafka_libs()
        with tempfile.TemporaryDirectory(prefix="failover-") as temporary:
            _measure(size, options, options.dir or Path(temporary))
    except KafkaUnavailableError as missing:
        _talk(f"{missing} (or measure --only ours)")
        return 2
    except UnfinishedFailoverError as unfinished:
        _talk(f"unfinished failover: {unfinished}")
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
