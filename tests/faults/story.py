"""A load that runs while a cluster is hurt, and what must be true behind it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.faults.checks import anomalies
from tests.faults.cluster import BROKERS, FaultCluster
from tests.faults.load import Load, loaded

PARTITIONS: Final = 3


@contextmanager
def under_load(cluster: FaultCluster, topic: str) -> Iterator[Load]:
    """A load within the block; behind it everything is in order, on the disks too."""
    cluster.create(topic, PARTITIONS)
    with loaded(cluster.bootstrap_servers, topic, PARTITIONS) as load:
        load.wait_for_progress()
        yield load
        cluster.wait_until_in_sync(topic, PARTITIONS)
        load.wait_for_progress()
    load.read_everything()
    print(f"{len(load.history.sent)} sent, {load.acknowledged()} acknowledged, "
          f"{len(load.history.polled)} polled, {len(load.history.final)} in the end")  # fmt: skip
    assert load.fatal == []
    assert anomalies(load.history, is_idempotent=True) == []
    assert load.history.polled
    cluster.wait_until_replicas_agree(topic, PARTITIONS)
    assert all(cluster.log_bytes(BROKERS[0], topic, p) for p in range(PARTITIONS))
