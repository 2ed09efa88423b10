"""What a reassignment or an election would do, from what a broker knows, before it is asked for.

The controller decides; a plan names what it would certainly refuse, and shows the rest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition

from .moves import NamedPartition

Replicas = tuple[int, ...]
Targets = Mapping[NamedPartition, Replicas | None]


class PlannedMove(NamedTuple):
    """One partition's replicas now and after the move."""

    topic: str
    partition: int
    replicas: Replicas | None
    """The target; None to cancel a reassignment."""
    current_replicas: Replicas
    reason: str | None
    """Why the controller would refuse it."""

    def row(self) -> dict[str, Any]:
        """As ``partition reassign --dry-run`` shows it."""
        target = self.replicas or ()
        return {
            "topic": self.topic,
            "partition": self.partition,
            "current_replicas": self.current_replicas,
            "replicas": self.replicas,
            "adding_replicas": [b for b in target if b not in self.current_replicas],
            "removing_replicas": [b for b in self.current_replicas if target and b not in target],
            "reason": self.reason,
        }


class PlannedElection(NamedTuple):
    """One partition's leader now and after the election."""

    topic: str
    partition: int
    leader: int
    elected: int | None
    """Who would lead; None where nothing changes, or where the controller must choose."""
    reason: str | None

    def row(self) -> dict[str, Any]:
        """As ``partition elect --dry-run`` shows it."""
        return self._asdict()


def plan_moves(known: MetadataResponse, targets: Targets) -> list[PlannedMove]:
    """The moves in the order in which they were named."""
    partitions = _partitions(known)
    live = {int(broker.node_id) for broker in known.brokers}
    return [
        PlannedMove(*named, replicas, *_checked(partitions.get(named), replicas, live))
        for named, replicas in targets.items()
    ]


def _checked(
    partition: MetadataResponsePartition | None, target: Replicas | None, live: set[int]
) -> tuple[Replicas, str | None]:
    if partition is None:
        return (), "there is no such partition"
    current = tuple(map(int, partition.replica_nodes))
    if target is None:
        return current, None
    if len(set(target)) != len(target):
        return current, "a broker is named twice"
    # A replica that stays may be offline; a new one must be alive to be filled.
    if dead := [broker for broker in target if broker not in live and broker not in current]:
        return current, f"not alive: {', '.join(map(str, dead))}"
    return current, None


def plan_elections(
    known: MetadataResponse, named: Sequence[NamedPartition] | None, *, is_unclean: bool
) -> list[PlannedElection]:
    """The elections for these partitions; None: for all, without those that need none."""
    partitions = _partitions(known)
    wanted = sorted(partitions) if named is None else named
    live = {int(broker.node_id) for broker in known.brokers}
    plans = []
    for topic, partition in wanted:
        outcome = _election(
            partitions.get(NamedPartition(topic, partition)), live, is_unclean=is_unclean
        )
        plans.append(PlannedElection(topic, partition, *outcome))
    return plans if named is not None else [p for p in plans if p.reason != _NOT_NEEDED]


_NOT_NEEDED = "no election needed"


def _election(
    partition: MetadataResponsePartition | None, live: set[int], *, is_unclean: bool
) -> tuple[int, int | None, str | None]:
    if partition is None:
        return -1, None, "there is no such partition"
    leader = int(partition.leader_id)
    replicas = tuple(map(int, partition.replica_nodes))
    in_sync = set(map(int, partition.isr_nodes))
    if is_unclean:
        if leader in live:
            return leader, None, _NOT_NEEDED
        alive = [broker for broker in replicas if broker in live]
        choice = next((broker for broker in alive if broker in in_sync), None)
        if not alive:
            return leader, None, "no replica is alive"
        return leader, choice if choice is not None else alive[0], None
    preferred = replicas[0]
    if leader == preferred:
        return leader, None, _NOT_NEEDED
    if preferred not in live:
        return leader, None, f"the preferred leader {preferred} is not alive"
    if preferred not in in_sync:
        return leader, None, f"the preferred leader {preferred} is not in sync"
    return leader, preferred, None


def _partitions(known: MetadataResponse) -> dict[NamedPartition, MetadataResponsePartition]:
    return {
        NamedPartition(str(topic.name), int(partition.partition_index)): partition
        for topic in known.topics
        if topic.error_code is ErrorCode.none
        for partition in topic.partitions
    }
