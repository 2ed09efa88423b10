"""What a broker costs as it grows: one of ours and one of Kafka 3.9.1, by the same client.

``python -m benchmarks.growth`` starts a broker of each kind in turn for every curve, and lets it
grow from size to size: connections that are idle; partitions, of which one in a hundred is written
to; groups with a committed offset; the bytes of a log.  At each size it is asked the same, and its
memory is read.  A line is one figure, ours / Kafka's, at every size.

``--curves``, ``--largest`` and ``--only ours`` measure less.
"""

from __future__ import annotations

import argparse
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeAlias

from kio.schema.errors import ErrorCode
from kio.static.protocol import RequestPayload

from benchmarks import plain_client as requests
from benchmarks.broker_process import BrokerProcess, OurBroker
from benchmarks.kafka_peer import KafkaBroker, KafkaUnavailableError, kafka_libs
from benchmarks.plain_client import PlainClient, until_ready
from kafka_common.net.loopback_ports import free_port
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import ZkCode
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

TOPIC: Final = "growth"
WARMING: Final = "warming"
WARM_UP: Final = 3_000
"""Requests before the first measurement: a JVM compiles meanwhile."""
ASKED: Final = 300
"""How often a short request is measured at each size."""
ASKED_FOR_ALL: Final = 5
"""How often a long one is, whose answer grows, too."""
SETTLE_S: Final = 5.0
"""For what comes after a change: files are written back, a map of the cluster is made anew."""
IDLE_S: Final = 5.0
ACTIVE_ONE_IN: Final = 100
TOPIC_PARTITIONS: Final = 10
TOPICS_AT_ONCE: Final = 100
RECORD: Final = bytes(100)
LARGE_RECORD: Final = bytes(1_000_000)
BROKER: Final = 1
DESCRIPTORS: Final = 100_000
SPARE_DESCRIPTORS: Final = 1_000
"""A broker holds a file for each partition, and a socket for each connection, besides these."""
_PROPERTIES: Final = {
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "zookeeper.session.timeout.ms": "6000",
}

_LOOK_AGAIN_S: Final = 0.05
TITLE: Final = 42
COLUMN: Final = 18

Kind: TypeAlias = Callable[[int, str, Path, dict[str, str]], BrokerProcess]
"""What makes a broker of its id, its ZooKeeper, its directory and its properties."""
Figures: TypeAlias = dict[str, float]
"""What was measured at one size, by its name with the unit."""


class Growing:
    """A broker with two small topics, and a client of it."""

    def __init__(self, kind: Kind, zookeeper: str, directory: Path) -> None:
        self.address = f"127.0.0.1:{free_port()}"
        properties = {"listeners": f"PLAINTEXT://{self.address}", **_PROPERTIES}
        self.broker = kind(BROKER, zookeeper, directory, properties)
        self._session = ZooKeeperSession(ZooKeeperConfig(zookeeper))
        self.broker.start()
        self._session.start()
        self.client = PlainClient(self.address)
        until_ready(
            lambda: self.ask(requests.create([TOPIC, WARMING], 1)), ErrorCode.topic_already_exists
        )
        until_ready(lambda: self.ask(requests.produce(WARMING, 0, RECORD)))
        until_ready(lambda: self.ask(requests.end_offset(TOPIC)))
        for request in (requests.api_versions(), requests.produce(WARMING, 0, RECORD)):
            self.waits([request] * WARM_UP)

    def ask(self, request: RequestPayload) -> Any:
        """The answer; RefusedError if it is an error."""
        return self.client.ask(request)[0]

    def restart(self, end: Callable[[], object], first: RequestPayload) -> float:
        """Ends the broker, and starts it again: seconds until it has answered a request.

        ZooKeeper has forgotten it by then: a broker that was killed would be refused before.
        """
        self.client.close()
        end()
        while not isinstance(self._session.read(f"/brokers/ids/{BROKER}"), ZkCode):
            time.sleep(_LOOK_AGAIN_S)
        began = time.monotonic()
        self.broker.start(requests.TIMEOUT_S)
        self.client = PlainClient(self.address)
        until_ready(lambda: self.ask(first))
        return time.monotonic() - began

    def waits(self, each: Iterable[RequestPayload]) -> list[float]:
        """How long each of some requests takes, in milliseconds."""
        return [self.client.ask(request)[1] for request in each]

    def idle(self) -> Figures:
        """Its memory, and what it computes while no one asks anything."""
        time.sleep(SETTLE_S)
        before_ms = self.broker.cpu_ms()
        time.sleep(IDLE_S)
        share = (self.broker.cpu_ms() - before_ms) / IDLE_S / 10
        return {"memory, MB": self.broker.rss_mb(), "idle, % of a core": share}

    def close(self) -> None:
        self.client.close()
        self.broker.kill()
        self._session.close()


Curve: TypeAlias = Callable[[Growing, Sequence[int]], Iterator[Figures]]
"""Grows a broker from size to size, and measures at each."""


def connections(growing: Growing, sizes: Sequence[int]) -> Iterator[Figures]:
    """Clients that have asked once and are silent since; they belong to the client, not to us."""
    open_now: list[PlainClient] = []
    try:
        for size in sizes:
            while len(open_now) < size:
                open_now.append(PlainClient(growing.address))
                open_now[-1].ask(requests.api_versions())
            waits = growing.waits([requests.api_versions()] * ASKED)
            yield growing.idle() | percentiles("ApiVersions", waits)
    finally:
        for each in open_now:
            each.close()


def partitions(growing: Growing, sizes: Sequence[int]) -> Iterator[Figures]:
    """Partitions of one replica, ten in a topic."""
    there = 0
    for size in sizes:
        began = time.monotonic()
        names = [topic_name(number) for number in range(there, size // TOPIC_PARTITIONS)]
        for at in range(0, len(names), TOPICS_AT_ONCE):
            growing.ask(requests.create(names[at : at + TOPICS_AT_ONCE], TOPIC_PARTITIONS))
        for name in names:
            first = requests.produce(name, TOPIC_PARTITIONS - 1, RECORD)
            until_ready(partial(growing.ask, first))
        created_s = time.monotonic() - began
        there += len(names)
        active = [divmod(number, TOPIC_PARTITIONS) for number in range(0, size, ACTIVE_ONE_IN)]
        chosen = islice(cycle(active), max(ASKED, len(active)))
        to_one = [requests.produce(topic_name(0), 0, RECORD)] * ASKED
        to_active = (requests.produce(topic_name(topic), at, RECORD) for topic, at in chosen)
        yield (
            {"created, ms each": created_s * 1000 / (len(names) * TOPIC_PARTITIONS)}
            | growing.idle()
            | percentiles("record", growing.waits(to_one))
            | percentiles("record to 1 %", growing.waits(to_active))
            | median("Metadata of all", growing.waits([requests.metadata()] * ASKED_FOR_ALL))
        )


def groups(growing: Growing, sizes: Sequence[int]) -> Iterator[Figures]:
    """Groups without members, each with one committed offset."""
    until_ready(lambda: growing.ask(requests.find_coordinator("group-0")))
    until_ready(lambda: growing.ask(requests.commit("group-0", TOPIC, 0)))
    there = 1
    for size in sizes:
        for number in range(there, size):
            growing.ask(requests.commit(f"group-{number}", TOPIC, 1))
        there = size
        commits = [requests.commit(f"group-{at % size}", TOPIC, at) for at in range(ASKED)]
        lists = [requests.list_groups()] * ASKED_FOR_ALL
        last = requests.committed(f"group-{size - 1}")
        yield (
            growing.idle()
            | percentiles("commit", growing.waits(commits))
            | median("ListGroups", growing.waits(lists))
            | {"killed until offsets are there, s": growing.restart(growing.broker.kill, last)}
        )


def log(growing: Growing, sizes: Sequence[int]) -> Iterator[Figures]:
    """Megabytes of records in one partition, in segments of Kafka's default size."""
    end = requests.end_offset(TOPIC)
    there = 0
    for size in sizes:
        records = (requests.produce(TOPIC, 0, LARGE_RECORD) for _ in range(there, size))
        figures = median("record of 1 MB", growing.waits(records))
        there = size
        for how, way in (("stopped", growing.broker.stop), ("killed", growing.broker.kill)):
            figures[f"{how} until served, s"] = growing.restart(way, end)
            (partition,) = growing.ask(end).topics[0].partitions
            assert partition.offset == there, f"{partition.offset} of {there} records are left"
        yield figures


class Measured(NamedTuple):
    """A curve and the sizes at which it is measured."""

    curve: Curve
    sizes: tuple[int, ...]


CURVES: Final = {
    "connections": Measured(connections, (10, 100, 1_000, 5_000)),
    "partitions": Measured(partitions, (10, 100, 1_000, 5_000, 10_000, 20_000)),
    "groups": Measured(groups, (1, 100, 1_000, 10_000)),
    "log": Measured(log, (1, 100, 1_000, 4_000)),
}
"""By their names; the sizes of a log are megabytes."""
HOLD_DESCRIPTORS: Final = (connections, partitions)


def topic_name(number: int) -> str:
    """The name of a topic of the partitions' curve."""
    return f"{TOPIC}-{number:04}"


def percentiles(what: str, ms: Sequence[float]) -> Figures:
    """The median and the 99th."""
    cuts = statistics.quantiles(ms, n=100, method="inclusive")
    return {f"{what} p50, ms": cuts[49], f"{what} p99, ms": cuts[98]}


def median(what: str, ms: Sequence[float]) -> Figures:
    """The median alone."""
    return {f"{what}, ms": statistics.median(ms)}


def table(name: str, sizes: Sequence[int], sides: Sequence[tuple[str, list[Figures]]]) -> str:
    """A line for each figure, with a column for each size."""
    heads = "".join(f"{size:>{COLUMN},}" for size in sizes)
    lines = [f"{name + ', ' + ' / '.join(side for side, _ in sides):{TITLE}}{heads}"]
    for what in sides[0][1][0]:
        cells = (" / ".join(f"{its[at][what]:.2f}" for _, its in sides) for at in range(len(sizes)))
        lines.append(f"{what:{TITLE}}" + "".join(f"{cell:>{COLUMN}}" for cell in cells))
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table for each curve; 0, or 2 if Kafka's jars are missing."""
    options = _parser().parse_args(arguments)
    kinds: list[Kind] = [OurBroker]
    if options.only is None:
        try:
            kafka_libs()
        except KafkaUnavailableError as missing:
            print(missing, file=sys.stderr)
            return 2
        kinds.append(KafkaBroker)
    most = _allowed_descriptors() - SPARE_DESCRIPTORS
    with ExitStack() as stack:
        directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="growth-")))
        zookeeper = stack.enter_context(EmbeddedZooKeeper(directory / "zookeeper"))
        for name in options.curves:
            curve, sizes = CURVES[name]
            sizes = tuple(size for size in sizes if size <= options.largest)
            if curve in HOLD_DESCRIPTORS and max(sizes) > most:
                print(f"{name}: no more than {most:,}, for want of descriptors", file=sys.stderr)
                sizes = tuple(size for size in sizes if size <= most)
            sides = []
            for number, kind in enumerate(kinds):
                place = directory / f"{name}-{number}"
                place.mkdir()
                growing = Growing(kind, f"{zookeeper.connect}/{place.name}", place)
                try:
                    sides.append((growing.broker.name, list(curve(growing, sizes))))
                finally:
                    growing.close()
                shutil.rmtree(place)
            print(table(name, sizes, sides), end="\n\n", flush=True)
    return 0


def _allowed_descriptors() -> int:
    """As many as this process and those that it starts may open, which is raised where it may."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = max(most, DESCRIPTORS)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, wanted))
    except (ValueError, OSError):  # not everyone may have more
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        return most
    return wanted


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.growth",
        description="What a broker costs as it grows, ours and Kafka's in turn",
    )
    parser.add_argument("--curves", nargs="+", choices=CURVES, default=list(CURVES))
    parser.add_argument(
        "--largest", type=int, default=10**9, help="leaves out the sizes above this one"
    )
    parser.add_argument("--only", choices=("ours",), help="without Kafka's broker")
    return parser


if __name__ == "__main__":
    sys.exit(main())
