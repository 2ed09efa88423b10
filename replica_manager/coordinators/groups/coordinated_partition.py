"""The partition of ``__consumer_offsets`` that holds a group.

The group's coordinator is the leader of that partition.  Every broker and tool must compute the
same partition number, so it comes from Java's ``String.hashCode``.  A transactional id finds its
partition of ``__transaction_state`` in the same way.

Source: Kafka ``GroupMetadataManager.partitionFor``, ``TransactionStateManager.partitionFor``.
"""

from __future__ import annotations

from kafka_common.java import kafka_abs, signed, string_hash


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that holds the group; its leader coordinates it."""
    return kafka_abs(signed(string_hash(group_id))) % partition_count
