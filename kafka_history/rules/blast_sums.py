"""What followed from each departure, summed up over all partitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kafka_history.rules.blast_radius import DARK, MOVE, SHRINK, DepartureChange, ended_epochs
from kafka_history.rules.departures import Departure
from kafka_history.rules.tenures import Tenure


class BlastRadius(NamedTuple):
    """A departure, and what it changed."""

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
    """The sum of the windows that have ended."""
    first_ms: int | None
    last_ms: int | None
    controller_epoch: int | None
    """Of the tenure that it ended."""


def blast_radius(
    gone: Iterable[Departure], changes: Iterable[DepartureChange], held: Sequence[Tenure]
) -> Iterator[BlastRadius]:
    """Each departure; ``changes``: what departures changed of any partition."""
    by_departure: defaultdict[tuple[int, int], list[DepartureChange]] = defaultdict(list)
    for change in changes:
        by_departure[change.broker, change.begun_ms].append(change)
    known = list(dict.fromkeys(gone))
    ended = ended_epochs(known, held)
    for lost in known:
        found = by_departure[lost.broker, lost.begun_ms]
        times = [change.change_ms for change in found]
        yield BlastRadius(
            *lost,
            partitions=len({(change.topic, change.partition) for change in found}),
            topics=len({change.topic for change in found}),
            leader_moves=sum(change.what == MOVE for change in found),
            isr_shrinks=sum(change.what == SHRINK for change in found),
            leaderless=sum(change.what == DARK for change in found),
            leaderless_ms=sum(change.lasted_ms for change in found),
            first_ms=min(times, default=None),
            last_ms=max(times, default=None),
            controller_epoch=ended.get(lost),
        )
