"""A load that runs while a cluster is hurt, and what must be true behind it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from tests.faults.cluster import BROKERS, FaultCluster
from tests.faults.load import Load, loaded
from zkcontroller_testing.client_history import ClientHistory

PARTITIONS: Final = 3


@contextmanager
def under_load(
    cluster: FaultCluster, topic: str, *, leader: int | None = None, is_idempotent: bool = True
) -> Iterator[Load]:
    """A load within the block; behind it everything is in order, on the disks too.

    ``leader`` leads every partition at first; without it each broker leads one.
    """
    cluster.create(topic, PARTITIONS, leader=leader)
    history = cluster.history()
    with loaded(history, topic, PARTITIONS, is_idempotent=is_idempotent) as load:
        load.wait_for_progress()
        yield load
        cluster.wait_until_in_sync(topic, PARTITIONS)
        load.wait_for_progress()
    tell(history)
    history.check()
    cluster.wait_until_replicas_agree(topic, PARTITIONS)
    assert all(cluster.log_bytes(BROKERS[0], topic, p) for p in range(PARTITIONS))


def tell(history: ClientHistory) -> None:
    """Prints how much of everything there is."""
    print(dict(Counter(f"{each.act} {each.completion}" for each in history.operations)))
