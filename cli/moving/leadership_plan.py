"""Which leaders take over from a broker, and the order of replicas that makes them stay leaders.

Pure.  The next leader is a replica in sync on a live broker, of those the one whose broker is the
preferred leader of the fewest partitions.  The broker becomes the last replica, so that no election
of preferred leaders gives a leadership back to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition

Replicas = tuple[int, ...]


class LedPartition(NamedTuple):
    """A partition as brokers know it."""

    leader: int
    replicas: Replicas
    in_sync: Replicas


class PlannedHandover(NamedTuple):
    """A partition that the broker leads, or is to lead by preference, and who takes over."""

    topic: str
    partition: int
    leader: int
    current_replicas: Replicas
    replicas: Replicas
    """In the new order; as they are where nothing can be done."""
    elected: int | None
    """The next leader; None: it leads already, or there is none."""
    reason: str | None
    """Why the broker goes on leading."""

    @property
    def name(self) -> NamedPartition:
        """Its partition."""
        return NamedPartition(self.topic, self.partition)

    def row(self) -> dict[str, Any]:
        """As ``broker drain --leadership-only --dry-run`` shows it."""
        return self._asdict()


def plan_handovers(
    partitions: Mapping[NamedPartition, LedPartition],
    broker: int,
    live: Set[int],
    moving: Set[NamedPartition] = frozenset(),
) -> list[PlannedHandover]:
    """Who leads instead of the broker, partition by partition.

    ``moving`` partitions are under reassignment, and are left alone.
    """
    preferred = Counter(each.replicas[0] for each in partitions.values() if each.replicas)
    plans = []
    for name, each in sorted(partitions.items()):
        if broker not in each.replicas or broker not in (each.leader, each.replicas[0]):
            continue
        able = [b for b in each.replicas if b != broker and b in each.in_sync and b in live]
        reason = None
        if name in moving:
            reason = "it is being moved"
        elif not able:
            reason = "no other replica is in sync"
        if reason is not None:
            plans.append(
                PlannedHandover(*name, each.leader, each.replicas, each.replicas, None, reason)
            )
            continue
        leads_elsewhere = each.leader in able
        chosen = each.leader if leads_elsewhere else min(able, key=lambda b: (preferred[b], b))
        preferred[each.replicas[0]] -= 1
        preferred[chosen] += 1
        rest = [b for b in each.replicas if b not in (chosen, broker)]
        order = (chosen, *rest, broker)
        elected = None if leads_elsewhere else chosen
        plans.append(PlannedHandover(*name, each.leader, each.replicas, order, elected, None))
    return plans
