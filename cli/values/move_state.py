"""The state of each move in a plan (done, in progress, not as planned), and the next moves.

Pure.  The state is read only from the cluster.  So an interrupted plan can be continued, whichever
command started its moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from zkcontroller_cli.values.moves import Move, NamedPartition

Replicas = tuple[int, ...]
_SHOWN_DIRS: Final = 3


class MoveStatus(StrEnum):
    """The state of one move of a plan."""

    DONE = "done"
    IN_PROGRESS = "in_progress"
    NOT_AS_PLANNED = "not_as_planned"
    """The replicas are others and are not being moved: not started yet, or cancelled."""
    ELSEWHERE = "moving_elsewhere"
    """The partition is being moved to other replicas than planned."""
    MISSING = "missing"
    """There is no such partition."""


class OngoingMove(NamedTuple):
    """A partition under reassignment, as the controller lists it."""

    replicas: Replicas
    """The new replicas first, then those that will be removed."""
    adding: Replicas
    removing: Replicas

    @property
    def target(self) -> Replicas:
        """The replicas after the move."""
        return tuple(broker for broker in self.replicas if broker not in self.removing)


class Placement(NamedTuple):
    """The log directory of a replica on its broker."""

    log_dir: str | None
    """None if the broker has no such replica, or did not show its directories."""
    future_log_dir: str | None = None
    reason: str | None = None
    """Why the directory is not known; None if it is."""


class MoveProgress(NamedTuple):
    """One move of a plan, its state, and the current replicas."""

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
    """The state of every move, in the order of the plan."""
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
    """The state of a move by log directories: whether the replicas are in those of the plan."""
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
    """The moves to start now, so that at most ``at_once`` are in progress (None: all).

    ``left_out``: partitions whose moves are not started (again).
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
    """The number of moves in each state, as text."""
    counts = {
        status: sum(each.status is status for each in progress)
        for status in MoveStatus
    }  # fmt: skip
    parts = [f"{count} {status.replace('_', ' ')}" for status, count in counts.items() if count]
    return f"{len(progress)} moves: {', '.join(parts)}" if parts else "no moves"


class MoveEstimate(NamedTuple):
    """The bytes that a plan copies."""

    total_bytes: int
    received: dict[int, int]
    """By broker, the bytes that it receives."""
    sent: dict[int, int]
    unknown: int
    """Partitions whose size is not known."""

    def seconds_at(self, rate: int) -> float:
        """The least seconds that the plan takes if a broker sends and receives ``rate`` bytes/s."""
        return max((*self.received.values(), *self.sent.values()), default=0) / rate


def estimate(
    wanted: Mapping[NamedPartition, Replicas],
    current: Current,
    leaders: Mapping[NamedPartition, int],
    sizes: Mapping[NamedPartition, int],
) -> MoveEstimate:
    """The bytes to copy: each new replica copies the whole log from the partition's leader."""
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
    """By broker that receives more bytes than it has room for: the bytes received, and the room."""
    return {
        broker: (size, usable[broker])
        for broker, size in sorted(received.items())
        if broker in usable and size > usable[broker]
    }
