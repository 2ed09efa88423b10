"""Brokers of Kafka, for the verbs of ``zkctl``."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import orjson

from benchmarks.kafka_peer import KafkaBroker
from tests.peers.clients import run_tool
from tests.peers.cluster import PROPERTIES, Cluster
from tests.peers.kafka_versions import required_libs

GROUP_TOOL: Final = str(Path(__file__).with_name("GroupTool.java"))


BROKER: Final = 1


SETTINGS: Final = PROPERTIES | {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class RealCluster(Cluster):
    """One broker of Kafka's."""

    def start_version(self, version: str, settings: Mapping[str, str]) -> None:
        self.start(
            KafkaBroker(
                BROKER,
                self.zookeeper,
                self._directory / f"kafka-{version}",
                SETTINGS | dict(settings),
                heap="512M",
                libs=required_libs(version),
                is_brief=True,
            )
        )

    @property
    def bootstrap_servers(self) -> str:
        return self.bootstrap(BROKER)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zkcontroller_cli", "-b", self.bootstrap_servers]
        return subprocess.run(
            [*command, "-o", "json", "--timeout", "60", *arguments],
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )

    def zkctl(self, *arguments: str) -> Any:
        """What ``zkctl`` says, as JSON."""
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return orjson.loads(done.stdout)

    def kafka(self, *lines: str) -> list[list[list[str]]]:
        """What Kafka's tool prints for each line of options: the words of each row."""
        printed = run_tool(
            *(GROUP_TOOL, self.bootstrap_servers),
            stdin="".join(f"tool {line}\n" for line in lines),
        )
        parts = [part.partition("\n")[2] for part in printed.split("### ")[1:]]
        return [[row.split() for row in rows.splitlines() if row.strip()] for rows in parts]


@contextmanager
def started_real_cluster(
    version: str, zookeeper: str, directory: Path, settings: Mapping[str, str]
) -> Iterator[RealCluster]:
    """A cluster of that version, which ends with the block."""
    cluster = RealCluster(zookeeper, directory)
    try:
        cluster.start_version(version, settings)
        yield cluster
    finally:
        cluster.close()
