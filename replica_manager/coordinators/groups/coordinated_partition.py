"""The partition of ``__consumer_offsets`` that holds a group.

Its coordinator is the leader of that partition, so every broker and every tool must agree on the
number: it comes from Java's ``String.hashCode``.  Transactional ids find theirs alike.

Source: Kafka ``GroupMetadataManager.partitionFor``, ``TransactionStateManager.partitionFor``.
"""

from __future__ import annotations

from kafka_common.java import kafka_abs, signed, string_hash


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that holds the group; its leader coordinates it."""
    return kafka_abs(signed(string_hash(group_id))) % partition_count
