"""How far the moves of a plan are: done, in progress, or not as planned; and what is next.

Pure.  The state of a plan is in the cluster alone: a plan that was interrupted goes on where the
cluster is, whatever has begun it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from zkcontroller_cli.values.moves import Move, NamedPartition

Replicas = tuple[int, ...]
_SHOWN_DIRS: Final = 3


class MoveStatus(StrEnum):
    """Where one move of a plan is."""

    DONE = "done"
    IN_PROGRESS = "in_progress"
    NOT_AS_PLANNED = "not_as_planned"
    """Nothing is under way, and the replicas are others: it has not begun, or was cancelled."""
    ELSEWHERE = "moving_elsewhere"
    """It is being moved to other replicas."""
    MISSING = "missing"
    """There is no such partition."""


class OngoingMove(NamedTuple):
    """A partition under reassignment, as the controller lists it."""

    replicas: Replicas
    """The new ones first, then those that will be removed."""
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas after the move."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class Placement(NamedTuple):
    """Where a replica is on its broker."""

    log_dir: str | None
    """None: the broker has no such replica, or does not tell."""
    future_log_dir: str | None = None
    reason: str | None = None
    """Why it is not known."""


class MoveProgress(NamedTuple):
    """One move of a plan, and how far it is."""

    move: Move
    status: MoveStatus
    current: Replicas
    reason: str | None = None


Current = Mapping[NamedPartition, Replicas]
Ongoing = Mapping[NamedPartition, OngoingMove]
Placements = Mapping[tuple[int, NamedPartition], Placement]


def progress_of(
    moves: Sequence[Move], current: Current, ongoing: Ongoing, placements: Placements
) -> list[MoveProgress]:
    """Every move of the plan, in its order."""
    return [_progress(move, current, ongoing, placements) for move in moves]


def _progress(
    move: Move, current: Current, ongoing: Ongoing, placements: Placements
) -> MoveProgress:
    now = current.get(move.name)
    under_way = ongoing.get(move.name)
    if now is None:
        return MoveProgress(move, MoveStatus.MISSING, (), "there is no such partition")
    if under_way is not None and under_way.target == move.replicas:
        return MoveProgress(move, MoveStatus.IN_PROGRESS, now)
    if under_way is not None:
        where = ",".join(map(str, under_way.target))
        return MoveProgress(move, MoveStatus.ELSEWHERE, now, f"it is being moved to {where}")
    if now != move.replicas:
        listed = ",".join(map(str, now))
        return MoveProgress(
            move, MoveStatus.NOT_AS_PLANNED, now, f"it is on {listed}, and nothing moves it"
        )
    status, reason = _in_directories(move, placements)
    return MoveProgress(move, status, now, reason)


def _in_directories(move: Move, placements: Placements) -> tuple[MoveStatus, str | None]:
    """Whether the replicas are in the log directories that the plan names."""
    moving, wrong = [], []
    for broker, path in move.directories.items():
        placed = placements.get((broker, move.name), Placement(None))
        if placed.future_log_dir == path:
            moving.append(f"the replica on {broker} is being moved to {path}")
        elif placed.future_log_dir is not None:
            wrong.append(
                f"the replica on {broker} is being moved to {placed.future_log_dir}, not to {path}"
            )
        elif placed.log_dir != path:
            where = placed.log_dir or placed.reason or "in no live log directory"
            wrong.append(f"the replica on {broker} is not in {path}: {where}")
    if wrong:
        return MoveStatus.NOT_AS_PLANNED, "; ".join(wrong[:_SHOWN_DIRS])
    if moving:
        return MoveStatus.IN_PROGRESS, "; ".join(moving[:_SHOWN_DIRS])
    return MoveStatus.DONE, None


def next_moves(
    progress: Sequence[MoveProgress],
    at_once: int | None,
    *,
    left_out: frozenset[NamedPartition] = frozenset(),
) -> list[Move]:
    """The moves that may begin now, so that no more than ``at_once`` are in progress.

    ``left_out``: partitions that are not begun (again).
    """
    waiting = [
        each.move
        for each in progress
        if each.status in (MoveStatus.NOT_AS_PLANNED, MoveStatus.ELSEWHERE)
        and each.move.name not in left_out
    ]
    if at_once is None:
        return waiting
    under_way = sum(each.status is MoveStatus.IN_PROGRESS for each in progress)
    return waiting[: max(0, at_once - under_way)]


def counted(progress: Sequence[MoveProgress]) -> str:
    """How many moves are where, in words."""
    counts = {
        status: sum(each.status is status for each in progress)
        for status in MoveStatus
    }  # fmt: skip
    parts = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count]
    return f"{len(progress)} moves: {', '.join(parts)}" if parts else "no moves"


class MoveEstimate(NamedTuple):
    """What a plan copies."""

    total_bytes: int
    received: dict[int, int]
    """By broker."""
    sent: dict[int, int]
    unknown: int
    """Partitions whose size is not known."""

    def seconds_at(self, rate: int) -> float:
        """The least time it takes if each broker sends, and receives, ``rate`` bytes a second."""
        return max((*self.received.values(), *self.sent.values()), default=0) / rate


def estimate(
    wanted: Mapping[NamedPartition, Replicas],
    current: Current,
    leaders: Mapping[NamedPartition, int],
    sizes: Mapping[NamedPartition, int],
) -> MoveEstimate:
    """What is copied: a partition's bytes go from its leader to each new replica."""
    received: dict[int, int] = {}
    sent: dict[int, int] = {}
    unknown = 0
    for partition, target in wanted.items():
        adding = [broker for broker in target if broker not in current.get(partition, ())]
        size = sizes.get(partition)
        if not adding:
            continue
        if size is None:
            unknown += 1
            continue
        for broker in adding:
            received[broker] = received.get(broker, 0) + size
        leader = leaders.get(partition, -1)
        sent[leader] = sent.get(leader, 0) + size * len(adding)
    return MoveEstimate(sum(received.values()), received, sent, unknown)


def too_full(received: Mapping[int, int], usable: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """By broker that receives more than it has room for: both, in bytes."""
    return {
        broker: (size, usable[broker])
        for broker, size in sorted(received.items())
        if broker in usable and size > usable[broker]
    }
