"""A replica that comes back far behind: it is in sync when it has everything, and not before.

It is kept slow on the way by its own throttle, so that "before" lasts for seconds.
"""

from __future__ import annotations

import time
from random import Random
from typing import Final

import pytest

from tests.faults.cluster import FaultCluster, others_than
from tests.faults.load import write_bulk
from tests.faults.story import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

BULK_RECORDS: Final = 300
RECORD_BYTES: Final = 10_000
BYTES_PER_SECOND: Final = 400_000
LEAST_S: Final = 3.0
"""So long it takes at the very least: the first second's worth passes at once."""


def test_a_follower_far_behind_joins_the_isr_with_everything_and_can_lead_alone(
    cluster: FaultCluster, random: Random
) -> None:
    topic = "far-behind"
    with under_load(cluster, topic) as load:
        late = random.choice(others_than(cluster.leader(topic, 0)))
        others = others_than(late)
        with cluster.slow_follower(late, topic, BYTES_PER_SECOND):
            cluster.kill(late)
            cluster.wait_until_out_of_isrs(late, topic, PARTITIONS)
            write_bulk(
                cluster.bootstrap_servers,
                topic,
                load.history,
                partitions=PARTITIONS,
                records=BULK_RECORDS,
                record_bytes=RECORD_BYTES,
            )
            began_s = time.monotonic()
            cluster.start(late)
            cluster.wait_until_in_sync(topic, PARTITIONS)
            took_s = time.monotonic() - began_s

            # The one that came last into the ISRs is all that is left of them.
            for other in others:
                cluster.kill(other)
            cluster.wait_until(
                lambda: all(cluster.leader(topic, p) == late for p in range(PARTITIONS)),
                lambda: f"{late} leads: {[cluster.state(topic, p) for p in range(PARTITIONS)]}",
            )
            cluster.start(*others)
    assert took_s > LEAST_S, "nothing has kept it slow: this run shows nothing"
