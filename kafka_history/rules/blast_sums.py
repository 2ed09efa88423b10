"""The changes that each departure caused, summed over all partitions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka_history.rules.blast_radius import DARK, MOVE, SHRINK, DepartureChange, ended_epochs
from kafka_history.rules.departures import Departure
from kafka_history.rules.tenures import Tenure


class BlastSums(NamedTuple):
    """The numbers of changes that one departure caused."""

    broker: int
    begun_ms: int
    partitions: int = 0
    topics: int = 0
    leader_moves: int = 0
    isr_shrinks: int = 0
    leaderless: int = 0
    leaderless_ms: int = 0
    """The sum over the windows without a leader that have ended."""
    first_ms: int | None = None
    last_ms: int | None = None


class BlastRadius(NamedTuple):
    """A departure, its :class:`BlastSums`, and the controller epoch it ended (None: none)."""

    broker: int
    begun_ms: int
    at_ms: int
    how: str
    since_ms: int | None
    until_ms: int | None
    back_ms: int | None
    file: str | None
    line: int | None
    partitions: int
    topics: int
    leader_moves: int
    isr_shrinks: int
    leaderless: int
    leaderless_ms: int
    first_ms: int | None
    last_ms: int | None
    controller_epoch: int | None


def blast_sums(changes: Sequence[DepartureChange]) -> Iterator[BlastSums]:
    """The sums for one departure; ``changes``: all its changes, at least one."""
    times = [change.change_ms for change in changes]
    yield BlastSums(
        changes[0].broker,
        changes[0].begun_ms,
        partitions=len({(change.topic, change.partition) for change in changes}),
        topics=len({change.topic for change in changes}),
        leader_moves=sum(change.what == MOVE for change in changes),
        isr_shrinks=sum(change.what == SHRINK for change in changes),
        leaderless=sum(change.what == DARK for change in changes),
        leaderless_ms=sum(change.lasted_ms for change in changes),
        first_ms=min(times),
        last_ms=max(times),
    )


def blast_radius(
    gone: Iterable[Departure], sums: Iterable[BlastSums], held: Sequence[Tenure]
) -> Iterator[BlastRadius]:
    """Each departure of a broker or a log directory, with the sums of the changes it caused."""
    by_departure = {(each.broker, each.begun_ms): each for each in sums}
    known = list(dict.fromkeys(gone))
    ended = ended_epochs(known, held)
    for lost in known:
        key = lost.broker, lost.begun_ms
        sums_of_it = by_departure.get(key, BlastSums(*key))
        epoch = ended.get(lost)
        yield BlastRadius(**lost._asdict() | sums_of_it._asdict(), controller_epoch=epoch)
