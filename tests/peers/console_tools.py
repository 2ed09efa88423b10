"""Kafka's console producer and consumer of any version, as its users ran it then."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.peers.clients import run_tool
from tests.peers.kafka_versions import required_libs

PATIENCE_MS: Final = 30_000


class ConsoleTools:
    """Both tools of one version; a test that makes them is skipped where its jars are missing."""

    def __init__(self, version: str) -> None:
        self._libs = required_libs(version)
        self._version = tuple(int(part) for part in version.split("."))

    @property
    def has_brokers_consumer(self) -> bool:
        """Whether its consumer can ask brokers for its group."""
        return self._version >= (0, 9)

    @property
    def has_zookeeper_consumer(self) -> bool:
        """Whether its consumer can register in ZooKeeper; of 1.1.1 it cannot go on in a group."""
        return self._version < (1,)

    @property
    def codecs(self) -> tuple[str, ...]:
        """What the producer can compress with."""
        return ("none", "gzip", "snappy", "lz4", *(("zstd",) if self._version >= (2, 1) else ()))

    def produce(
        self, bootstrap: str, topic: str, values: Sequence[str], *, codec: str = "none"
    ) -> None:
        """Writes these values; each of them is acknowledged."""
        server = "--bootstrap-server" if self._version >= (2, 5) else "--broker-list"
        package = "org.apache.kafka" if self._version >= (4,) else "kafka"
        printed = run_tool(
            *(f"{package}.tools.ConsoleProducer", server, bootstrap, "--topic", topic),
            *(("--compression-codec", codec) if codec != "none" else ()),
            *("--request-required-acks", "-1"),
            stdin="".join(f"{value}\n" for value in values),
            libs=self._libs,
        )
        # A record that is lost is said, and the tool ends well all the same.
        assert "ERROR" not in printed, printed

    def consume(
        self, bootstrap: str, topic: str, settings: Path, count: int, *, anew: bool
    ) -> list[str]:
        """The next values of the group that ``settings`` names, or the first ones of it."""
        consumer = ("--new-consumer",) if self._version < (0, 10, 1) else ()
        server = (*consumer, "--bootstrap-server", bootstrap)
        return self._consume(
            *(*server, "--timeout-ms", str(PATIENCE_MS)), *_reading(topic, settings, count, anew)
        )

    def consume_by_zookeeper(
        self, zookeeper: str, topic: str, settings: Path, count: int, *, anew: bool
    ) -> list[str]:
        """The same of a consumer that shares partitions and keeps offsets in ZooKeeper."""
        return self._consume("--zookeeper", zookeeper, *_reading(topic, settings, count, anew))

    def _consume(self, *arguments: str) -> list[str]:
        of_tools = self._version >= (3, 8)
        tool = "org.apache.kafka.tools.consumer" if of_tools else "kafka.tools"
        return run_tool(f"{tool}.ConsoleConsumer", *arguments, libs=self._libs).splitlines()


def _reading(topic: str, settings: Path, count: int, anew: bool) -> list[str]:
    first = ["--from-beginning"] if anew else []
    group = ["--consumer.config", str(settings)]
    return ["--topic", topic, *group, "--max-messages", str(count), *first]
