"""The progress of reassignments in bytes, their rate, and why one makes no progress."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from zkcontroller_cli.console.options import Bootstrap
from zkcontroller_cli.console.quantities import duration_text, size_text
from zkcontroller_cli.moving.moves_reading import MovesReading
from zkcontroller_cli.screen.brokers import BROKER_S, BrokerReader, partitions_of
from zkcontroller_cli.screen.model import Reading, ReassignmentProgress, moves
from zkcontroller_cli.values.moves import NamedPartition
from zkcontroller_cli.wire.admin import Ongoing
from zkcontroller_cli.wire.log_dirs import readable_log_dirs
from zkcontroller_cli.wire.requests import Deadline
from zkcontroller_cli.znodes.session import now_ms

NO_LEADER: Final = -1
NO_BYTES_S: Final = 15.0
"""Seconds without new bytes after which a move counts as stalled.

A throttled follower fetches in large pieces with long pauses.
"""


class MoveReport(NamedTuple):
    """The progress of a partition's reassignment; None for numbers that are not known."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """The replicas after the move."""
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    in_sync_count: int
    """The number of adding replicas that are in sync."""
    copied_bytes: int | None
    total_bytes: int | None
    bytes_per_s: float | None
    remaining_ms: int | None
    stalled: str | None
    """Why the move makes no progress; None if no reason is visible."""

    def row(self) -> dict[str, Any]:
        """The row that ``reassign status`` shows."""
        return self._asdict()


class Obstacles(NamedTuple):
    """The visible reasons why moves may make no progress."""

    live: frozenset[int]
    silent: Mapping[int, str]
    """Live target brokers that do not describe their logs, and why."""
    without_log_dir: frozenset[int]
    """Brokers whose log directories have all failed."""


def report_of(
    move: ReassignmentProgress,
    leader: int,
    in_sync: Sequence[int],
    obstacles: Obstacles,
    *,
    seconds: float | None = None,
) -> MoveReport:
    """The report of one move; ``seconds``: since the look before, for stalls."""
    removing = set(move.removing_replicas)
    return MoveReport(
        move.topic,
        move.partition,
        tuple(broker for broker in move.replicas if broker not in removing),
        move.adding_replicas,
        move.removing_replicas,
        move.in_sync,
        move.copied_bytes,
        move.total_bytes,
        None if move.bytes_per_s is None else round(move.bytes_per_s, 1),
        None if move.remaining_s is None else round(move.remaining_s * 1000),
        _stalled(move, leader, set(in_sync), obstacles, seconds),
    )


def _stalled(
    move: ReassignmentProgress,
    leader: int,
    in_sync: Set[int],
    obstacles: Obstacles,
    seconds: float | None,
) -> str | None:
    behind = [broker for broker in move.adding_replicas if broker not in in_sync]
    if leader == NO_LEADER:
        return "the partition has no leader to copy from"
    if leader not in obstacles.live:
        return f"its leader, broker {leader}, is not alive"
    for broker in behind:
        if broker not in obstacles.live:
            return f"target broker {broker} is not alive"
        if broker in obstacles.without_log_dir:
            return f"target broker {broker} has no log directory left that works"
        if broker in obstacles.silent:
            return f"target broker {broker} does not answer: {obstacles.silent[broker]}"
    if behind and seconds is not None and seconds >= NO_BYTES_S and move.bytes_per_s == 0:
        listed = ", ".join(map(str, behind))
        return f"no bytes came to broker {listed} for {seconds:.1f} s"
    return None


def progress_line(reports: Sequence[MoveReport]) -> str:
    """One line with the bytes that all moves have copied, their rate, and the time left."""
    known = [each for each in reports if each.total_bytes is not None]
    if not known:
        return ""
    copied = sum(each.copied_bytes or 0 for each in known)
    total = sum(each.total_bytes or 0 for each in known)
    line = f"; under way: {size_text(copied)} of {size_text(total)}"
    rates = [each.bytes_per_s for each in known if each.bytes_per_s is not None]
    if not rates:
        return line
    rate = sum(rates)
    line += f" at {size_text(rate)}/s"
    return line + (f", {duration_text((total - copied) / rate * 1000)} left" if rate else "")


def stalled_moves(reports: Sequence[MoveReport]) -> list[str]:
    """A line for each move that makes no progress, with the reason."""
    return [f"{e.topic}-{e.partition}: {e.stalled}" for e in reports if e.stalled is not None]


@dataclass
class ProgressReader:
    """Reads the progress of moves; from the second reading on with their rates."""

    bootstrap: Bootstrap
    _then: Reading | None = None

    async def read(
        self, reading: MovesReading, names: Set[NamedPartition] | None = None
    ) -> list[MoveReport]:
        """The report of each move in ``reading``; only of the partitions ``names`` if given."""
        listed = [
            each
            for each in reading.listed
            if (name := NamedPartition(each.topic, each.partition)) in reading.partitions
            and (names is None or name in names)
        ]
        views = partitions_of(reading.known, listed)
        views = {(e.topic, e.partition): views[e.topic, e.partition] for e in listed}
        asked: dict[int, list[tuple[str, int]]] = {}
        for each in listed:
            name = NamedPartition(each.topic, each.partition)
            for broker in {reading.leaders[name], *each.adding_replicas} & reading.live:
                asked.setdefault(broker, []).append(name)
        brokers = BrokerReader(reading.addresses, self.bootstrap.security)
        _, obstacles = await asyncio.gather(
            brokers.read_moving(asked), self._obstacles(reading, listed)
        )
        now = Reading(now_ms(), partitions=views, moving_bytes=brokers.reading.moving_bytes)
        then, self._then = self._then, now
        seconds = None if then is None else (now.at_ms - then.at_ms) / 1000
        return [
            report_of(
                move,
                reading.leaders[NamedPartition(move.topic, move.partition)],
                _isr_of(reading, NamedPartition(move.topic, move.partition)),
                obstacles,
                seconds=seconds,
            )
            for move in moves(now, then)
        ]

    async def _obstacles(self, reading: MovesReading, listed: Sequence[Ongoing]) -> Obstacles:
        targets = {broker for each in listed for broker in each.adding_replicas}
        found = await readable_log_dirs(
            reading.addresses,
            Deadline(BROKER_S),
            self.bootstrap.security,
            dict.fromkeys(sorted(targets & reading.live), ()),
        )
        working = {each.broker_id for each in found.log_dirs if each.error is None}
        described = {each.broker_id for each in found.log_dirs}
        return Obstacles(reading.live, found.unread, frozenset(described - working))


def _isr_of(reading: MovesReading, name: NamedPartition) -> tuple[int, ...]:
    return tuple(map(int, reading.partitions[name].isr_nodes))
