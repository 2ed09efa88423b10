"""A partition in the metadata log, and the effect of one record on it.

Source: Kafka ``PartitionRegistration``, ``LeaderRecoveryState``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from typing_extensions import override

from kafka_common.errors import IllegalState
from kafka_common.model import LEADER_RECOVERY_STATES, RECOVERED, RECOVERING
from kafka_common.observability.java_values import camel_case, java_list
from kafka_common.protocol.uuid_text import uuid_text
from kraft.controller.directory_ids import MIGRATING
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionChangeRecord,
    PartitionRecord,
)

NO_RECOVERY_STATE_CHANGE: Final = -1


_COMPARED: Final = (
    "replicas", "directories", "isr", "removing_replicas", "adding_replicas", "leader",
    "leader_recovery_state", "leader_epoch", "elr", "last_known_elr", "partition_epoch",
)  # fmt: skip
"""The fields in the order of Kafka's ``diff``."""


class PartitionId(NamedTuple):
    """A partition by its topic's id."""

    topic_id: UUID
    partition_id: int


class PartitionRegistration(NamedTuple):
    """Replicas, ISR, leader and epochs of one partition."""

    replicas: tuple[int, ...]
    directories: tuple[UUID, ...]
    """The log directory of each replica, in the order of ``replicas``."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    """The leader's broker id; -1 if the partition has no leader."""
    leader_recovery_state: int
    leader_epoch: int
    partition_epoch: int
    elr: tuple[int, ...] = ()
    """Brokers outside of the ISR that have every committed record (KIP-966)."""
    last_known_elr: tuple[int, ...] = ()
    """Empty, or after the ISR became empty only the last known leader."""

    @override
    def __str__(self) -> str:
        return (
            f"PartitionRegistration(replicas={[*self.replicas]}, "
            f"directories={java_list(map(uuid_text, self.directories))}, "
            f"isr={[*self.isr]}, removingReplicas={[*self.removing_replicas]}, "
            f"addingReplicas={[*self.adding_replicas]}, elr={[*self.elr]}, "
            f"lastKnownElr={[*self.last_known_elr]}, leader={self.leader}, "
            f"leaderRecoveryState={LEADER_RECOVERY_STATES[self.leader_recovery_state]}, "
            f"leaderEpoch={self.leader_epoch}, partitionEpoch={self.partition_epoch})"
        )

    def difference_text(self, before: PartitionRegistration) -> str:
        """What changed: ``isr: [1, 2] -> [2], leader: 1 -> 2``."""
        return ", ".join(
            f"{camel_case(name)}: {_text(name, getattr(before, name))} -> "
            f"{_text(name, getattr(self, name))}"
            for name in _COMPARED
            if getattr(before, name) != getattr(self, name)
        )

    @staticmethod
    def from_record(record: PartitionRecord) -> PartitionRegistration:
        """The partition that the record creates; IllegalState if the record contradicts itself."""
        return PartitionRegistration(
            record.replicas,
            _checked_directories(record.directories, len(record.replicas), record),
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            _checked_recovery_state(record.leader_recovery_state, record),
            record.leader_epoch,
            record.partition_epoch,
            record.eligible_leader_replicas or (),
            record.last_known_elr or (),
        )

    @staticmethod
    def new(
        replicas: Sequence[int], directories: Sequence[UUID], isr: Sequence[int]
    ) -> PartitionRegistration:
        """A new partition, led by the first member of its ISR."""
        return PartitionRegistration(
            tuple(replicas), tuple(directories), tuple(isr), (), (), isr[0], RECOVERED, 0, 0
        )

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """The partition after that change; the partition epoch rises by one.

        The leader epoch rises if the record names a leader, even the current one.
        """
        replicas = self.replicas if record.replicas is None else record.replicas
        changes_leader = record.leader != NO_LEADER_CHANGE
        recovery_state = record.leader_recovery_state
        return PartitionRegistration(
            replicas,
            _checked_directories(
                self.directories if record.directories is None else record.directories,
                len(replicas),
                record,
            ),
            self.isr if record.isr is None else record.isr,
            _changed_or_before(record.removing_replicas, self.removing_replicas),
            _changed_or_before(record.adding_replicas, self.adding_replicas),
            record.leader if changes_leader else self.leader,
            self.leader_recovery_state
            if recovery_state == NO_RECOVERY_STATE_CHANGE
            else _checked_recovery_state(recovery_state, record),
            self.leader_epoch + changes_leader,
            self.partition_epoch + 1,
            _changed_or_before(record.eligible_leader_replicas, self.elr),
            _changed_or_before(record.last_known_elr, self.last_known_elr),
        )

    def to_record(
        self, topic_id: UUID, partition_id: int, metadata_version: MetadataVersion
    ) -> PartitionRecord:
        """The whole partition as a record, with the fields that this metadata.version supports.

        Below 3.7-IV2 the directories are left out, below 4.0-IV0 the ELR.
        """
        with_elr = metadata_version.is_elr_supported
        with_directories = metadata_version.is_directory_assignment_supported
        return PartitionRecord(
            partition_id,
            topic_id,
            self.replicas,
            self.isr,
            self.removing_replicas,
            self.adding_replicas,
            self.leader,
            self.leader_recovery_state,
            self.leader_epoch,
            self.partition_epoch,
            self.directories if with_directories else (),
            self.elr if with_elr and self.elr else None,
            self.last_known_elr if with_elr and self.last_known_elr else None,
        )

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    @property
    def preferred_replica(self) -> int:
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def has_preferred_leader(self) -> bool:
        return self.leader == self.preferred_replica

    @property
    def is_being_reassigned(self) -> bool:
        return bool(self.removing_replicas or self.adding_replicas)

    def directory(self, replica: int) -> UUID:
        """The log directory of the replica on broker ``replica``; IllegalState if it has none."""
        if replica not in self.replicas:
            raise IllegalState(f"Replica {replica} is not assigned to this partition.")
        return self.directories[self.replicas.index(replica)]


def is_valid_isr(replicas: Sequence[int], isr: Sequence[int]) -> bool:
    """Whether every member of the ISR is a replica and appears once.

    Source: Kafka ``Replicas.validateIsr``.
    """
    return len(set(isr)) == len(isr) and all(broker >= 0 and broker in replicas for broker in isr)


def _changed_or_before(changed: tuple[int, ...] | None, before: tuple[int, ...]) -> tuple[int, ...]:
    return before if changed is None else changed


def _checked_directories(
    directories: tuple[UUID, ...],
    replica_count: int,
    record: PartitionRecord | PartitionChangeRecord,
) -> tuple[UUID, ...]:
    # Records from before 3.7-IV2 have no directories, also if the number of replicas changes.
    if all(directory == MIGRATING for directory in directories):
        return (MIGRATING,) * replica_count
    if len(directories) != replica_count:
        raise IllegalState(
            f"partition with {replica_count} replicas and {len(directories)} directories: {record}"
        )
    return directories


def _checked_recovery_state(state: int, record: PartitionRecord | PartitionChangeRecord) -> int:
    if state not in (RECOVERED, RECOVERING):
        raise IllegalState(f"Value {state} is not a valid leader recovery state: {record}")
    return state


def _text(name: str, value: Any) -> str:
    if name == "directories":
        return java_list(map(uuid_text, value))
    if name == "leader_recovery_state":
        return LEADER_RECOVERY_STATES[value]
    return java_list(value) if isinstance(value, tuple) else str(value)
