"""Fields that the quorum's messages share."""

from __future__ import annotations

from typing import Any

from kafka_common.errors import InvalidFrame
from kafka_common.protocol.versioned_messages import MessageSchema
from kraft.raft.messages import Endpoints
from kraft.raft.values import (
    METADATA_PARTITION,
    METADATA_TOPIC,
    METADATA_TOPIC_ID,
    NO_LEADER,
    NodeAddress,
    ReplicaKey,
)


def of_metadata(schema: MessageSchema, **values: object) -> Any:
    """The ``topics`` field of a message about the metadata partition, with these values."""
    partition = schema.part("PartitionData", partition_index=METADATA_PARTITION, **values)
    return (schema.part("TopicData", topic_name=METADATA_TOPIC, partitions=(partition,)),)


def metadata_partition(topics: Any) -> Any | None:
    """The metadata partition of a message; None unless it is the only partition."""
    if len(topics) != 1 or len(topics[0].partitions) != 1:
        return None
    [partition] = topics[0].partitions
    if _topic(topics[0]) not in (METADATA_TOPIC, METADATA_TOPIC_ID):
        return None
    return partition if _index(partition) == METADATA_PARTITION else None


def response_partition(topics: Any) -> Any:
    """The metadata partition of a response; InvalidFrame if it names any other."""
    partition = metadata_partition(topics)
    if partition is None:
        raise InvalidFrame("a response about another partition than that of the metadata")
    return partition


def _topic(topic: Any) -> object:
    for name in ("topic_id", "topic_name", "name"):
        if hasattr(topic, name):
            return getattr(topic, name)
    return None  # a Fetch of a version that has no topic ids


def _index(partition: Any) -> object:
    names = ("partition_index", "partition", "index")
    return next(getattr(partition, name) for name in names if hasattr(partition, name))


def replica_key(replica_id: int, directory_id: Any = None) -> ReplicaKey | None:
    """The replica in a message; None if its id is negative."""
    return None if replica_id < 0 else ReplicaKey(int(replica_id), directory_id)


def id_or_none(node_id: int) -> int | None:
    """The node id in a message; None if it is negative."""
    return None if node_id < 0 else int(node_id)


def id_on_wire(node_id: int | None) -> int:
    """The node id to put into a message: -1 for None."""
    return NO_LEADER if node_id is None else node_id


def endpoints_of(listeners: Any) -> Endpoints:
    """The endpoints in a message, by listener name."""
    return {each.name: NodeAddress(each.host, int(each.port)) for each in listeners}


def listeners_of(schema: MessageSchema, class_name: str, endpoints: Endpoints) -> tuple[Any, ...]:
    """The endpoints as parts of a message, each of the class ``class_name``."""
    return tuple(
        schema.part(class_name, name=name, host=endpoint.host, port=endpoint.port)
        for name, endpoint in endpoints.items()
    )
