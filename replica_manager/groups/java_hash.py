"""The partition of ``__consumer_offsets`` that holds a group.

Its coordinator is the leader of that partition, so every broker and every tool must agree on the
number: it comes from Java's ``String.hashCode``.

Source: Java ``String.hashCode``, Kafka ``Utils.abs``, ``GroupMetadataManager.partitionFor``.
"""

from __future__ import annotations

from struct import unpack
from typing import Final

_INT32_MASK: Final = 0xFFFFFFFF
_INT32_MIN: Final = -(2**31)


def java_hash(text: str) -> int:
    """``text.hashCode()`` of Java: over UTF-16 units, a signed 32-bit number."""
    raw = text.encode("utf-16-be", "surrogatepass")
    value = 0
    for unit in unpack(f">{len(raw) // 2}H", raw):
        value = (31 * value + unit) & _INT32_MASK
    return value - 2**32 if value >= 2**31 else value


def partition_for(group_id: str, partition_count: int) -> int:
    """The partition of ``__consumer_offsets`` that holds the group; its leader coordinates it."""
    value = java_hash(group_id)
    # Java's own abs leaves the smallest number negative; Kafka makes it 0.
    return 0 if value == _INT32_MIN else abs(value) % partition_count
