"""Reads the subscribed topics from the members' metadata, the only field the coordinator needs.

The coordinator does not read anything else in metadata and assignments.  Every version of the
metadata begins with the fields of version 0, so only these are read.

Source: Kafka ``ConsumerProtocolSubscription``, ``ConsumerProtocol.deserializeSubscription``,
``GroupMetadata.computeSubscribedTopics``.
"""

from __future__ import annotations

from typing import Final

from replica_manager.coordinators.groups.record_reader import GroupRecordCorrupt, RecordReader

PROTOCOL_TYPE: Final = "consumer"
"""The protocol type of consumer groups; the metadata of other groups is never read."""

_LEAST_TOPIC_SIZE: Final = 2


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """The topics in a consumer's subscription; None if the metadata is malformed."""
    reader = RecordReader(metadata, "subscription")
    try:
        if reader.int16() < 0:
            return None
        count = reader.bounded_count(reader.int32(), _LEAST_TOPIC_SIZE)
        topics = frozenset([reader.string() for _ in range(count)])
        user_data_size = reader.int32()
        if user_data_size != -1:
            reader.bounded_count(user_data_size, 1)
    except GroupRecordCorrupt:
        return None
    return topics
