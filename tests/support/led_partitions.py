"""Makes the broker of a test the leader of partitions, or their follower."""

from __future__ import annotations

from uuid import UUID

from kio.schema.errors import ErrorCode

from kafka_common.model import RECOVERED, TopicPartition
from replica_manager.replication.control_requests import LeaderAndIsrRequest
from replica_manager.replication.leader_and_isr import become_leader_or_follower
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Partition
from tests.support.broker_world import BROKER_EPOCH, CORRELATION_ID, BrokerWorld
from tests.support.steps import completed


def lead(
    world: BrokerWorld,
    tp: TopicPartition,
    *,
    leader: int = 1,
    leader_epoch: int = 0,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] = (1, 2, 3),
    topic_id: UUID | None = None,
) -> Partition:
    """What the controller's LeaderAndIsr does; broker 1 is the one under test."""
    state = LeaderAndIsrPartitionState(
        1, leader, leader_epoch, isr, leader_epoch, replicas, (), (),
        is_new=leader_epoch == 0, leader_recovery_state=RECOVERED,
    )  # fmt: skip
    result = completed(
        become_leader_or_follower(
            world.replicas,
            LeaderAndIsrRequest(
                1, 1, BROKER_EPOCH, {tp: state}, {} if topic_id is None else {tp.topic: topic_id}
            ),
            CORRELATION_ID,
        )
    )
    assert result.partitions[tp] is ErrorCode.none
    return world.replicas.partitions[tp]
