"""A leader that ZooKeeper and the clients reach, and the other replicas do not.

ZooKeeper counts it among the living, so it keeps its leaderships; and whatever it may
do, it may not acknowledge what is on its own disk only.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.faults.cluster import LAG_MS, FaultCluster, others_than
from tests.faults.probe import probing
from tests.faults.scenario import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

REQUEST_TIMEOUT_MS: Final = 2 * LAG_MS


def test_a_leader_and_controller_without_followers_leads_alone_and_acknowledges_nothing(
    cluster: FaultCluster,
) -> None:
    leader, topic = cluster.wait_controller(), "alone"
    with (
        under_load(cluster, topic, leader=leader) as load,
        probing(
            cluster.bootstrap_servers, topic, load.history, timeout_ms=REQUEST_TIMEOUT_MS
        ) as probe,
    ):
        cluster.isolate(leader)
        cluster.wait_until(
            lambda: cluster.state(topic, 0) == (leader, (leader,)),
            lambda: f"the ISR shrinks: {cluster.state(topic, 0)}",
            meanwhile=lambda: probe.send(0),
        )
        responses = probe.responses()
        cluster.wait_until_alone(leader, topic, PARTITIONS)
        acknowledged = load.acknowledged()

        # Those before the shrink waited for the followers in vain (since 3.7 no high watermark
        # rises below min.insync.replicas), those behind it found none in the ISR.
        assert responses
        assert set(responses) <= {"REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS"}
        for partition in range(PARTITIONS):
            # A leader learns its ISR a moment after it stands in ZooKeeper.
            cluster.wait_until(
                lambda: probe.ask(partition) == "NOT_ENOUGH_REPLICAS",  # noqa: B023
                lambda: "the leader refuses to append",
            )
        assert load.acknowledged() == acknowledged

        cluster.kill(leader)
        cluster.wait_until(
            lambda: all(cluster.state(topic, p) == (-1, (leader,)) for p in range(PARTITIONS)),
            lambda: f"nobody leads: {[cluster.state(topic, p) for p in range(PARTITIONS)]}",
        )
        assert load.acknowledged() == acknowledged
        cluster.heal()
        cluster.start(leader)


def test_a_leader_that_reaches_neither_followers_nor_controller_acknowledges_nothing(
    cluster: FaultCluster, random: Random
) -> None:
    leader, topic = random.choice(others_than(cluster.wait_controller())), "unheard"
    with (
        under_load(cluster, topic, leader=leader) as load,
        probing(
            cluster.bootstrap_servers,
            topic,
            load.history,
            timeout_ms=REQUEST_TIMEOUT_MS,
        ) as probe,
    ):
        states = [cluster.state(topic, p) for p in range(PARTITIONS)]
        cluster.isolate(leader)
        assert probe.ask(0) == "REQUEST_TIMED_OUT"
        acknowledged = load.acknowledged()

        # By now it would have shrunk its ISRs, and no controller takes the proposals.
        assert probe.ask(0) == "REQUEST_TIMED_OUT"
        assert [cluster.state(topic, p) for p in range(PARTITIONS)] == states
        assert load.acknowledged() == acknowledged
        cluster.heal()
