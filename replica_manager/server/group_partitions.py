"""Which partitions of a request about committed offsets are not to be touched, and why.

Source: Kafka ``KafkaApis`` (``handleOffsetCommitRequest``, ``handleOffsetDeleteRequest``).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from replica_manager.server.authorization import allowed_names
from replica_manager.server.context import BrokerContext, RequestContext
from zkcontroller.model import TopicPartition
from zkcontroller.zookeeper.kafka_acl_znodes import AclOperation, ResourceType


def partitions_of(topics: Iterable[Any]) -> dict[TopicPartition, None]:
    """The partitions that OffsetCommit or OffsetDelete names, each once, in their order."""
    return {
        TopicPartition(topic.name, each.partition_index): None
        for topic in topics
        for each in topic.partitions
    }


def refused_partitions(
    partitions: Iterable[TopicPartition], context: RequestContext, broker: BrokerContext
) -> dict[TopicPartition, ErrorCode]:
    """Those whose topic the client may not read, and those that do not exist."""
    partitions = tuple(partitions)
    names = dict.fromkeys(partition.topic for partition in partitions)
    readable = allowed_names(broker, context, AclOperation.READ, ResourceType.TOPIC, names)
    snapshot = broker.metadata_cache.snapshot
    refused: dict[TopicPartition, ErrorCode] = {}
    for partition in partitions:
        if partition.topic not in readable:
            refused[partition] = ErrorCode.topic_authorization_failed
        elif snapshot.partition(*partition) is None:
            refused[partition] = ErrorCode.unknown_topic_or_partition
    return refused
