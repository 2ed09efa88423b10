"""Builds the one record that changes a partition to wanted targets, or None.

The steps and their order are Kafka's, since each step uses the results of earlier ones:

1. a reassignment whose target replicas are all in sync is completed;
2. a broker that left the ISR becomes an eligible leader replica (if ELR is on);
3. a leader is elected;
4. the leader epoch rises if a replica is dropped;
5. the ELR is set, then the ISR;
6. the leader epoch rises if the ISR shrinks (before 3.6-IV0);
7. the last known leader is set, then the replicas with their directories, then the recovery state.

Source: Kafka ``PartitionChangeBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from kafka_common.model import RECOVERING
from kraft.controller.partition_election import ElectionCandidates, PartitionElection
from kraft.controller.partition_reassignment import PartitionReassignmentReplicas
from kraft.controller.partition_registration import (
    NO_RECOVERY_STATE_CHANGE,
    PartitionRegistration,
)
from kraft.metadata.metadata_version import MetadataVersion
from kraft.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    PartitionChangeRecord,
)


@dataclass(slots=True)
class PartitionChangeBuilder:
    """Collects the targets of one partition; :meth:`build` is called once.

    A target of None leaves the partition's value unchanged.
    """

    partition: PartitionRegistration
    topic_id: UUID
    partition_id: int
    is_acceptable_leader: Callable[[int], bool]
    metadata_version: MetadataVersion
    min_isr: int
    """``min.insync.replicas``, or the replication factor if that is lower."""
    default_dir: Callable[[int], UUID]
    """Returns the log directory of a new replica on that broker."""

    election: PartitionElection = PartitionElection.ONLINE
    is_elr_enabled: bool = False
    target_isr: Sequence[int] | None = None
    target_replicas: Sequence[int] | None = None
    target_removing: Sequence[int] | None = None
    target_adding: Sequence[int] | None = None
    target_leader_recovery_state: int | None = None
    unclean_shutdown_replicas: Sequence[int] = ()
    """Brokers that may have lost records, so that they leave the ELR."""
    target_directories: dict[int, UUID] = field(default_factory=dict)
    """The new log directory of replicas that change it, by broker id."""

    def build(self) -> PartitionChangeRecord | None:
        """The record for the targets; None if nothing changes."""
        change = _Change(self)
        change.complete_reassignment()
        change.find_eligible_leaders()
        change.elect()
        change.raise_leader_epoch_for_dropped_replicas()
        change.record_elr()
        change.record_isr()
        change.raise_leader_epoch_for_isr_shrink()
        change.record_last_known_leader()
        record = change.record()
        return None if is_no_op(record) else record


def is_no_op(record: PartitionChangeRecord) -> bool:
    """Whether the record changes nothing in its partition.

    Source: Kafka ``PartitionChangeBuilder.changeRecordIsNoOp``.
    """
    return record == PartitionChangeRecord(record.partition_id, record.topic_id)


def _target_or_current(target: Sequence[int] | None, current: tuple[int, ...]) -> tuple[int, ...]:
    return current if target is None else tuple(target)


def _changed(target: tuple[int, ...], current: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if target == current else target


class _Change:
    """One run of :meth:`build`: the current targets and the record's fields so far."""

    def __init__(self, wanted: PartitionChangeBuilder) -> None:
        self._wanted = wanted
        self._partition = partition = wanted.partition
        self._isr = _target_or_current(wanted.target_isr, partition.isr)
        self._replicas = _target_or_current(wanted.target_replicas, partition.replicas)
        self._removing = _target_or_current(wanted.target_removing, partition.removing_replicas)
        self._adding = _target_or_current(wanted.target_adding, partition.adding_replicas)
        self._elr = partition.elr
        self._new_leader = NO_LEADER_CHANGE
        self._new_isr: tuple[int, ...] | None = None
        self._new_elr: tuple[int, ...] | None = None
        self._new_last_known_elr: tuple[int, ...] | None = None
        self._new_recovery_state = NO_RECOVERY_STATE_CHANGE

    def complete_reassignment(self) -> None:
        moving = PartitionReassignmentReplicas(self._removing, self._adding, self._replicas)
        completed = moving.completed(self._isr)
        if completed is not None:
            self._replicas, self._isr = completed
            self._removing = self._adding = ()

    def find_eligible_leaders(self) -> None:
        if not self._wanted.is_elr_enabled:
            return
        if len(self._isr) >= self._wanted.min_isr:
            self._elr = ()
            return
        excluded = {*self._isr, *self._wanted.unclean_shutdown_replicas}
        candidates = {*self._elr, *self._partition.isr}
        self._elr = tuple(sorted(candidates - excluded))

    def elect(self) -> None:
        partition, wanted = self._partition, self._wanted
        elected = ElectionCandidates(
            partition,
            self._replicas,
            self._isr,
            self._elr,
            wanted.is_acceptable_leader,
            wanted.is_elr_enabled,
        ).elect(wanted.election)
        if elected.leader == partition.leader:
            return
        self._new_leader = elected.leader
        if elected.leader in self._elr:
            self._isr = (elected.leader,)
            self._elr = tuple(broker for broker in self._elr if broker != elected.leader)
        if elected.unclean:
            # The other replicas must truncate the records that the new leader does not have.
            self._new_isr = (elected.leader,)
            if (
                partition.leader_recovery_state != RECOVERING
                and wanted.metadata_version.is_leader_recovery_supported
            ):
                self._new_recovery_state = RECOVERING

    def raise_leader_epoch_for_dropped_replicas(self) -> None:
        if self._new_leader == NO_LEADER_CHANGE and not set(self._partition.replicas) <= set(
            self._replicas
        ):
            self._new_leader = self._partition.leader

    def record_elr(self) -> None:
        if self._new_isr is not None or not self._wanted.is_elr_enabled:
            self._elr = ()
        self._new_elr = _changed(self._elr, self._partition.elr)

    def record_isr(self) -> None:
        # An empty ISR is not written unless ELR is on: the ELR then has the last member.
        if self._new_isr is None and (self._isr or self._wanted.is_elr_enabled):
            self._new_isr = _changed(self._isr, self._partition.isr)

    def raise_leader_epoch_for_isr_shrink(self) -> None:
        # Brokers before 3.6 need a new leader epoch when the ISR shrinks (KAFKA-15021).
        if (
            self._wanted.metadata_version.is_leader_epoch_bump_required_on_isr_shrink
            and self._new_leader == NO_LEADER_CHANGE
            and self._new_isr is not None
            and not set(self._partition.isr) <= set(self._new_isr)
        ):
            self._new_leader = self._partition.leader

    def record_last_known_leader(self) -> None:
        if not self._wanted.is_elr_enabled:
            return
        last_known, leader = self._partition.last_known_elr, self._partition.leader
        keeps_leader = leader != NO_LEADER and self._new_leader != NO_LEADER
        if self._new_isr == () and last_known != (leader,):
            self._new_last_known_elr = (leader,)
        elif (self._new_leader >= 0 or keeps_leader) and last_known:
            self._new_last_known_elr = ()

    def record(self) -> PartitionChangeRecord:
        partition, wanted = self._partition, self._wanted
        recovery_state = wanted.target_leader_recovery_state
        if recovery_state is None or recovery_state == partition.leader_recovery_state:
            recovery_state = self._new_recovery_state
        return PartitionChangeRecord(
            wanted.partition_id,
            wanted.topic_id,
            self._new_isr,
            self._new_leader,
            _changed(self._replicas, partition.replicas) if self._replicas else None,
            _changed(self._removing, partition.removing_replicas),
            _changed(self._adding, partition.adding_replicas),
            recovery_state,
            self._changed_directories(),
            self._new_elr,
            self._new_last_known_elr,
        )

    def _changed_directories(self) -> tuple[UUID, ...] | None:
        if not self._wanted.metadata_version.is_directory_assignment_supported:
            return None
        if not self._replicas:
            return None
        partition, found = self._partition, self._wanted.target_directories
        known = dict(zip(partition.replicas, partition.directories, strict=True)) | found
        directories = tuple(
            known[replica] if replica in known else self._wanted.default_dir(replica)
            for replica in self._replicas
        )
        return None if directories == partition.directories else directories
