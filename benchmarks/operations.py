"""The controller's big operations, one after the other, beside a real Kafka 3.9.1.

One ZooKeeper, two chroots with the same cluster: topics of 100 partitions x 3 on ten brokers that
only listen.  A round does to each side in turn:

* failover: ``/controller`` is deleted, until the last request to a broker;
* new topic: the znode of a topic of 10,000 partitions is written, until the last request;
* move: 10,000 partitions of a hundred topics are given another third replica by
  AlterPartitionReassignments, until the last request of the adding phase (listening brokers never
  join an ISR), and then called off again;
* deletion of the new topic, until its znode is gone;
* controlled shutdown of a broker that leads a tenth, until the answer;
* death of another broker, until the last request to the others; its return, until the last request.

After each operation both sides must hold the same znodes, byte for byte, and must have sent every
broker of as many partitions in each API.  ``stalls`` is how long another client of the same broker
waited for an ApiVersions answer meanwhile (:mod:`benchmarks.stall_probe`).

Run ``python -m benchmarks.operations`` in the repository; ``--only ours`` needs no Kafka.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

if not __package__:  # started as a file: the packages are beside this folder
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, KafkaUnavailableError, kafka_libs
from benchmarks.operations_side import (
    BIG_TOPIC_PARTITIONS,
    PARTITIONS_PER_TOPIC,
    OperationFailedError,
    OperationsSide,
    Outcome,
)
from benchmarks.stall_probe import quantile
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

CANDIDATE_ID: Final = 1
BROKER_IDS: Final = range(101, 111)
SHUT_DOWN_ID: Final = 102
DYING_ID: Final = 105
MOVED_PARTITIONS: Final = 10_000
# Leaders never come back by themselves while an operation is measured.
OVERRIDES: Final = {"auto.leader.rebalance.enable": "false"}

Operation = Callable[[OperationsSide], Outcome]


def operations(number: int) -> dict[str, Operation]:
    """A round's operations by name, in their order."""
    topic = f"big-{number}"

    def move(side: OperationsSide) -> Outcome:
        return side.move_replicas(
            {
                name: [[*each[:2], _other(each)] for each in side.layout[name]]
                for name in _moved(side)
            }
        )

    def call_off(side: OperationsSide) -> Outcome:
        return side.move_replicas({name: [None] * PARTITIONS_PER_TOPIC for name in _moved(side)})

    return {
        "failover": OperationsSide.fail_over,
        "new topic": lambda side: side.create_topic(topic, BIG_TOPIC_PARTITIONS),
        "move": move,
        "move called off": call_off,
        "deletion": lambda side: side.delete_topic(topic),
        "controlled shutdown": lambda side: side.shut_down_broker(SHUT_DOWN_ID),
        "its death": lambda side: side.lose_broker(SHUT_DOWN_ID),
        "its return": lambda side: side.return_broker(SHUT_DOWN_ID),
        "a broker's death": lambda side: side.lose_broker(DYING_ID),
        "a broker's return": lambda side: side.return_broker(DYING_ID),
    }


def _moved(side: OperationsSide) -> list[str]:
    return list(side.layout)[: MOVED_PARTITIONS // PARTITIONS_PER_TOPIC]


def _other(replicas: list[int]) -> int:
    """A broker that holds no replica yet."""
    return next(broker for broker in reversed(BROKER_IDS) if broker not in replicas)


def _measure(options: argparse.Namespace, directory: Path) -> list[OperationsSide]:
    with ExitStack() as stack:
        flags = ("-Xms1g", f"-Xmx{options.zookeeper_heap}", "-XX:TieredStopAtLevel=4")
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper", jvm_flags=flags))
        candidates: list[BrokerProcess] = []
        if options.only != "kafka":
            connect = f"{zookeeper.connect}/ours"
            candidates.append(
                OurBroker(
                    CANDIDATE_ID,
                    connect,
                    directory / "ours",
                    OVERRIDES,
                    under=options.under.split(),
                )
            )
        if options.only != "ours":
            connect = f"{zookeeper.connect}/kafka"
            candidates.append(
                KafkaBroker(
                    CANDIDATE_ID, connect, directory / "kafka", OVERRIDES, heap=options.kafka_heap
                )
            )
        sides = []
        for candidate in candidates:
            chroot = "ours" if isinstance(candidate, OurBroker) else "kafka"
            connect = f"{zookeeper.connect}/{chroot}"
            sides.append(OperationsSide(candidate, connect, options.partitions, BROKER_IDS, stack))
        for side in sides:
            side.start()
            _talk(f"{side.name} leads {options.partitions} partitions")
        for _ in range(options.warm_up):
            for side in sides:
                side.fail_over()
        for number in range(options.rounds):
            _round(sides, number, only=options.operations)
        return sides


def _round(sides: list[OperationsSide], number: int, *, only: list[str] | None) -> None:
    for side in sides:
        if number:
            side.restore()
    for name, operation in operations(number).items():
        if only and name not in only:
            continue
        outcomes = []
        for side in sides:
            outcome = operation(side)
            outcomes.append(outcome)
            side.outcomes.setdefault(name, []).append(outcome)
            _talk(
                f"{side.name}: {name} {outcome.seconds:.2f} s, {outcome.requests} requests, "
                f"stall up to {max(outcome.waits_ms, default=0):.0f} ms"
            )
        if len(sides) == 2:
            _must_agree(name, sides, outcomes)


def _must_agree(name: str, sides: list[OperationsSide], outcomes: list[Outcome]) -> None:
    ours, theirs = (side.znodes() for side in sides)
    if ours != theirs:
        different = [path for path in ours if ours[path] != theirs.get(path)]
        different += [path for path in theirs if path not in ours]
        path = different[0]
        raise OperationFailedError(
            f"after {name} {len(different)} znodes differ, such as {path}: "
            f"{ours.get(path)!r} and {theirs.get(path)!r}"
        )
    told, they_told = outcomes[0].told, outcomes[1].told
    if told != they_told:
        keys = sorted(key for key in {*told, *they_told} if told.get(key) != they_told.get(key))
        raise OperationFailedError(
            f"{name}: partitions told differ: "
            + ", ".join(f"{key}: {told.get(key)} and {they_told.get(key)}" for key in keys[:5])
        )


def _summary(sides: list[OperationsSide]) -> dict[str, dict[str, dict[str, float]]]:
    """Medians by operation and side."""
    summary: dict[str, dict[str, dict[str, float]]] = {}
    for side in sides:
        for name, rounds in side.outcomes.items():
            waits = [wait for one in rounds for wait in one.waits_ms]
            summary.setdefault(name, {})[side.name] = {
                "seconds": statistics.median(one.seconds for one in rounds),
                "cpu_s": statistics.median(one.cpu_s for one in rounds),
                "peak_rss_mib": max(one.peak_rss_bytes for one in rounds) / 1024**2,
                "stall_p50_ms": quantile(waits, 0.5),
                "stall_p99_ms": quantile(waits, 0.99),
                "stall_max_ms": max(waits, default=0.0),
            }
    for name, by_side in summary.items():
        if len(by_side) == 2:
            pairs = zip(*(side.outcomes[name] for side in sides), strict=True)
            ratios = [ours.seconds / theirs.seconds for ours, theirs in pairs]
            by_side["ratio"] = {"seconds": statistics.median(ratios)}
    return summary


def print_table(summary: Mapping[str, Any], names: Sequence[str], partitions: int) -> None:
    """Medians by operation and side, one line an operation; ``benchmarks.plot`` reads it."""
    print(f"\n{partitions} partitions x 3, {len(BROKER_IDS)} brokers; medians")
    print(f"{'':22}" + "".join(f"{name:>48}" for name in names) + "   ratio" * (len(names) == 2))
    heads = f"{'s':>8}{'cpu s':>8}{'MiB':>7}{'stall p50/p99/max ms':>25}"
    print(f"{'operation':22}" + heads * len(names))
    for operation, by_side in summary.items():
        cells = ""
        for name in names:
            one = by_side[name]
            stalls = "/".join(
                f"{one[key]:.0f}" for key in ("stall_p50_ms", "stall_p99_ms", "stall_max_ms")
            )
            cells += (
                f"{one['seconds']:8.2f}{one['cpu_s']:8.2f}{one['peak_rss_mib']:7.0f}{stalls:>25}"
            )
        ratio = f"{by_side['ratio']['seconds']:8.3f}" if "ratio" in by_side else ""
        print(f"{operation:22}{cells}{ratio}")


def _talk(sentence: str) -> None:
    print(sentence, file=sys.stderr, flush=True)


def main() -> int:
    """Measures and prints; 0 if every operation did what it should, 1 if not, 2 without Kafka."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.operations",
        description="A controller's big operations, ours beside a real Kafka's",
    )
    parser.add_argument("--partitions", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1, help="rounds of each side")
    parser.add_argument("--warm-up", type=int, default=2, help="failovers before the rounds")
    parser.add_argument("--only", choices=("ours", "kafka"))
    parser.add_argument("--operations", nargs="*", help="only these of a round")
    parser.add_argument("--zookeeper-heap", default="3g")
    parser.add_argument("--kafka-heap", default="1G", help="more from 400,000 partitions on")
    parser.add_argument(
        "--under", default="", help="run our broker under this command (a profiler)"
    )
    parser.add_argument("--dir", type=Path, help="keep data and logs there (default: a temporary)")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    options = parser.parse_args()
    try:
        if options.only != "ours":
            kafka_libs()
        with tempfile.TemporaryDirectory(prefix="operations-") as temporary:
            sides = _measure(options, options.dir or Path(temporary))
    except KafkaUnavailableError as missing:
        _talk(f"{missing} (or measure --only ours)")
        return 2
    except OperationFailedError as failed:
        _talk(f"failed: {failed}")
        return 1
    summary = _summary(sides)
    if options.json:
        print(json.dumps({"partitions": options.partitions, "operations": summary}, indent=2))
    else:
        print_table(summary, [side.name for side in sides], options.partitions)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
