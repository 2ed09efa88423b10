"""Assigns the replicas of a new topic to brokers.

Pure: Kafka chooses ``start`` and ``shift`` at random, here the caller passes them.

Source: Kafka ``AdminUtils.assignReplicasToBrokers``, ``getRackAlternatedBrokerList`` (KIP-36).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from replica_manager.request_errors import RequestRefused

MOST_PARTITIONS: Final = 100_000
"""The most partitions of a topic; with more, its znode would exceed ZooKeeper's size limit."""


def assign_replicas(
    racks: Mapping[int, str | None],
    partition_count: int,
    replication_factor: int,
    *,
    start: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """The replicas of each partition, preferred leader first.

    ``racks``: broker id to rack; without racks, the order of the brokers matters.
    ``start``: position of partition 0's leader; ``shift``: distance of its first follower.
    Raises RequestRefused, as Kafka, for impossible counts or if only some brokers have a rack, and
    for more than MOST_PARTITIONS, where Kafka would run out of memory.
    """
    if partition_count <= 0:
        raise RequestRefused(
            ErrorCode.invalid_partitions, "Number of partitions must be larger than 0."
        )
    if first_partition + partition_count > MOST_PARTITIONS:
        raise RequestRefused(
            ErrorCode.invalid_partitions,
            f"A topic cannot have more than {MOST_PARTITIONS} partitions.",
        )
    if replication_factor <= 0:
        raise RequestRefused(
            ErrorCode.invalid_replication_factor, "Replication factor must be larger than 0."
        )
    if replication_factor > len(racks):
        raise RequestRefused(
            ErrorCode.invalid_replication_factor,
            f"Replication factor: {replication_factor} larger than available brokers: "
            f"{len(racks)}.",
        )
    known_racks = {broker: rack for broker, rack in racks.items() if rack is not None}
    if known_racks and len(known_racks) < len(racks):
        raise RequestRefused(
            ErrorCode.unknown_server_error,
            "Not all brokers have rack information for replica rack aware assignment.",
        )
    brokers = rack_alternated(known_racks) if known_racks else list(racks)
    choose = _Chooser(brokers, known_racks)
    assignment: dict[int, tuple[int, ...]] = {}
    for partition in range(first_partition, first_partition + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start) % len(brokers)
        assignment[partition] = choose.replicas(first, shift, replication_factor)
    return assignment


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """The brokers in an order in which racks alternate; sorted by rack name and broker id."""
    brokers_of: defaultdict[str, list[int]] = defaultdict(list)
    for broker in sorted(racks):
        brokers_of[racks[broker]].append(broker)
    queues = [brokers_of[rack] for rack in sorted(brokers_of)]
    longest = max(len(queue) for queue in queues)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


class _Chooser:
    """Chooses the replicas of a partition."""

    def __init__(self, brokers: Sequence[int], racks: Mapping[int, str]) -> None:
        self._brokers = brokers
        self._racks = racks
        self._rack_count = len(set(racks.values())) if racks else 1

    def replicas(self, first: int, shift: int, count: int) -> tuple[int, ...]:
        if not self._racks:
            followers = (self._broker_at(first, shift, j) for j in range(count - 1))
            return (self._brokers[first], *followers)
        leader = self._brokers[first]
        chosen = [leader]
        used_racks = {self._racks[leader]}
        attempt = 0
        while len(chosen) < count:
            broker = self._broker_at(first, shift * self._rack_count, attempt)
            attempt += 1
            rack = self._racks[broker]
            if rack in used_racks and len(used_racks) < self._rack_count:
                continue  # first use a rack without a replica
            if broker in chosen:
                continue  # count <= number of brokers, so another broker is left
            chosen.append(broker)
            used_racks.add(rack)
        return tuple(chosen)

    def _broker_at(self, first: int, shift: int, index: int) -> int:
        others = len(self._brokers) - 1
        return self._brokers[(first + 1 + (shift + index) % others) % len(self._brokers)]
