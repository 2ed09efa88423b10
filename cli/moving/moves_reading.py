"""Reads what moves need: assignments, reassignments in progress, sizes, log directories.

The controller's list of moves is read before the metadata, so that a move that ends between the two
still counts as in progress.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.values.move_state import OngoingMove, Placement
from zkcontroller_cli.values.moves import Move, NamedPartition
from zkcontroller_cli.wire.admin import Ongoing, ongoing_reassignments
from zkcontroller_cli.wire.log_dirs import LogDirReading, LogDirsOfBrokers, readable_log_dirs
from zkcontroller_cli.wire.logs import addresses_in
from zkcontroller_cli.wire.requests import BrokerAddress, Deadline, metadata


@dataclass(frozen=True)
class MovesReading:
    """The Metadata of a broker, and the reassignments that the controller listed just before."""

    known: MetadataResponse
    listed: tuple[Ongoing, ...]

    @cached_property
    def partitions(self) -> dict[NamedPartition, MetadataResponsePartition]:
        """The partitions of the requested topics that exist."""
        return {
            NamedPartition(str(topic.name), int(each.partition_index)): each
            for topic in self.known.topics
            if topic.error_code is ErrorCode.none
            for each in topic.partitions
        }

    @cached_property
    def current(self) -> dict[NamedPartition, tuple[int, ...]]:
        """By partition, its replicas; during a move with the adding and removing ones."""
        return {name: tuple(map(int, each.replica_nodes)) for name, each in self.partitions.items()}

    @cached_property
    def leaders(self) -> dict[NamedPartition, int]:
        """By partition, the broker id of its leader; -1 without one."""
        return {name: int(each.leader_id) for name, each in self.partitions.items()}

    @cached_property
    def ongoing(self) -> dict[NamedPartition, OngoingMove]:
        """By partition, every reassignment in progress in the cluster."""
        return {
            NamedPartition(each.topic, each.partition): OngoingMove(
                each.replicas, each.adding_replicas, each.removing_replicas
            )
            for each in self.listed
        }

    @cached_property
    def live(self) -> frozenset[int]:
        """The ids of the live brokers."""
        return frozenset(self.addresses)

    @cached_property
    def addresses(self) -> dict[int, BrokerAddress]:
        """By live broker, its address."""
        return dict(addresses_in(self.known))

    @cached_property
    def racks(self) -> dict[int, str | None]:
        """By live broker, its rack; None if it has none."""
        return {int(broker.node_id): broker.rack for broker in self.known.brokers}


async def read_moving(
    bootstrap: Bootstrap, deadline: Deadline, topics: Sequence[str] | None = None
) -> MovesReading:
    """Read the moves in progress, and the Metadata of their topics and ``topics`` (None: all)."""
    listed = await ongoing_reassignments(bootstrap, deadline)
    if topics is not None:
        topics = sorted({*topics, *(each.topic for each in listed)})
    return MovesReading(await metadata(bootstrap, deadline, topics), tuple(listed))


async def read_directories(
    bootstrap: Bootstrap, deadline: Deadline, reading: MovesReading, moves: Iterable[Move]
) -> LogDirsOfBrokers:
    """Read the replicas of these moves at the brokers for which they name a log directory."""
    wanted: dict[int, list[NamedPartition]] = {}
    for move in moves:
        for broker in move.directories:
            wanted.setdefault(broker, []).append(move.name)
    return await readable_log_dirs(reading.addresses, deadline, bootstrap.security, wanted)


def placements_in(
    found: LogDirsOfBrokers, moves: Iterable[Move]
) -> dict[tuple[int, NamedPartition], Placement]:
    """By broker and partition, the current and the future log directory of the replica.

    For a replica of ``moves`` whose broker was not read: the reason.
    """
    placed: dict[tuple[int, NamedPartition], Placement] = {
        (broker, move.name): Placement(None, None, f"broker {broker}: {found.unread[broker]}")
        for move in moves
        for broker in move.directories
        if broker in found.unread
    }
    for log_dir in found.log_dirs:
        for replica in log_dir.replicas:
            key = log_dir.broker_id, replica.name
            before = placed.get(key, Placement(None))
            placed[key] = (
                before._replace(future_log_dir=log_dir.log_dir)
                if replica.is_future
                else before._replace(log_dir=log_dir.log_dir)
            )
    return placed


def sizes_in(log_dirs: Iterable[LogDirReading]) -> dict[NamedPartition, int]:
    """By partition, the size in bytes of its largest replica."""
    sizes: dict[NamedPartition, int] = {}
    for log_dir in log_dirs:
        for replica in log_dir.replicas:
            if not replica.is_future:
                sizes[replica.name] = max(sizes.get(replica.name, 0), replica.size_bytes)
    return sizes


def usable_in(log_dirs: Iterable[LogDirReading]) -> dict[int, int]:
    """By broker, the free bytes of its log directories, if it reports them for all."""
    usable: dict[int, int] = {}
    silent = set()
    for log_dir in log_dirs:
        if log_dir.error is not None:
            continue
        if log_dir.usable_bytes is None:
            silent.add(log_dir.broker_id)
        else:
            before = usable.get(log_dir.broker_id, 0)
            usable[log_dir.broker_id] = before + log_dir.usable_bytes
    return {broker: size for broker, size in usable.items() if broker not in silent}
