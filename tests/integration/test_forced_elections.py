"""Six times /controller is deleted under real brokers that are killed and frozen."""

from __future__ import annotations

import random
from typing import Final

import pytest

from zkcontroller_cli.local.local_cluster import SESSION_TIMEOUT_MS
from zkcontroller_testing import KafkaCluster
from zkcontroller_testing.plugin import StartCluster

pytestmark = pytest.mark.integration

DELETIONS: Final = 6
"""Each kind of misfortune twice; the simulator lives a hundred of them for many seeds."""
PARTITIONS: Final = 6
IN_TIME_S: Final = SESSION_TIMEOUT_MS / 1000 + 2


@pytest.fixture
def cluster(kafka_cluster_factory: StartCluster, zookeeper_connect: str) -> KafkaCluster:
    return kafka_cluster_factory(3, zookeeper=zookeeper_connect)


def epochs(cluster: KafkaCluster) -> tuple[int, list[int]]:
    """The highest controller epoch that any state was written under, and all leader epochs."""
    found = [cluster.partition_state("orders", partition) for partition in range(PARTITIONS)]
    states = [state for state in found if state is not None]
    assert len(states) == PARTITIONS
    return max(state.controller_epoch for state in states), [each.leader_epoch for each in states]


def test_six_deletions_of_the_controller_always_end_with_one_in_time(
    cluster: KafkaCluster,
) -> None:
    chance = random.Random(20)
    placed = [[1 + each % 3, 1 + (each + 1) % 3] for each in range(PARTITIONS)]
    cluster.create_topic("orders", replicas=placed)

    for deletion in range(DELETIONS):
        epoch, (_, led) = cluster.controller_epoch, epochs(cluster)
        victim = chance.choice(cluster.broker_ids)
        misfortune = ("nothing", "kill", "freeze")[deletion % 3]
        if misfortune == "kill":
            cluster.kill(victim)
        elif misfortune == "freeze":
            cluster.pause(victim)

        cluster.delete_controller()
        chosen = cluster.wait_controller(after_epoch=epoch, timeout_s=IN_TIME_S)

        assert misfortune == "nothing" or chosen != victim
        if misfortune == "kill":
            cluster.start(victim)
        elif misfortune == "freeze":
            cluster.resume(victim)
        cluster.wait_registered(victim)
        # No write of a deposed controller has landed, no epoch has fallen.
        newest, now = epochs(cluster)
        assert newest <= cluster.controller_epoch
        assert all(after >= before for after, before in zip(now, led, strict=True))

    # The last controller has ended its failover, and serves.
    cluster.create_topic("afterwards")
