"""Plans which replicas become leaders in place of a broker, and the new order of replicas.

Pure.  The next leader is an in-sync replica on a live broker, the one whose broker is the preferred
leader of the fewest partitions.  The drained broker becomes the last replica, so that no election
of preferred leaders makes it leader again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Set
from typing import Any, NamedTuple

from zkcontroller_cli.values.moves import NamedPartition

Replicas = tuple[int, ...]


class LedPartition(NamedTuple):
    """Leader, replicas and in-sync replicas of a partition, from Metadata."""

    leader: int
    replicas: Replicas
    in_sync: Replicas


class PlannedHandover(NamedTuple):
    """A partition that the broker leads or is the preferred leader of, and the next leader."""

    topic: str
    partition: int
    leader: int
    current_replicas: Replicas
    replicas: Replicas
    """The replicas in the new order; unchanged if no other replica can lead."""
    elected: int | None
    """The broker to elect; None if another broker leads already, or if none can lead."""
    reason: str | None
    """Why no other replica can lead; None if one can."""

    @property
    def name(self) -> NamedPartition:
        """Topic and partition."""
        return NamedPartition(self.topic, self.partition)

    def row(self) -> dict[str, Any]:
        """The row that ``broker drain --leadership-only --dry-run`` shows."""
        return self._asdict()


def plan_handovers(
    partitions: Mapping[NamedPartition, LedPartition],
    broker: int,
    live: Set[int],
    moving: Set[NamedPartition] = frozenset(),
) -> list[PlannedHandover]:
    """The plan for each partition that the broker leads or is the preferred leader of.

    ``moving`` partitions are being reassigned, and are not changed.
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
