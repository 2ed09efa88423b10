"""``zkctl doctor`` beside brokers of Kafka 2.8.2: what was caused among ours and among 3.9.1's.

Of the causes, those whose finding rests on what the version does; docs/doctor.md names them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.peers.cluster import Cluster
from tests.peers.kafka_versions import required_libs
from tests.support.cli_world import zkctl_here
from tests.support.doctor_causes import CAUSES, Cause, World, check, mend_a_stuck_isr, started_world
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def world(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[World]:
    libs = required_libs("2.8.2")
    directory = tmp_path_factory.mktemp("doctor-older")
    cluster = Cluster(f"{zookeeper.connect}/doctor-older", directory)
    start = partial(cluster.start_kafka, libs=libs)
    with started_world(cluster, start, directory) as world:
        yield world


def test_the_doctor_finds_nothing_in_a_healthy_cluster_of_older_kafka(world: World) -> None:
    done = zkctl_here("-o", "json", "doctor", "-z", world.cluster.zookeeper)

    # Without a rule that is unchecked as well; one question is too new for 2.8.2.
    assert done.json == []
    assert "M02: broker 3 takes no Fetch by topic id" in done.stderr


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: "-".join(cause.expected))
def test_the_doctor_finds_what_was_caused_among_older_brokers(world: World, cause: Cause) -> None:
    check(world, cause)

    assert cause.expected


def test_the_command_of_p10_mends_a_stuck_isr_of_older_brokers(world: World) -> None:
    mend_a_stuck_isr(world)

    assert world.cluster.of("stuck") == {}


def test_the_doctor_finds_nothing_once_the_older_cluster_is_well_again(world: World) -> None:
    world.cluster.elect()
    world.wait_until_in_sync("edited")

    assert set(world.doctor()) <= {"P09"}


def test_the_doctor_says_that_brokers_of_an_older_protocol_know_no_topic_ids(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    cluster = Cluster(f"{zookeeper.connect}/doctor-protocol", tmp_path)
    try:
        older = {"inter.broker.protocol.version": "2.7"}
        cluster.start_kafka(1, older, libs=required_libs("2.8.2"))
        at = ("-b", cluster.bootstrap(1), "-z", cluster.zookeeper)
        created = zkctl_here(*at, "topic", "create", "nameless", "--replica-assignment", "1")
        assert created.exit_code == 0, created.stderr
        cluster.wait_until(
            lambda: cluster.metadata_of(1) == cluster.partitions() != {}, "the broker knows it"
        )

        result = zkctl_here(*at, "-o", "json", "doctor")
    finally:
        cluster.close()

    assert (result.exit_code, result.json) == (0, [])
    assert "M02: broker 1 names no topic ids" in result.stderr
