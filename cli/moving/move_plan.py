"""Predicts from a broker's Metadata what a reassignment or an election would do.

The controller decides later; a plan names only what it would certainly refuse.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.metadata.v12.response import MetadataResponse, MetadataResponsePartition

from zkcontroller_cli.values.move_state import Ongoing
from zkcontroller_cli.values.moves import Move, NamedPartition

Replicas = tuple[int, ...]
Directories = Mapping[int, Mapping[str, str | None]]
"""By broker, its log directories, each with its error or None."""


class PlannedMove(NamedTuple):
    """One partition's replicas now and after the move."""

    topic: str
    partition: int
    replicas: Replicas
    """The replicas after the move."""
    current_replicas: Replicas
    reason: str | None
    """Why the controller or a broker would refuse the move; None if nothing is known against it."""
    log_dirs: tuple[str, ...] = ()

    def row(self) -> dict[str, Any]:
        """The row that ``reassign start --dry-run`` shows."""
        return {
            "topic": self.topic,
            "partition": self.partition,
            "current_replicas": self.current_replicas,
            "replicas": self.replicas,
            "adding_replicas": [b for b in self.replicas if b not in self.current_replicas],
            "removing_replicas": [b for b in self.current_replicas if b not in self.replicas],
            "log_dirs": self.log_dirs or None,
            "reason": self.reason,
        }


class PlannedElection(NamedTuple):
    """One partition's leader now and after the election."""

    topic: str
    partition: int
    leader: int
    elected: int | None
    """The leader after the election; None if the leader does not change."""
    reason: str | None

    @property
    def text(self) -> str:
        """The line that is shown before the question."""
        name = f"{self.topic}-{self.partition}"
        if self.elected is not None:
            return f"{name}: leader {self.leader} -> {self.elected}"
        stays = f"leader {self.leader} stays: " if self.leader >= 0 else ""
        return f"{name}: {stays}{self.reason}"

    def row(self) -> dict[str, Any]:
        """The row that ``partition elect --dry-run`` shows."""
        return self._asdict()


def plan_moves(
    known: MetadataResponse,
    moves: Sequence[Move],
    ongoing: Ongoing | None = None,
    directories: Directories | None = None,
) -> list[PlannedMove]:
    """The plan of each move, in the order of ``moves``.

    ``directories``: those of the brokers for which a move names one; a broker that did not show its
    directories is missing.
    """
    partitions = _partitions(known)
    live = {int(broker.node_id) for broker in known.brokers}
    plans = []
    for move in moves:
        partition = partitions.get(move.name)
        under_way = (ongoing or {}).get(move.name)
        adding = () if under_way is None else under_way.adding
        current = () if partition is None else tuple(map(int, partition.replica_nodes))
        reason = (
            "there is no such partition"
            if partition is None
            else _impossible(move, current, live) or _without_directory(move, directories or {})
        )
        before = tuple(broker for broker in current if broker not in adding)
        plans.append(PlannedMove(*move.name, move.replicas, before, reason, move.log_dirs))
    return plans


def _impossible(move: Move, current: Replicas, live: set[int]) -> str | None:
    if len(set(move.replicas)) != len(move.replicas):
        return "a broker is named twice"
    # A replica that stays may be offline; the broker of a new one must be alive to copy the log.
    if dead := [broker for broker in move.replicas if broker not in live | set(current)]:
        ids = ", ".join(map(str, dead))
        return f"broker {ids} is not alive" if len(dead) == 1 else f"brokers {ids} are not alive"
    return None


def _without_directory(move: Move, directories: Directories) -> str | None:
    for broker, path in move.directories.items():
        known = directories.get(broker)
        if known is None:
            return f"broker {broker} does not tell its log directories"
        if path not in known:
            return f"broker {broker} has no log directory {path}, but {', '.join(sorted(known))}"
        if known[path] is not None:
            return f"the log directory {path} of broker {broker} is not usable: {known[path]}"
    return None


def plan_elections(
    known: MetadataResponse, named: Sequence[NamedPartition] | None, *, is_unclean: bool
) -> list[PlannedElection]:
    """The elections for these partitions; None: for all partitions that need one."""
    partitions = _partitions(known)
    wanted = sorted(partitions) if named is None else named
    live = {int(broker.node_id) for broker in known.brokers}
    plans = []
    for topic, partition in wanted:
        outcome = _election(
            partitions.get(NamedPartition(topic, partition)), live, is_unclean=is_unclean
        )
        plans.append(PlannedElection(topic, partition, *outcome))
    return plans if named is not None else [p for p in plans if p.reason != _NOT_NEEDED]


_NOT_NEEDED = "no election needed"


def _election(
    partition: MetadataResponsePartition | None, live: set[int], *, is_unclean: bool
) -> tuple[int, int | None, str | None]:
    if partition is None:
        return -1, None, "there is no such partition"
    leader = int(partition.leader_id)
    replicas = tuple(map(int, partition.replica_nodes))
    in_sync = set(map(int, partition.isr_nodes))
    if is_unclean:
        if leader in live:
            return leader, None, _NOT_NEEDED
        alive = [broker for broker in replicas if broker in live]
        choice = next((broker for broker in alive if broker in in_sync), None)
        if not alive:
            return leader, None, "no replica is alive"
        return leader, choice if choice is not None else alive[0], None
    preferred = replicas[0]
    if leader == preferred:
        return leader, None, _NOT_NEEDED
    if preferred not in live:
        return leader, None, f"the preferred leader {preferred} is not alive"
    if preferred not in in_sync:
        return leader, None, f"the preferred leader {preferred} is not in sync"
    return leader, preferred, None


def _partitions(known: MetadataResponse) -> dict[NamedPartition, MetadataResponsePartition]:
    return {
        NamedPartition(str(topic.name), int(partition.partition_index)): partition
        for topic in known.topics
        if topic.error_code is ErrorCode.none
        for partition in topic.partitions
    }
