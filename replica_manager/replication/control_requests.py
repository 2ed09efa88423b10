"""LeaderAndIsr and StopReplica requests of a controller, as values.

Source: Kafka ``LeaderAndIsrRequest``, ``StopReplicaRequest``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct, field

from kafka_common.model import TopicPartition
from replica_manager.replication.partition import LeaderAndIsrPartitionState


class LeaderAndIsrRequest(Struct, frozen=True):
    """A LeaderAndIsr request of any version."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, LeaderAndIsrPartitionState]
    topic_ids: Mapping[str, UUID]
    """Ids by topic name.  Topics without an id are absent; old versions have no ids."""
    is_kraft_controller: bool = False


class StopReplicaPartition(NamedTuple):
    """One partition of a StopReplica request."""

    leader_epoch: int
    """-2: the topic is being deleted; -1: the version of the request has no leader epochs."""
    delete_partition: bool


class StopReplicaRequest(Struct, frozen=True):
    """A StopReplica request of any version."""

    controller_id: int
    controller_epoch: int
    broker_epoch: int
    partitions: Mapping[TopicPartition, StopReplicaPartition]


class PartitionErrors(Struct, frozen=True):
    """A response: the error of the whole request, and one per handled partition."""

    error: ErrorCode
    partitions: Mapping[TopicPartition, ErrorCode] = field(default_factory=dict)
    put_off: Sequence[TopicPartition] = ()
    """Partitions whose logs could not be opened because of a limit of the operating system.

    The same request may be handled again for them.
    """
