"""Brokers that speak with each other as Kafka 2.6 does: ISRs in ZooKeeper, epochs asked for."""

from __future__ import annotations

from random import Random

import pytest

from tests.faults.cluster import FaultCluster, others_than
from tests.faults.scenario import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]


def test_below_2_7_a_frozen_follower_and_a_dead_leader_cost_no_record(
    old_cluster: FaultCluster, random: Random
) -> None:
    with under_load(old_cluster, "old") as load:
        led = old_cluster.leader("old", 0)
        old_cluster.pause_until_out_of_isr(random.choice(others_than(led)), "old", 0)
        old_cluster.wait_until_in_sync("old", PARTITIONS)
        old_cluster.kill(led)
        old_cluster.wait_until_out_of_isrs(led, "old", PARTITIONS)
        load.wait_for_progress(random.randrange(1, 200))
        old_cluster.start(led)
