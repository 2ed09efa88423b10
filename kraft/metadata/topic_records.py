"""Records about topics and their partitions.

Source: Kafka 3.9 ``TopicRecord.json``, ``PartitionRecord.json``, ``PartitionChangeRecord.json``,
``RemoveTopicRecord.json`` (KIP-631, KIP-704, KIP-858, KIP-966).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from uuid import UUID

from kraft.metadata.record_values import ZERO_UUID

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2
"""``leader`` of a :class:`PartitionChangeRecord` that leaves the leader as it is."""


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """A topic is created; its partitions follow, each in a record of its own."""

    name: str = ""
    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class RemoveTopicRecord:
    """A topic and all of its partitions are deleted."""

    topic_id: UUID = ZERO_UUID


@dataclass(frozen=True, slots=True)
class PartitionRecord:
    """A partition as a whole: when it is created, and in snapshots."""

    partition_id: int = -1
    topic_id: UUID = ZERO_UUID
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_recovery_state: int = 0
    """1 while the leader recovers from an unclean election."""
    leader_epoch: int = -1
    partition_epoch: int = -1
    directories: tuple[UUID, ...] = ()
    """Of each replica, in the order of ``replicas``."""
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionChangeRecord:
    """What changed about a partition; a field at its default (None mostly) did not change."""

    partition_id: int = -1
    topic_id: UUID = ZERO_UUID
    isr: tuple[int, ...] | None = None
    leader: int = NO_LEADER_CHANGE
    """-1 if there is no leader any more."""
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    directories: tuple[UUID, ...] | None = None
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
