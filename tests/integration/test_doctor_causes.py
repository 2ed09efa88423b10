"""``zkctl doctor`` beside our brokers: silent while all is well, and each trouble is found."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.peers.cluster import Cluster
from tests.support.doctor_causes import (
    CAUSES,
    Cause,
    World,
    check,
    find_a_refused_topic,
    mend_a_stuck_isr,
    started_world,
)
from zkcontroller.zookeeper.embedded import EmbeddedZooKeeper

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    directory = tmp_path_factory.mktemp("doctor")
    with EmbeddedZooKeeper(directory / "zookeeper") as server:
        cluster = Cluster(f"{server.connect}/doctor", directory)
        with started_world(cluster, cluster.start_forked, directory) as world:
            yield world


def test_the_doctor_finds_nothing_in_a_healthy_cluster(world: World) -> None:
    assert world.doctor() == {}


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: "-".join(cause.expected))
def test_the_doctor_finds_what_was_caused(world: World, cause: Cause) -> None:
    check(world, cause)

    assert cause.expected


def test_a_topic_whose_new_id_our_brokers_refuse_is_found(world: World) -> None:
    refused = find_a_refused_topic(world)

    assert refused.startswith("INCONSISTENT_TOPIC_ID for edited, topic id 00010203-")


def test_the_command_of_p10_mends_a_stuck_isr_of_our_brokers(world: World) -> None:
    mend_a_stuck_isr(world)

    assert world.cluster.of("stuck") == {}


def test_the_doctor_finds_nothing_once_all_is_well_again(world: World) -> None:
    world.cluster.elect()
    world.wait_until_in_sync("edited")

    assert set(world.doctor()) <= {"P09"}
