"""Indexes partitions by the brokers that lead them, or are in their ISR or ELR.

With it, the partitions that a failed broker affects are found without a look at every partition.
Partitions without a leader are indexed under leader -1.

Source: Kafka ``BrokersToIsrs``, ``BrokersToElrs``; kept as sets of partitions where Kafka keeps
arrays of partition ids per topic.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafka_common.errors import IllegalState
from kraft.controller.partition_registration import (
    PartitionId,
    PartitionRegistration,
)
from kraft.controller.snapshot_registry import SnapshotRegistry
from kraft.controller.timeline import TimelineDict, TimelineSet
from kraft.metadata.records import NO_LEADER


class BrokersToPartitions:
    """Sets of partitions by broker."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._registry = registry
        self._partitions_of: TimelineDict[int, TimelineSet[PartitionId]] = TimelineDict(registry)

    def move(self, partition: PartitionId, before: Sequence[int], after: Sequence[int]) -> None:
        """Moves the partition from the brokers in ``before`` to the brokers in ``after``."""
        if before == after:
            return
        for broker_id in before:
            if broker_id not in after:
                self._remove(broker_id, partition)
        for broker_id in after:
            if broker_id not in before:
                self._add(broker_id, partition)

    def partitions(self, broker_id: int) -> Iterator[PartitionId]:
        """The partitions of that broker, in the order in which they were added."""
        return iter(self._partitions_of.get(broker_id) or ())

    def count(self, broker_id: int) -> int:
        """The number of that broker's partitions."""
        return len(self._partitions_of.get(broker_id) or ())

    def has_any(self, broker_id: int) -> bool:
        """Whether the broker has any partition."""
        return broker_id in self._partitions_of

    def _add(self, broker_id: int, partition: PartitionId) -> None:
        partitions = self._partitions_of.get(broker_id)
        if partitions is None:
            partitions = self._partitions_of[broker_id] = TimelineSet(self._registry)
        partitions.add(partition)

    def _remove(self, broker_id: int, partition: PartitionId) -> None:
        partitions = self._partitions_of.get(broker_id)
        if partitions is None or not partitions.discard(partition):
            raise IllegalState(f"broker {broker_id} has no entry for {partition}")
        if not partitions:
            del self._partitions_of[broker_id]


class BrokersToIsrs:
    """Indexes every partition by its leader, its ISR and its ELR."""

    def __init__(self, registry: SnapshotRegistry) -> None:
        self._leaders = BrokersToPartitions(registry)
        self._isr_members = BrokersToPartitions(registry)
        self._elr_members = BrokersToPartitions(registry)

    def update(
        self,
        partition: PartitionId,
        before: PartitionRegistration | None,
        after: PartitionRegistration | None,
    ) -> None:
        """Indexes a partition anew; ``before`` is None if it is new, ``after`` if it is deleted."""
        self._leaders.move(partition, _leader(before), _leader(after))
        self._isr_members.move(partition, before.isr if before else (), after.isr if after else ())
        self._elr_members.move(partition, before.elr if before else (), after.elr if after else ())

    def partitions_with_no_leader(self) -> Iterator[PartitionId]:
        """The partitions without a leader."""
        return self._leaders.partitions(NO_LEADER)

    @property
    def leaderless_count(self) -> int:
        """The number of partitions without a leader."""
        return self._leaders.count(NO_LEADER)

    def partitions_with_broker_in_isr(self, broker_id: int) -> Iterator[PartitionId]:
        """The partitions that have the broker in their ISR, led by it or not."""
        return self._isr_members.partitions(broker_id)

    def partitions_with_broker_in_elr(self, broker_id: int) -> Iterator[PartitionId]:
        """The partitions that have the broker in their ELR."""
        return self._elr_members.partitions(broker_id)

    def has_leaderships(self, broker_id: int) -> bool:
        """Whether the broker leads any partition."""
        return self._leaders.has_any(broker_id)


def _leader(partition: PartitionRegistration | None) -> tuple[int, ...]:
    return () if partition is None else (partition.leader,)
