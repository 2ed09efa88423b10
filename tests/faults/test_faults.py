"""What clients were answered stays true while brokers, disks, links and ZooKeeper fail.

Every record is written by an idempotent producer with acks=all to partitions of which two replicas
must be in sync, so none may be lost and none may be there twice.
"""

from __future__ import annotations

import time
from random import Random
from typing import Final

import pytest

from tests.faults.cluster import BROKERS, LAG_MS, SESSION_TIMEOUT_MS, FaultCluster, others_than
from tests.faults.scenario import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

KILLS: Final = 5


def test_leaders_killed_one_after_the_other(cluster: FaultCluster, random: Random) -> None:
    with under_load(cluster, "killed") as load:
        for _ in range(KILLS):
            victim = cluster.leader("killed", random.randrange(PARTITIONS))
            cluster.kill(victim)
            cluster.wait_until_out_of_isrs(victim, "killed", PARTITIONS)
            load.wait_for_progress(random.randrange(1, 200))
            cluster.start(victim)
            cluster.wait_until_in_sync("killed", PARTITIONS)
            time.sleep(random.random())


def test_a_leader_frozen_beyond_its_session_wakes_up_deposed(
    cluster: FaultCluster, random: Random
) -> None:
    with under_load(cluster, "deposed") as load:
        victim = cluster.leader("deposed", random.randrange(PARTITIONS))
        cluster.pause(victim)
        cluster.wait_until_out_of_isrs(victim, "deposed", PARTITIONS)
        load.wait_for_progress(random.randrange(1, 200))
        cluster.resume(victim)


def test_a_follower_frozen_within_its_session_leaves_the_isr_and_comes_back(
    cluster: FaultCluster, random: Random
) -> None:
    assert LAG_MS * 1.5 < SESSION_TIMEOUT_MS
    with under_load(cluster, "frozen") as load:
        victim = random.choice(others_than(cluster.leader("frozen", 0)))
        cluster.pause_until_out_of_isr(victim, "frozen", 0)
        load.wait_for_progress()


def test_zookeeper_killed_and_back(cluster: FaultCluster, random: Random) -> None:
    with under_load(cluster, "zookeeper") as load:
        for _ in range(2):
            cluster.zookeeper.kill()
            # Leaders lead on without ZooKeeper: records are acknowledged meanwhile.
            load.wait_for_progress(200)
            time.sleep(random.uniform(0, 2 * SESSION_TIMEOUT_MS / 1000))
            cluster.zookeeper.start()
            cluster.wait_until(
                lambda: cluster.registered() == set(BROKERS), lambda: "all are registered"
            )
            load.wait_for_progress()


def test_a_follower_cut_off_from_the_others(cluster: FaultCluster, random: Random) -> None:
    with under_load(cluster, "cut-off") as load:
        victim = random.choice(BROKERS)
        cluster.keep_from_others(victim)
        led_by_others = [p for p in range(PARTITIONS) if cluster.leader("cut-off", p) != victim]
        cluster.wait_until(
            lambda: all(victim not in cluster.state("cut-off", p)[1] for p in led_by_others),
            lambda: f"{victim} leaves {[cluster.state('cut-off', p) for p in led_by_others]}",
        )
        load.wait_for_progress(random.randrange(1, 200))
        cluster.heal()


def test_a_broker_that_comes_back_with_an_empty_disk(cluster: FaultCluster, random: Random) -> None:
    with under_load(cluster, "empty-disk") as load:
        victim = random.choice(BROKERS)
        cluster.kill(victim)
        cluster.wait_until_out_of_isrs(victim, "empty-disk", PARTITIONS)
        cluster.wipe(victim)
        load.wait_for_progress(random.randrange(1, 200))
        cluster.start(victim)


def test_a_killed_broker_whose_last_bytes_never_came_to_the_disk(
    cluster: FaultCluster, random: Random
) -> None:
    with under_load(cluster, "torn-tail") as load:
        victim = cluster.leader("torn-tail", random.randrange(PARTITIONS))
        cluster.kill(victim)
        cluster.tear_tails(victim, "torn-tail", random)
        cluster.wait_until_out_of_isrs(victim, "torn-tail", PARTITIONS)
        load.wait_for_progress(random.randrange(1, 200))
        cluster.start(victim)
