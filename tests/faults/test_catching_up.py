"""A replica that comes back far behind: it is in sync when it has everything, and not before.

It is kept slow on the way by its own throttle, so that "before" lasts for seconds.  A fetch brings
up to 1 MiB of each partition and the throttle acts after it, so there is more than that to bring.
"""

from __future__ import annotations

from random import Random
from typing import Final

import pytest

from tests.faults.cluster import FaultCluster, others_than
from tests.faults.load import write_bulk
from tests.faults.scenario import PARTITIONS, under_load

pytestmark = [pytest.mark.faults, pytest.mark.timeout(400)]

BULK_RECORDS: Final = 600
RECORD_BYTES: Final = 10_000
BULK_BYTES_OF_A_PARTITION: Final = BULK_RECORDS * RECORD_BYTES // PARTITIONS
BYTES_PER_SECOND: Final = 400_000


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
            before = [len(cluster.log_bytes(late, topic, p)) for p in range(PARTITIONS)]
            write_bulk(
                load.history,
                topic,
                partitions=PARTITIONS,
                records=BULK_RECORDS,
                record_bytes=RECORD_BYTES,
            )
            cluster.start(late)
            seen_on_its_way: set[int] = set()
            joined_too_early: set[int] = set()

            def look_at_the_late_one() -> None:
                for partition in range(PARTITIONS):
                    # First the ISR: what it holds afterwards is no less than at that moment.
                    is_in_sync = late in cluster.state(topic, partition)[1]
                    fetched = len(cluster.log_bytes(late, topic, partition)) - before[partition]
                    if 0 < fetched < BULK_BYTES_OF_A_PARTITION:
                        (joined_too_early if is_in_sync else seen_on_its_way).add(partition)

            cluster.wait_until_in_sync(topic, PARTITIONS, meanwhile=look_at_the_late_one)
            assert not joined_too_early
            assert seen_on_its_way, "nothing has kept it slow: this run shows nothing"

            # The one that came last into the ISRs is all that is left of them.
            for other in others:
                cluster.kill(other)
            cluster.wait_until(
                lambda: all(cluster.leader(topic, p) == late for p in range(PARTITIONS)),
                lambda: f"{late} leads: {[cluster.state(topic, p) for p in range(PARTITIONS)]}",
            )
            for other in others:
                cluster.start(other)
