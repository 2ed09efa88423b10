"""Proposals of an ISR to the quorum's controller."""

from typing import Any
from uuid import UUID

from kafka_common.model import RECOVERED
from kraft.controller.alter_partition import (
    AlteredPartition,
    AlterPartitionRequest,
    IsrMember,
    ProposedPartition,
    ProposedTopic,
)
from tests.support.kraft_world import KraftWorld


def propose(
    world: KraftWorld,
    topic: UUID,
    *isr: int | tuple[int, int],
    version: int = 3,
    sender: int | None = None,
    **changed: Any,
) -> AlteredPartition:
    """What the leader, or ``sender``, is answered; epochs are the partition's if not changed."""
    partition = world.partition(topic)
    members = tuple(IsrMember(*(m if isinstance(m, tuple) else (m,))) for m in isr)
    sender = partition.leader if sender is None else sender
    proposed = ProposedPartition(
        changed.get("index", 0),
        changed.get("leader_epoch", partition.leader_epoch),
        changed.get("partition_epoch", partition.partition_epoch),
        members,
        changed.get("recovery_state", RECOVERED),
    )
    named = ProposedTopic((proposed,), changed.get("topic_id", topic), changed.get("name", ""))
    request = AlterPartitionRequest(
        sender, changed.get("broker_epoch", world.epoch(sender)), (named,)
    )
    (answered,) = world.commit(world.control.isr.alter(request, version))
    return answered.partitions[0]
