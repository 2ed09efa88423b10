"""How long clients wait for records and offsets, at three brokers of ours and three of Kafka 3.9.1.

``python -m benchmarks.latency`` starts both clusters on one ZooKeeper, and for each one process of
Kafka's own clients with their defaults, the producer with acks=all.  They take turns, round by
round: one record at a time, then a steady number of records a second, then transactions of 50
records with the offsets of a group in them; then ten consumers join a group, one consumer commits,
and the admin client alters the offset of one group after the other.  Three replicas, six partitions
(twelve for the ten consumers), records of 100 bytes.  Each figure is the median of the rounds,
beside the peer's, with the ratio.  The first rounds warm both up, uncounted.

``--beside COMMAND`` measures another version of ours in Kafka's place, for example
``env -C ../before``: brokers import from the folder they start in.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final, TypeAlias

from benchmarks.kafka_peer import KafkaUnavailableError, kafka_libs
from benchmarks.records_cluster import PARTITIONS, RecordsCluster, kafkas_cluster, our_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

TOPIC: Final = "latency"
SINGLE_RECORDS: Final = 600
STEADY_RECORDS_S: Final = (2_000, 10_000)
TRANSACTIONS: Final = 40
TRANSACTION_RECORDS: Final = 50
JOINS: Final = 3
MEMBERS: Final = 10
COMMITS: Final = 200
ALTERATIONS: Final = 100
SUBSCRIBED: Final = "subscribed"
SUBSCRIBED_PARTITIONS: Final = 12
"""Each member of a group has one, at least."""
_PROPERTIES: Final = {
    "offsets_topic_replication_factor": 3,
    "transaction_state_log_replication_factor": 3,
    "transaction_state_log_min_isr": 2,
    "transaction_state_log_num_partitions": 3,
}
_CLIENT: Final = Path(__file__).with_name("LatencyClient.java")

Round: TypeAlias = dict[str, float]
"""What was measured, in milliseconds."""


class Side:
    """A cluster, its client and its rounds."""

    def __init__(self, cluster: RecordsCluster) -> None:
        self.name = cluster.name
        self.rounds: list[Round] = []
        java = ["java", "-Xmx256M", "-XX:+UseSerialGC", "-cp", f"{kafka_libs()}/*", str(_CLIENT)]
        self._client = subprocess.Popen(
            [*java, cluster.bootstrap_servers, TOPIC, str(PARTITIONS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def measure(self, seconds: float) -> Round:
        """One round."""
        found = _percentiles("one at a time", self._ask(f"single {SINGLE_RECORDS}"), (50, 90, 99))
        for records_s in STEADY_RECORDS_S:
            ms = self._ask(f"steady {records_s} {int(records_s * seconds)}")
            found |= _percentiles(f"{records_s:,} records/s", ms, (50, 99))
        ms = self._ask(f"transactions {TRANSACTIONS} {TRANSACTION_RECORDS}")
        steps = {"records": ms[::3], "offsets": ms[1::3], "commit": ms[2::3]}
        steps["all"] = [sum(each) for each in zip(*steps.values(), strict=True)]
        for step, waits in steps.items():
            found |= _percentiles(f"transaction of {TRANSACTION_RECORDS}: {step}", waits, (50,))
        for what, line, wanted in (
            (f"{MEMBERS} members join a group", f"joins {JOINS} {MEMBERS} {SUBSCRIBED}", (50,)),
            ("commit of a consumer", f"commits {COMMITS}", (50, 99)),
            ("offset altered by an admin", f"alterations {ALTERATIONS}", (50, 99)),
        ):
            found |= _percentiles(what, self._ask(line), wanted)
        return found

    def close(self) -> None:
        self._client.kill()
        self._client.communicate()

    def _ask(self, line: str) -> list[float]:
        """The client's answer, in milliseconds."""
        assert self._client.stdin is not None
        assert self._client.stdout is not None
        print(line, file=self._client.stdin, flush=True)
        response = self._client.stdout.readline()
        assert response, f"{self.name}: the client has ended"
        return [int(us) / 1000 for us in response.split()]


def _percentiles(what: str, ms: Sequence[float], wanted: Sequence[int]) -> Round:
    cuts = statistics.quantiles(ms, n=100, method="inclusive")
    return {f"{what}, p{each}": cuts[each - 1] for each in wanted}


def report(sides: Sequence[Side]) -> str:
    """A line for each figure: the median of the rounds on each side, and the ratio."""
    ratio = len(sides) == 2
    title = "".join(f"{side.name:>14}" for side in sides) + (f"{'ratio':>8}" if ratio else "")
    lines = [f"{'ms until acknowledged':36}{title}"]
    for what in sides[0].rounds[0]:
        medians = [statistics.median(each[what] for each in side.rounds) for side in sides]
        figures = "".join(f"{each:14.2f}" for each in medians)
        lines.append(f"{what:36}{figures}" + (f"{medians[0] / medians[1]:8.2f}" if ratio else ""))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0, or 2 if Kafka's jars, which hold the client, are missing."""
    options = _parser().parse_args(arguments)
    try:
        kafka_libs()
    except KafkaUnavailableError as missing:
        print(missing, file=sys.stderr)
        return 2
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="latency-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
        sides = []
        for cluster in _clusters(options, directory, zookeeper.connect):
            stack.callback(cluster.stop)
            cluster.start()
            cluster.create(TOPIC, replicas=3)
            cluster.create(SUBSCRIBED, replicas=3, partitions=SUBSCRIBED_PARTITIONS)
            sides.append(Side(cluster))
            stack.callback(sides[-1].close)
        for number in range(options.warm_up + options.rounds):
            for side in sides[:: 1 if number % 2 else -1]:
                found = side.measure(options.seconds)
                if number >= options.warm_up:
                    side.rounds.append(found)
        print(report(sides))
    return 0


def _clusters(options: argparse.Namespace, directory: Path, zookeeper: str) -> list[RecordsCluster]:
    ours = our_cluster(directory, zookeeper, options.under.split(), **_PROPERTIES)
    if options.beside:
        place = directory / "beside"
        place.mkdir()
        beside = our_cluster(place, f"{zookeeper}/beside", options.beside.split(), **_PROPERTIES)
        beside.name = "beside"
        return [ours, beside]
    if options.only == "ours":
        return [ours]
    return [ours, kafkas_cluster(directory, zookeeper, **_PROPERTIES)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.latency",
        description="How long a client waits for its records, ours and Kafka's in turn",
    )
    parser.add_argument("--rounds", type=int, default=5, help="of each side (default: 5)")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds before that (default: 2)")
    parser.add_argument(
        "--seconds", type=float, default=3.0, help="of each steady load (default: 3)"
    )
    parser.add_argument("--only", choices=("ours",), help="without Kafka's brokers")
    parser.add_argument("--beside", default="", help="a command for brokers of ours beside")
    parser.add_argument("--under", default="", help="a command to run our brokers under")
    return parser


if __name__ == "__main__":
    sys.exit(main())
