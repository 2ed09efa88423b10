"""The replica that a consumer should fetch from: the leader, or a follower in its rack (KIP-392).

Source: Kafka ``RackAwareReplicaSelector``, ``ReplicaManager.findPreferredReadReplica``.
"""

from __future__ import annotations

from replica_manager.replication.partition import Partition
from replica_manager.replication.zk_metadata_cache import MetadataSnapshot


def follower_in_rack(
    partition: Partition, fetch_offset: int, rack_id: str, snapshot: MetadataSnapshot
) -> int | None:
    """The in-sync follower in the rack that has the offset and the largest log end offset.

    None if there is none, if the leader is in the rack, or if this broker is not the leader.
    """
    if not rack_id or not partition.is_leader:
        return None
    leader = snapshot.live_brokers.get(partition.broker_id)
    if leader is not None and leader.rack == rack_id:
        return None
    candidates = [
        (follower.log_end_offset, follower.last_caught_up_time_ms, broker_id)
        for broker_id, follower in partition.remote_replicas.items()
        if broker_id in partition.in_sync_replicas
        and follower.log_start_offset <= fetch_offset <= follower.log_end_offset
        and (live := snapshot.live_brokers.get(broker_id)) is not None
        and live.rack == rack_id
    ]
    return max(candidates)[2] if candidates else None
