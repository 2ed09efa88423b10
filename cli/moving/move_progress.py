"""How far moves under way are, in bytes, how fast they are, and why one does not move on."""

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
"""So long no bytes must come before a move is called stalled: throttled ones come in large pieces.
"""


class MoveReport(NamedTuple):
    """A partition under reassignment, and how far it is; None where that is not known."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    """After the move."""
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    in_sync_count: int
    """So many of the adding replicas are in sync."""
    copied_bytes: int | None
    total_bytes: int | None
    bytes_per_s: float | None
    remaining_ms: int | None
    stalled: str | None
    """Why it does not move on."""

    def row(self) -> dict[str, Any]:
        """As ``reassign status`` shows it."""
        return self._asdict()


class Obstacles(NamedTuple):
    """What keeps moves from going on, as far as it can be seen."""

    live: frozenset[int]
    silent: Mapping[int, str]
    """Live brokers that do not describe their logs, and why."""
    without_log_dir: frozenset[int]
    """Brokers of which every log directory has failed."""


def report_of(
    move: ReassignmentProgress,
    leader: int,
    in_sync: Sequence[int],
    obstacles: Obstacles,
    *,
    seconds: float | None = None,
) -> MoveReport:
    """One move; ``seconds``: so long ago was the earlier reading that its rate is measured by."""
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
    """What the moves under way have copied, how fast, and what time they need, in one line."""
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
    """The moves that do not go on, each with its reason."""
    return [f"{e.topic}-{e.partition}: {e.stalled}" for e in reports if e.stalled is not None]


@dataclass
class ProgressReader:
    """Reads how far moves are; from the second reading on it knows their rates."""

    bootstrap: Bootstrap
    _then: Reading | None = None

    async def read(
        self, reading: MovesReading, names: Set[NamedPartition] | None = None
    ) -> list[MoveReport]:
        """Every move under way whose topic is in the reading, or of those partitions alone."""
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
