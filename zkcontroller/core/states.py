"""The states of partitions and of their replicas, by Kafka's numbers and names.

:mod:`.partition_states` and :mod:`.replica_states` say which one may follow which.

Source: Kafka ``PartitionState``, ``ReplicaState``.
"""

from __future__ import annotations

from enum import IntEnum


class PartitionState(IntEnum):
    """State of a partition; the numbers are Kafka's."""

    NEW = 0
    ONLINE = 1
    OFFLINE = 2
    NON_EXISTENT = 3

    @property
    def label(self) -> str:
        """Kafka's name, ``OnlinePartition``."""
        return _PARTITION_LABELS[self]


class ReplicaState(IntEnum):
    """State of one replica of a partition; the numbers are Kafka's."""

    NEW = 1
    ONLINE = 2
    OFFLINE = 3
    DELETION_STARTED = 4
    DELETION_SUCCESSFUL = 5
    DELETION_INELIGIBLE = 6
    NON_EXISTENT = 7

    @property
    def label(self) -> str:
        """Kafka's name, ``OnlineReplica``."""
        return _REPLICA_LABELS[self]


_PARTITION_LABELS = {
    PartitionState.NEW: "NewPartition",
    PartitionState.ONLINE: "OnlinePartition",
    PartitionState.OFFLINE: "OfflinePartition",
    PartitionState.NON_EXISTENT: "NonExistentPartition",
}
_REPLICA_LABELS = {
    ReplicaState.NEW: "NewReplica",
    ReplicaState.ONLINE: "OnlineReplica",
    ReplicaState.OFFLINE: "OfflineReplica",
    ReplicaState.DELETION_STARTED: "ReplicaDeletionStarted",
    ReplicaState.DELETION_SUCCESSFUL: "ReplicaDeletionSuccessful",
    ReplicaState.DELETION_INELIGIBLE: "ReplicaDeletionIneligible",
    ReplicaState.NON_EXISTENT: "NonExistentReplica",
}
