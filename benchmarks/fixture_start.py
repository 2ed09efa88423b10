"""Whole runs of pytest whose tests want a cluster each: the kit's fixture beside those of others.

``python -m benchmarks.fixture_start`` runs the same tests on ``kafka_cluster`` of the kit and on
the fixtures of pytest-kafka 0.8.1, which starts Kafka 3.9.1 and its ZooKeeper; with
``--testcontainers IMAGE``, which wants Docker and an image of ``scripts/build-kafka-image.sh``, on
the ``KafkaContainer`` of Testcontainers, too.  A test creates a topic with three replicas and
produces a record that three brokers acknowledge; ``KafkaContainer`` has one broker, and there it
is one replica.  All are used as their guides have it: every test has brokers of its own, and the
kit has one ZooKeeper for the session, the others one for each test.  Measured is the command, from
its start to its end: a file of one test, what each further test costs, and the most memory that
what was started has had at one time, pytest and ZooKeeper included.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from typing_extensions import override

from benchmarks.kafka_peer import KafkaBroker, kafka_libs
from benchmarks.process_memory import memory_mb

PEER: Final = ("pytest-kafka==0.8.1", "port-for==1.0.0", "kafka-python==2.2.15")
FURTHER: Final = 3
"""Tests of the longer file, besides the first."""
TIMEOUT_S: Final = 600.0
_LOOK_AGAIN_S: Final = 0.1
_ZOOKEEPER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_TESTS: Final = """\
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.mark.parametrize("number", range({count}))
def test_a_record_reaches_the_brokers(bootstrap_servers, number):
    client = {{"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 2}}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("first", 1, {replicas})])["first"].result(60)
    producer = Producer(client)
    producer.produce("first", b"record", partition=0)
    assert producer.flush(60) == 0
"""
_KIT: Final = """\
import pytest


@pytest.fixture
def bootstrap_servers(kafka_cluster):
    return kafka_cluster.bootstrap_servers
"""
_PEER: Final = """\
import pytest
from pytest_kafka import make_kafka_server, make_zookeeper_process

zookeeper = make_zookeeper_process("{folder}/zookeeper-server")
one, two, three = (
    make_kafka_server("{folder}/kafka-server", "zookeeper", timeout=120) for _ in range(3)
)


@pytest.fixture
def bootstrap_servers(one, two, three):
    return ",".join("localhost:%d" % port for _, port in (one, two, three))
"""
_CONTAINER: Final = """\
import pytest
from testcontainers.community.kafka import KafkaContainer


@pytest.fixture
def bootstrap_servers():
    with KafkaContainer("{image}") as kafka:
        yield kafka.get_bootstrap_server()
"""


class PeakMemory(threading.Thread):
    """The most memory at one time of all processes that have begun since, containers' included.

    What several share counts once (``Pss``).
    """

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._before = _processes()
        self._is_over = threading.Event()
        self.most_mb = 0.0

    @override
    def run(self) -> None:
        while not self._is_over.wait(_LOOK_AGAIN_S):
            now_mb = 0.0
            for pid in _processes() - self._before:
                with suppress(OSError):  # it has ended
                    now_mb += memory_mb(pid, "Pss")
            self.most_mb = max(self.most_mb, now_mb)

    def end(self) -> float:
        """In MB."""
        self._is_over.set()
        self.join()
        return self.most_mb


def _processes() -> set[int]:
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


class Run(NamedTuple):
    """One run of pytest."""

    seconds: float
    memory_mb: float


@dataclass(frozen=True)
class Side:
    """A folder with a ``conftest.py`` whose fixture brings brokers."""

    name: str
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ("-p", "no:kafka_cluster")
    replicas: int = 3

    def write(self, conftest: str) -> None:
        """Makes the folder."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "conftest.py").write_text(conftest)

    def run(self, count: int) -> Run:
        """Runs ``count`` tests; CalledProcessError if one fails."""
        tests = _TESTS.format(count=count, replicas=self.replicas)
        (self.folder / "test_first.py").write_text(tests)
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *self.options]
        memory = PeakMemory()
        memory.start()
        began_s = time.monotonic()
        subprocess.run(
            command, cwd=self.folder, env=os.environ | self.environment, check=True,
            timeout=TIMEOUT_S, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        return Run(time.monotonic() - began_s, memory.end())


def pytest_kafka(directory: Path) -> Side:
    """pytest-kafka, and start scripts for it with the JVM options of Kafka's own."""
    folder, site = directory / "pytest-kafka", directory / "site"
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    subprocess.run([*install, *PEER], check=True)
    side = Side("pytest-kafka", folder, {"PYTHONPATH": str(site)})
    folder.mkdir()
    libs = kafka_libs()
    broker = KafkaBroker(0, "", folder, libs=libs).start_command()
    server = ["java", "-Xmx512M", "-Xms512M", "-cp", f"{libs}/*", _ZOOKEEPER]
    for name, command in (("kafka-server", broker), ("zookeeper-server", server)):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$1"\n')
        script.chmod(0o755)
    side.write(_PEER.format(folder=folder))
    return side


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0 when everything was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fixture_start",
        description="Tests with a cluster each, by the kit, by pytest-kafka and by Testcontainers",
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--testcontainers", metavar="IMAGE", help="for KafkaContainer")
    options = parser.parse_args(arguments)
    found: dict[tuple[str, int], list[Run]] = {}
    with tempfile.TemporaryDirectory(prefix="fixture-start-") as name:
        kit = Side("kit", Path(name) / "kit", options=())
        kit.write(_KIT)
        sides = [kit, pytest_kafka(Path(name))]
        if options.testcontainers:
            # Its janitor is an image of its own, which a registry would have to bring.
            environment = {"TESTCONTAINERS_RYUK_DISABLED": "true"}
            container = Side("testcontainers", Path(name) / "container", environment, replicas=1)
            container.write(_CONTAINER.format(image=options.testcontainers))
            sides.append(container)
        for _ in range(options.rounds):
            for count in (1, 1 + FURTHER):
                for side in sides:
                    found.setdefault((side.name, count), []).append(side.run(count))
    print(f"{f'median of {options.rounds}':24}", *(f"{side.name:>24}" for side in sides))
    first, whole = (
        {side.name: statistics.median(run.seconds for run in found[side.name, count])
         for side in sides}
        for count in (1, 1 + FURTHER)
    )  # fmt: skip
    rows = {
        "a file of one test, s": first,
        "each further test, s": {name: (whole[name] - first[name]) / FURTHER for name in first},
        "its memory, MB": {
            name: statistics.median(run.memory_mb for run in found[name, 1]) for name in first
        },
    }
    for text, row in rows.items():
        cells = (f"{row[each.name]:14.2f} ({row['kit'] / row[each.name]:6.3f})" for each in sides)
        print(f"{text:24}", *(f"{cell:>24}" for cell in cells))
    return 0


if __name__ == "__main__":
    sys.exit(main())
