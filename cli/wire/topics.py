"""Topics in CreateTopics requests and Metadata responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kio.schema.create_topics.v7.request import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
)
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i16, i32

from zkcontroller_cli.console.errors import BadUsage
from zkcontroller_cli.znodes.topics import topic_id_text

_DEFAULT: Final = -1


def creatable(
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    configs: Mapping[str, str],
    replica_assignment: str | None,
) -> CreatableTopic:
    """The topic to create; None for a number means the broker's default (-1 in the request)."""
    assignments = () if replica_assignment is None else parse_assignment(replica_assignment)
    return CreatableTopic(
        name=TopicName(topic),
        num_partitions=i32(partitions or _DEFAULT),
        replication_factor=i16(replication_factor or _DEFAULT),
        assignments=assignments,
        configs=tuple(CreatableTopicConfig(name=k, value=v) for k, v in configs.items()),
    )


def parse_assignment(text: str) -> tuple[CreatableReplicaAssignment, ...]:
    """``1:2,2:1`` as the replicas of partitions 0 and 1; BadUsage if it is not of that form."""
    assignments = []
    for partition, replicas in enumerate(text.split(",")):
        ids = replicas.strip().split(":")
        if not all(broker.isdecimal() for broker in ids):
            raise BadUsage(f"{replicas.strip()!r} is not BROKER:BROKER:…, in --replica-assignment")
        assignments.append(
            CreatableReplicaAssignment(
                partition_index=i32(partition),
                broker_ids=tuple(BrokerId(int(broker)) for broker in ids),
            )
        )
    return tuple(assignments)


def topics_from_metadata(response: MetadataResponse) -> list[dict[str, Any]]:
    """The topics of a Metadata response as records; unknown or invalid topics are left out.

    A topic that this user may not describe has counts of None: its partitions are hidden.

    Fields that Metadata does not have (reassignment, deletion, configuration) are None.
    """
    return [
        _from_metadata(topic)
        for topic in response.topics
        if topic.error_code
        not in (ErrorCode.unknown_topic_or_partition, ErrorCode.invalid_topic_exception)
    ]


def _from_metadata(topic: MetadataResponseTopic) -> dict[str, Any]:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    without = None if topic.error_code is ErrorCode.topic_authorization_failed else 0
    return {
        "topic": str(topic.name),
        "topic_id": topic_id_text(topic.topic_id),
        "partition_count": len(partitions) or without,
        "replication_factor": len(partitions[0].replica_nodes) if partitions else without,
        "is_internal": topic.is_internal,
        "is_marked_for_deletion": None,
        "configs": None,
        "partitions": [
            {
                "partition": int(partition.partition_index),
                "leader": int(partition.leader_id),
                "leader_epoch": int(partition.leader_epoch),
                "isr": [int(broker) for broker in partition.isr_nodes],
                "replicas": [int(broker) for broker in partition.replica_nodes],
                "offline_replicas": [int(broker) for broker in partition.offline_replicas],
                "adding_replicas": None,
                "removing_replicas": None,
            }
            for partition in partitions
        ],
    }
