"""How long ``zkctl doctor`` takes over a large cluster of znodes, beside a straightforward reading.

100,000 partitions of ten decoy brokers, which are registered and do not listen: what is measured is
ZooKeeper's part.  The baseline reads every partition's state by itself, one after the other, with
kazoo, and checks nothing.

    python -m benchmarks.doctor_reading [--topics 1000] [--partitions 100] [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

from kazoo.client import KazooClient

from benchmarks.cluster_data import broker_znode, write_cluster
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper
from zkcontroller.zookeeper.requests import Create, Written
from zkcontroller.zookeeper.session import ZooKeeperConfig, ZooKeeperSession

BROKERS: Final = tuple(range(1, 11))
SILENT: Final = ("B02", "C01", "S02")
"""What is found or unchecked because the brokers, the controller among them, do not listen."""

T = TypeVar("T")


def main() -> None:
    """Prints each measurement, and the ratio of a look to the baseline."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=100, help="of each topic")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = options.topics * options.partitions
    with tempfile.TemporaryDirectory() as folder, EmbeddedZooKeeper(Path(folder)) as server:
        session = ZooKeeperSession(ZooKeeperConfig(server.connect))
        session.start()
        paths = furnish(session, options.topics, options.partitions)
        session.close()
        looks, commands, baselines = [], [], []
        for _ in range(options.rounds):
            looks.append(timed(lambda: look(server.connect, count)))
            commands.append(timed(lambda: command(server.connect)))
            baselines.append(timed(lambda: straightforward(server.connect, paths)))
    print(f"{count:,} partitions in {options.topics:,} topics; medians of {options.rounds} rounds")
    show("one look: ZooKeeper read, every rule checked", looks)
    show("zkctl doctor as a command, from its start to its end", commands)
    show("baseline: every state read by itself with kazoo", baselines)
    share = statistics.median(looks) / statistics.median(baselines)
    print(f"a look needs {share:.3f} of the baseline's time")


def furnish(session: ZooKeeperSession, topics: int, partitions: int) -> list[str]:
    """A healthy cluster but for its brokers, which do not listen; the paths of all states."""
    write_cluster(session, topics=topics, partitions_per_topic=partitions, broker_ids=BROKERS)
    controller = b'{"version":2,"brokerid":1,"timestamp":"1700000000000","kraftControllerEpoch":-1}'
    for path, data in (
        ("/cluster", b""),
        ("/cluster/id", b'{"version":"1","id":"AAECAwQFBgcICQoLDA0ODw"}'),
        ("/controller", controller),
        ("/controller_epoch", b"1"),
        *((f"/brokers/ids/{broker}", broker_znode("127.0.0.1", broker)) for broker in BROKERS),
    ):
        assert isinstance(session.write(Create(path, data)), Written), path
    return [
        f"/brokers/topics/topic-{topic:05d}/partitions/{partition}/state"
        for topic in range(topics)
        for partition in range(partitions)
    ]


def look(connect: str, count: int) -> None:
    """One look without questions to brokers; it must find all partitions well."""
    options: Any = import_module("zkcontroller_cli.console.options")
    reading_of: Any = import_module("zkcontroller_cli.diagnosis.reading")
    rules: Any = import_module("zkcontroller_cli.diagnosis.rules")
    zookeepers: Any = import_module("zkcontroller_cli.znodes.session")
    with zookeepers.open_zookeeper(options.Settings(zookeeper_flag=connect)) as zookeeper:
        reading = reading_of.read_cluster(zookeeper, 60.0)
        found = rules.findings(reading)
    assert (found, len(reading.partitions)) == ([], count)


def command(connect: str) -> None:
    """The whole command in a process of its own; it must find all well that is in ZooKeeper."""
    ignored = [word for rule in SILENT for word in ("--ignore", rule)]
    done = subprocess.run(
        [sys.executable, "-m", "zkcontroller_cli", "-o", "json", "-z", connect, "doctor", *ignored],
        capture_output=True,
        check=False,
    )
    assert (done.returncode, json.loads(done.stdout)) == (0, []), done.stderr.decode()


def straightforward(connect: str, paths: list[str]) -> None:
    """Every state read by itself."""
    kazoo = KazooClient(connect)
    kazoo.start()
    try:
        states = [kazoo.get(path)[0] for path in paths]
    finally:
        kazoo.stop()
        kazoo.close()
    assert len(states) == len(paths)


def timed(work: Callable[[], T]) -> float:
    """The seconds that ``work`` takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(what: str, seconds: list[float]) -> None:
    """One aligned line."""
    print(f"{what:<60} {statistics.median(seconds):8.2f} s", flush=True)


if __name__ == "__main__":
    main()
