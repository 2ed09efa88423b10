"""A cluster with one topic."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from zkcontroller_simulation.world import World


def start_with_orders(
    world: World,
    *broker_ids: int,
    replicas: Sequence[Sequence[int]],
    topic_id: UUID | None = None,
) -> None:
    """Starts brokers, creates the topic ``orders`` and lets the cluster come to rest."""
    world.start_brokers(*broker_ids)
    world.create_topic("orders", replicas=replicas, topic_id=topic_id)
    world.settle()
