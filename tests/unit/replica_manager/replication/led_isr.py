"""A led partition whose ISR changes."""

from __future__ import annotations

from uuid import UUID

from kafka_common.model import TopicPartition
from replica_manager.replication.isr import PendingIsr
from replica_manager.replication.partition import LeaderAndIsrPartitionState, Partition
from tests.simulation.replication_log import InMemoryLog
from zkcontroller.state_changes.record import Kind, StateChange

ID = UUID(int=7)


ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)


LEADER_EPOCH, PARTITION_EPOCH = 5, 9


LAG_MS = 1_000


def led(tp: TopicPartition = ZERO, topic_id: UUID | None = ID) -> Partition:
    """A partition that broker 1 leads for brokers 2 and 3, all of them in sync at time 0."""
    partition = Partition(tp, 1, log=InMemoryLog(), replica_lag_time_max_ms=LAG_MS)
    partition.log.append_as_leader("x", LEADER_EPOCH)  # type: ignore[attr-defined]
    state = LeaderAndIsrPartitionState(
        3, 1, LEADER_EPOCH, (1, 2, 3), PARTITION_EPOCH, (1, 2, 3), (), (), False, 0
    )
    base = StateChange(Kind.LEADER_AND_ISR_HANDLING, "broker", 1, 3, 1)
    partition.make_leader(state, topic_id, base, 0)
    return partition


def shrink(partition: Partition) -> PendingIsr:
    """Brokers 2 and 3 have sent nothing for too long."""
    pending = partition.maybe_shrink_isr(LAG_MS + 1)
    assert pending is not None
    return pending
