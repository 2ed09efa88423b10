"""Assigns and validates the partitions that are added to a topic.

Pure.  The new partitions continue the assignment of the old ones, as if the topic had been created
with all of them, with partition 0's first replica as the start.

Source: Kafka ``ZkAdminManager.createPartitions``, ``AdminZkClient.createNewPartitionsAssignment``.
"""

from __future__ import annotations

from collections.abc import Mapping

from kio.schema.errors import ErrorCode
from msgspec import Struct

from kafka_common.model import Broker, ReplicaAssignment
from replica_manager.request_errors import RequestRefused
from replica_manager.server.topics.assignment import assign_replicas


class NewPartitions(Struct, frozen=True):
    """The requested partition count of a topic, with optional assignments."""

    topic: str
    count: int
    """The wanted total, with the existing partitions."""
    assignments: tuple[tuple[int, ...], ...] | None = None
    """The replicas of each new partition; None lets the broker assign them."""


def assign(
    wanted: NewPartitions,
    existing: Mapping[int, ReplicaAssignment],
    brokers: Mapping[int, Broker],
) -> dict[int, ReplicaAssignment]:
    """The assignments of the new partitions; RequestRefused if the request is not valid.

    ``brokers``: the registered brokers by id, in ascending order.
    """
    if any(assignment.is_being_reassigned for assignment in existing.values()):
        # During a reassignment the controller writes the topic's znode, too.
        raise RequestRefused(
            ErrorCode.reassignment_in_progress,
            f"A partition reassignment is in progress for the topic '{wanted.topic}'.",
        )
    if not existing:
        raise RequestRefused(
            ErrorCode.unknown_topic_or_partition, f"The topic '{wanted.topic}' does not exist."
        )
    _check_count(wanted.count, len(existing))
    first = len(existing)
    proposed = None
    if wanted.assignments is not None:
        _check_proposal(wanted.assignments, wanted.count - first, brokers)
        proposed = {first + index: replicas for index, replicas in enumerate(wanted.assignments)}
    if 0 not in existing:
        raise RequestRefused(
            ErrorCode.unknown_server_error, f"partition 0 of topic '{wanted.topic}' is missing"
        )
    replicas_of_first = existing[0].replicas
    if proposed is None:
        proposed = _continued(replicas_of_first, wanted.count - first, first, brokers)
    else:
        _check_replicas(proposed, len(replicas_of_first))
    return {partition: ReplicaAssignment(replicas) for partition, replicas in proposed.items()}


def _check_count(wanted: int, existing: int) -> None:
    if wanted < existing:
        raise RequestRefused(
            ErrorCode.invalid_partitions,
            f"Topic currently has {existing} partitions, which is higher than the requested "
            f"{wanted}.",
        )
    if wanted == existing:
        raise RequestRefused(
            ErrorCode.invalid_partitions, f"Topic already has {existing} partitions."
        )


def _check_proposal(
    assignments: tuple[tuple[int, ...], ...], increment: int, brokers: Mapping[int, Broker]
) -> None:
    named = dict.fromkeys(broker for replicas in assignments for broker in replicas)
    unknown = [str(broker) for broker in named if broker not in brokers]
    if unknown:
        raise RequestRefused(
            ErrorCode.invalid_replica_assignment,
            f"Unknown broker(s) in replica assignment: {', '.join(unknown)}.",
        )
    if len(assignments) != increment:
        raise RequestRefused(
            ErrorCode.invalid_replica_assignment,
            f"Increasing the number of partitions by {increment} but {len(assignments)} "
            "assignments provided.",
        )


def _check_replicas(proposed: Mapping[int, tuple[int, ...]], factor: int) -> None:
    for partition, replicas in proposed.items():
        if not replicas:
            raise RequestRefused(
                ErrorCode.invalid_replica_assignment,
                f"Cannot have replication factor of 0 for partition id {partition}.",
            )
        if len(set(replicas)) < len(replicas):
            raise RequestRefused(
                ErrorCode.invalid_replica_assignment,
                "Duplicate brokers not allowed in replica assignment: "
                f"{', '.join(map(str, replicas))} for partition id {partition}.",
            )
    others = {p: len(replicas) for p, replicas in proposed.items() if len(replicas) != factor}
    if others:
        raise RequestRefused(
            ErrorCode.invalid_replica_assignment,
            "Inconsistent replication factor between partitions, "
            f"partition 0 has {factor} while partitions [{', '.join(map(str, others))}] have "
            f"replication factors [{', '.join(map(str, others.values()))}], respectively.",
        )


def _continued(
    replicas_of_first: tuple[int, ...],
    count: int,
    first_partition: int,
    brokers: Mapping[int, Broker],
) -> dict[int, tuple[int, ...]]:
    broker_ids = list(brokers)
    at_or_after = (i for i, broker in enumerate(broker_ids) if broker >= replicas_of_first[0])
    start = next(at_or_after, 0)
    return assign_replicas(
        {broker_id: broker.rack for broker_id, broker in brokers.items()},
        count,
        len(replicas_of_first),
        start=start,
        shift=start,
        first_partition=first_partition,
    )
