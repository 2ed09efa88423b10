"""A producer without idempotence: it may write twice, and it may lose nothing."""

from __future__ import annotations

import time
from collections import defaultdict
from random import Random

import pytest

from tests.faults.cluster import BROKERS, FaultCluster
from tests.faults.load import REQUEST_TIMEOUT_MS
from tests.faults.scenario import PARTITIONS, under_load
from zkcontroller_testing.operations import ClientAct

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]


def test_without_idempotence_records_are_there_twice_and_none_is_lost(
    cluster: FaultCluster, random: Random
) -> None:
    topic, leader = "plain", random.choice(BROKERS)
    with under_load(cluster, topic, leader=leader, is_idempotent=False) as load:
        # What waits for the followers is in the log, and its producer gets a timeout.
        cluster.keep_from_fetching(leader)
        time.sleep(1.5 * REQUEST_TIMEOUT_MS / 1000)
        cluster.wait_until_alone(leader, topic, PARTITIONS)
        cluster.heal()
        cluster.wait_until_in_sync(topic, PARTITIONS)
        load.wait_for_progress()

        cluster.kill(leader)
        cluster.wait_until_out_of_isrs(leader, topic, PARTITIONS)
        load.wait_for_progress(random.randrange(1, 200))
        cluster.start(leader)

    places: defaultdict[str, set[tuple[str, int]]] = defaultdict(set)
    for each in load.history.operations:
        if each.act is ClientAct.READ and each.is_ok:
            places[each.value].add((each.place, each.offset))
    twice = [value for value, where in places.items() if len(where) > 1]
    print(f"{len(twice)} records are there more than once")
    assert twice, "nothing was sent again: this run shows nothing"
