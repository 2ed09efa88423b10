"""Elects the leader of a partition.

A leader must be acceptable (alive, its log directory online) and have every committed record: it
is in the ISR or, if the ISR is empty, among the eligible leader replicas (ELR).  If there is no
such broker, the partition has no leader, or an unclean one that may lack records.

Source: Kafka ``PartitionChangeBuilder.electLeader`` (KIP-631, KIP-966).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from kraft.controller.partition_registration import PartitionRegistration
from kraft.metadata.records import NO_LEADER


class PartitionElection(Enum):
    """The kind of election: preferred, online or unclean."""

    PREFERRED = "preferred"
    """The first replica if it can lead, otherwise as ONLINE."""
    ONLINE = "online"
    """The current leader, otherwise the first replica that can lead."""
    UNCLEAN = "unclean"
    """As ONLINE; if no replica can lead, also one that may lack committed records."""


class ElectionResult(NamedTuple):
    """The leader, -1 if there is none; if ``unclean``, it may lack committed records."""

    leader: int
    unclean: bool


@dataclass(frozen=True, slots=True)
class ElectionCandidates:
    """The brokers among which a leader is elected."""

    partition: PartitionRegistration
    """The partition before the change."""
    replicas: Sequence[int]
    isr: Sequence[int]
    elr: Sequence[int]
    is_acceptable_leader: Callable[[int], bool]
    may_elect_last_known_leader: bool = False
    """True if ELR is on: with an empty ISR and ELR, the last known leader may lead."""

    def elect(self, election: PartitionElection) -> ElectionResult:
        """The result of an election of that kind."""
        current = self.partition.leader
        order = (current, *self.replicas)
        if election is PartitionElection.PREFERRED and self.replicas:
            order = (self.replicas[0], current, *self.replicas[1:])
        for candidate in order:
            if self._is_valid(candidate):
                return ElectionResult(candidate, unclean=False)
        if self._can_elect_last_known_leader():
            return ElectionResult(self.partition.last_known_elr[0], unclean=True)
        if election is PartitionElection.UNCLEAN:
            for candidate in self.replicas:
                if self.is_acceptable_leader(candidate):
                    return ElectionResult(candidate, unclean=True)
        return ElectionResult(NO_LEADER, unclean=False)

    def _is_valid(self, replica: int) -> bool:
        in_sync = replica in self.isr or (not self.isr and replica in self.elr)
        return in_sync and self.is_acceptable_leader(replica)

    def _can_elect_last_known_leader(self) -> bool:
        # As in Kafka 3.9, the last known leader is elected even if it is not alive.
        return (
            self.may_elect_last_known_leader
            and not self.elr
            and not self.isr
            and len(self.partition.last_known_elr) == 1
        )
