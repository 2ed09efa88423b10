"""Kafka's Java clients of every age on our brokers: what they write and read, and their groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.peers.cluster import Cluster
from tests.peers.console_tools import PATIENCE_MS, ConsoleTools
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]

VERSIONS: Final = ("0.8.2.2", "0.9.0.1", "0.10.2.2", "1.1.1", "2.4.1", "2.8.2", "3.5.2", "4.1.0")
BROKERS: Final = (1, 2, 3)


@pytest.fixture(scope="module")
def cluster(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """Three of our brokers."""
    made = Cluster(f"{zookeeper.connect}/older-clients", tmp_path_factory.mktemp("older-clients"))
    try:
        for broker_id in BROKERS:
            made.start_forked(broker_id, {"group.initial.rebalance.delay.ms": "0"})
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_records_are_written_and_read_and_a_group_goes_on(
    cluster: Cluster, version: str, tmp_path: Path
) -> None:
    tools = ConsoleTools(version)
    topic = f"clients-{version}"
    bootstrap = cluster.bootstrap(1)
    cluster.topic_command(
        1, "--create", "--topic", topic, "--partitions", "2", "--replication-factor", "3"
    )
    written = []
    for codec in tools.codecs:
        values = [f"{codec} {number}" for number in range(10)]
        tools.produce(bootstrap, topic, values, codec=codec)
        written += values
    settings = tmp_path / "consumer.properties"
    by_zookeeper = tmp_path / "zookeeper-consumer.properties"
    settings.write_text(f"group.id=of-{version}\n")
    by_zookeeper.write_text(
        f"group.id=by-zookeeper-{version}\nconsumer.timeout.ms={PATIENCE_MS}\n"
        "auto.offset.reset=smallest\n"
    )

    def read(count: int, *, anew: bool) -> list[list[str]]:
        found = []
        if tools.has_brokers_consumer:
            found.append(tools.consume(bootstrap, topic, settings, count, anew=anew))
        if tools.has_zookeeper_consumer:
            found.append(
                tools.consume_by_zookeeper(cluster.zookeeper, topic, by_zookeeper, count, anew=anew)
            )
        assert found
        return [sorted(values) for values in found]

    first = read(len(written), anew=True)
    more = [f"more {number}" for number in range(10)]
    tools.produce(bootstrap, topic, more)
    then = read(len(more), anew=False)

    assert all(values == sorted(written) for values in first), first
    assert all(values == more for values in then), then
