"""Whole runs of pytest whose tests want a cluster each: the kit's fixture beside pytest-kafka's.

``python -m benchmarks.fixture_start`` runs the same tests twice a round: on ``kafka_cluster`` of
the kit, and on the fixtures of pytest-kafka 0.8.1, which starts Kafka 3.9.1 and its ZooKeeper.  A
test creates a topic with three replicas and produces a record that three brokers acknowledge.
Both are used as their guides have it: every test has three brokers of its own, and the kit has one
ZooKeeper for the session, pytest-kafka one for each test.  Measured is the command, from its start
to its end: a file of one test, and what each further test costs.
"""

from __future__ import annotations

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.kafka_peer import KafkaBroker, kafka_libs

PEER: Final = ("pytest-kafka==0.8.1", "port-for==1.0.0", "kafka-python==2.2.15")
FURTHER: Final = 3
"""Tests of the longer file, besides the first."""
TIMEOUT_S: Final = 600.0
_ZOOKEEPER: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

_TESTS: Final = """\
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic


@pytest.mark.parametrize("number", range({count}))
def test_a_record_reaches_three_brokers(bootstrap_servers, number):
    client = {{"bootstrap.servers": bootstrap_servers, "acks": "all", "log_level": 2}}
    admin = AdminClient(client)
    admin.create_topics([NewTopic("first", 1, 3)])["first"].result(60)
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


def seconds(folder: Path, count: int, environment: Mapping[str, str], *options: str) -> float:
    """Runs ``count`` tests in the folder; CalledProcessError if one fails."""
    (folder / "test_first.py").write_text(_TESTS.format(count=count))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    began_s = time.monotonic()
    subprocess.run(
        command, cwd=folder, env=dict(environment), check=True, timeout=TIMEOUT_S,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    return time.monotonic() - began_s


def write_peer(folder: Path, site: Path) -> None:
    """pytest-kafka in ``site``, and start scripts for it with the JVM options of Kafka's own."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(site)]
    subprocess.run([*install, *PEER], check=True)
    libs = kafka_libs()
    broker = KafkaBroker(0, "", folder, libs=libs).start_command()
    server = ["java", "-Xmx512M", "-Xms512M", "-cp", f"{libs}/*", _ZOOKEEPER]
    for name, command in (("kafka-server", broker), ("zookeeper-server", server)):
        script = folder / name
        script.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$1"\n')
        script.chmod(0o755)
    (folder / "conftest.py").write_text(_PEER.format(folder=folder))


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints a table; 0 when everything was measured."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.fixture_start",
        description="Tests with a cluster each, by the kit and by pytest-kafka",
    )
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    found: dict[tuple[str, int], list[float]] = {}
    with tempfile.TemporaryDirectory(prefix="fixture-start-") as name:
        kit, peer, site = (Path(name) / each for each in ("kit", "peer", "site"))
        kit.mkdir()
        peer.mkdir()
        (kit / "conftest.py").write_text(_KIT)
        write_peer(peer, site)
        environment = os.environ | {"PYTHONPATH": str(site)}
        for _ in range(options.rounds):
            for count in (1, 1 + FURTHER):
                found.setdefault(("kit", count), []).append(seconds(kit, count, os.environ))
                took_s = seconds(peer, count, environment, "-p", "no:kafka_cluster")
                found.setdefault(("peer", count), []).append(took_s)
    print(f"{f'median of {options.rounds}':28}{'kit s':>9}{'pytest-kafka s':>16}{'ratio':>8}")
    first = [statistics.median(found[side, 1]) for side in ("kit", "peer")]
    whole = [statistics.median(found[side, 1 + FURTHER]) for side in ("kit", "peer")]
    further = [(long - short) / FURTHER for long, short in zip(whole, first, strict=True)]
    for text, (ours, theirs) in (("a file of one test", first), ("each further test", further)):
        print(f"{text:28}{ours:9.2f}{theirs:16.2f}{ours / theirs:8.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
