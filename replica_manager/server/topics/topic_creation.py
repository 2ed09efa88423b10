"""Validates a new topic before it is written to ZooKeeper.

Pure: the caller passes what it has read from ZooKeeper.  The checks and their order are Kafka's; a
failed check raises RequestRefused with Kafka's error code.

Source: Kafka ``ZkAdminManager.createTopics``, ``AdminZkClient.validateTopicCreate``, ``Topic``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode
from msgspec import Struct, field

from kafka_common.model import INTERNAL_TOPICS
from kafka_common.topic_names import has_collision_characters, invalid_name_reason, unified
from replica_manager.configuration.config_keys import ConfigValue
from replica_manager.configuration.topic_keys import TopicConfigRefused, validate_topic_config
from replica_manager.request_errors import RequestRefused
from zkcontroller.core.journal import scala_map, scala_seq

CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
FROM_BROKER_DEFAULT: Final = -1


class NewTopic(Struct, frozen=True):
    """One topic of a CreateTopics request."""

    name: str
    partition_count: int = FROM_BROKER_DEFAULT
    replication_factor: int = FROM_BROKER_DEFAULT
    assignment: Sequence[tuple[int, tuple[int, ...]]] = ()
    """The explicit replicas of each partition, in the request's order; empty if not given."""
    configs: Mapping[str, str | None] = field(default_factory=dict)


class CreatedTopic(Struct, frozen=True):
    """A created topic, or a validated one, without a topic id."""

    name: str
    topic_id: UUID | None
    assignment: Mapping[int, tuple[int, ...]]
    config: Mapping[str, str]


def is_internal(topic: str) -> bool:
    """Whether Kafka stores its own state in the topic."""
    return topic in INTERNAL_TOPICS


def check_request(topic: NewTopic, *, is_cached: bool) -> dict[str, str]:
    """The checks before ZooKeeper is read; returns the topic's configuration."""
    if is_cached:
        raise RequestRefused(
            ErrorCode.topic_already_exists, f"Topic '{topic.name}' already exists."
        )
    without_value = [name for name, value in topic.configs.items() if value is None]
    if without_value:
        raise RequestRefused(
            ErrorCode.invalid_config,
            f"Null value not supported for topic configs: {','.join(without_value)}",
        )
    counts = (topic.partition_count, topic.replication_factor)
    if topic.assignment and counts != (FROM_BROKER_DEFAULT, FROM_BROKER_DEFAULT):
        raise RequestRefused(
            ErrorCode.invalid_request,
            "Both numPartitions or replicationFactor and replicasAssignments were set. "
            "Both cannot be used at the same time.",
        )
    return {name: value for name, value in topic.configs.items() if value is not None}


def _shown(assignment: Mapping[int, Sequence[int]]) -> str:
    return scala_map(
        (partition, scala_seq("ArrayBuffer", replicas))
        for partition, replicas in sorted(assignment.items())
    )


def check_name(name: str) -> None:
    """Raises RequestRefused(INVALID_TOPIC_EXCEPTION) for an illegal name."""
    reason = invalid_name_reason(name)
    if reason is not None:
        raise RequestRefused(ErrorCode.invalid_topic_exception, reason)


def check_against_existing(
    name: str, *, is_marked_for_deletion: bool, exists: bool, all_topics: Sequence[str]
) -> None:
    """Checks the name against the topics in ZooKeeper.

    Topics whose names differ only in ``.`` and ``_`` would have the same metrics.  ``all_topics``
    may be empty for a name without these characters.
    """
    if is_marked_for_deletion:
        raise RequestRefused(
            ErrorCode.topic_already_exists, f"Topic '{name}' is marked for deletion."
        )
    if exists or name in all_topics:
        raise RequestRefused(ErrorCode.topic_already_exists, f"Topic '{name}' already exists.")
    if not has_collision_characters(name):
        return
    colliding = [topic for topic in all_topics if unified(topic) == unified(name)]
    if colliding:
        raise RequestRefused(
            ErrorCode.invalid_topic_exception,
            f"Topic '{name}' collides with existing topics: {', '.join(colliding)}",
        )


def check_assignment(assignment: Mapping[int, tuple[int, ...]]) -> None:
    """Checks that partitions count from 0 and have equally many replicas, none of them twice.

    Explicit assignments may name unknown brokers, as in Kafka.  Deviation: negative broker ids and
    empty replica lists are refused here.  Kafka writes them to ZooKeeper and cannot read them back.
    """
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise RequestRefused(
            ErrorCode.invalid_replica_assignment,
            "All partitions should have the same number of replicas",
        )
    for replicas in assignment.values():
        if len(set(replicas)) < len(replicas):
            raise RequestRefused(
                ErrorCode.invalid_replica_assignment,
                f"Duplicate replica assignment found: {_shown(assignment)}",
            )
        if not replicas or min(replicas) < 0:
            raise RequestRefused(
                ErrorCode.invalid_replica_assignment,
                f"Replicas must be broker ids: {dict(assignment)}",
            )
    if sorted(assignment) != list(range(len(assignment))):
        raise RequestRefused(
            ErrorCode.invalid_replica_assignment,
            "partitions should be a consecutive 0-based integer sequence",
        )


def check_config(config: Mapping[str, str], broker_values: Mapping[str, ConfigValue]) -> None:
    """Raises RequestRefused(INVALID_CONFIG) for an unknown key or an invalid value."""
    try:
        validate_topic_config(config, broker_values)
    except TopicConfigRefused as refused:
        raise RequestRefused(ErrorCode.invalid_config, str(refused)) from refused
