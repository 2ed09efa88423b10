"""One broker's Metadata response in little memory, and its comparison with ZooKeeper.

``zkctl doctor`` (rules M01 to M03) and ``zkctl metadata diff`` use this comparison.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple
from uuid import UUID

from zkcontroller_cli.znodes.partitions import PartitionView


class CachedState(NamedTuple):
    """A partition as a broker's metadata cache has it."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...] = ()
    is_leader_hidden: bool = False
    """Whether the leader has no listener with the name of the one that was asked."""


class MetadataBroker(NamedTuple):
    """A broker as another broker's Metadata names it."""

    host: str
    port: int
    rack: str | None


@dataclass(frozen=True)
class ReportedMetadata:
    """A Metadata response of one broker."""

    cluster_id: str | None
    controller_id: int
    """-1 if the broker knows no controller."""
    brokers: Mapping[int, MetadataBroker] = field(default_factory=dict)
    topic_ids: Mapping[str, UUID] = field(default_factory=dict)
    """By topic; topics without an id are left out."""
    partitions: Mapping[tuple[str, int], CachedState] = field(default_factory=dict)

    @cached_property
    def topics(self) -> set[str]:
        """The topics of which the response has partitions."""
        return {topic for topic, _ in self.partitions}


def expected_state(view: PartitionView, cached: CachedState) -> CachedState | None:
    """The state in ZooKeeper if the broker's cached state differs from it, else None.

    Two cases are no difference: for a dead leader a broker answers leader -1
    (LEADER_NOT_AVAILABLE), and before Kafka 2.1 it answers no leader epoch (-1).
    """
    state = view.state
    if state is None:
        return None
    is_comparable = view.leader_is_live and not cached.is_leader_hidden
    leader = state.leader if is_comparable else cached.leader
    epoch = cached.leader_epoch if cached.leader_epoch == -1 else state.leader_epoch
    same = (cached.leader, cached.leader_epoch) == (leader, epoch)
    if same and set(cached.isr) == set(state.in_sync_replicas):
        return None
    return CachedState(leader, epoch, state.in_sync_replicas, view.assignment.replicas)


def is_other_topic(cached: UUID | None, expected: UUID | None) -> bool:
    """Whether both topic ids are known and differ; a broker before Kafka 2.8 knows none."""
    return cached is not None and expected is not None and cached != expected


def unlike_brokers(
    known: Collection[int], registered: Collection[int]
) -> tuple[list[int], list[int]]:
    """The registered brokers missing in ``known``, and the known ones that are not registered."""
    return sorted(set(registered) - set(known)), sorted(set(known) - set(registered))
