"""Replica lists of a reassignment: how it begins, completes and is cancelled.

Source: Kafka ``PartitionReassignmentReplicas``, ``PartitionReassignmentRevert`` (KIP-455).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from kafka_common.api_error import ApiException
from kraft.controller.partition_registration import PartitionRegistration


class CompletedReassignment(NamedTuple):
    """Replicas and ISR of a partition after its reassignment."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class PartitionReassignmentReplicas(NamedTuple):
    """A reassignment in progress; ``replicas`` includes those being added and removed."""

    removing: tuple[int, ...]
    adding: tuple[int, ...]
    replicas: tuple[int, ...]

    @staticmethod
    def between(current: Sequence[int], target: Sequence[int]) -> PartitionReassignmentReplicas:
        """The reassignment from one replica list to another; removed replicas come last, by id."""
        removing = tuple(sorted(set(current) - set(target)))
        adding = tuple(sorted(set(target) - set(current)))
        return PartitionReassignmentReplicas(removing, adding, (*target, *removing))

    @property
    def is_in_progress(self) -> bool:
        return bool(self.removing or self.adding)

    def completed(self, isr: Sequence[int]) -> CompletedReassignment | None:
        """The partition after the reassignment, with this ISR; None if it cannot complete yet.

        All replicas that stay must be in the ISR.
        """
        if not self.is_in_progress:
            return None
        remaining_isr = _without(isr, self.removing)
        replicas = _without(self.replicas, self.removing)
        if self.removing and not (remaining_isr and replicas):
            return None
        if not all(replica in remaining_isr for replica in replicas):
            return None
        return CompletedReassignment(replicas, remaining_isr)


class PartitionReassignmentRevert(NamedTuple):
    """Replicas and ISR of a partition after its reassignment was cancelled."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    unclean: bool
    """True if the ISR had only adding replicas: the restored replica may lack committed records."""

    @staticmethod
    def of(partition: PartitionRegistration) -> PartitionReassignmentRevert:
        """The state before the reassignment; ApiException if there was no replica before."""
        replicas = _without(partition.replicas, partition.adding_replicas)
        isr = _without(partition.isr, partition.adding_replicas)
        if isr:
            return PartitionReassignmentRevert(replicas, isr, unclean=False)
        if not replicas:
            raise ApiException(
                ErrorCode.invalid_replica_assignment,
                "Invalid replica assignment: addingReplicas contains all replicas.",
            )
        return PartitionReassignmentRevert(replicas, replicas[:1], unclean=True)


def _without(replicas: Sequence[int], gone: Sequence[int]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica not in gone)
