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
def under_load(
    cluster: FaultCluster, topic: str, *, leader: int | None = None, is_idempotent: bool = True
) -> Iterator[Load]:
    """A load within the block; behind it everything is in order, on the disks too.

    ``leader`` leads every partition at first; without it each broker leads one.
    """
    cluster.create(topic, PARTITIONS, leader=leader)
    servers = cluster.bootstrap_servers
    with loaded(servers, topic, PARTITIONS, is_idempotent=is_idempotent) as load:
        load.wait_for_progress()
        yield load
        cluster.wait_until_in_sync(topic, PARTITIONS)
        load.wait_for_progress()
    load.read_everything()
    tell(load)
    # pytest explains what is asserted in tests alone.
    assert not load.fatal, load.fatal
    found = anomalies(load.history, is_idempotent=is_idempotent)
    assert not found, f"{len(found)} anomalies: {found[:10]}"
    assert load.history.polled
    cluster.wait_until_replicas_agree(topic, PARTITIONS)
    assert all(cluster.log_bytes(BROKERS[0], topic, p) for p in range(PARTITIONS))


def tell(load: Load) -> None:
    """Prints how much of everything there is."""
    history = load.history
    print(f"{len(history.sent)} sent, {load.acknowledged()} acknowledged, "
          f"{len(history.polled)} polled, {len(history.final)} in the end")  # fmt: skip
