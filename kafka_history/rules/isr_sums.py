"""Changes of in-sync replicas, summed up by broker and by time."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafka_history.rules.isr_changes import EXPAND, SHRINK


class CountedChange(NamedTuple):
    """The fields of an :class:`.isr_changes.InSyncChange` that sums need; rows may be very many."""

    broker: int
    topic: str
    partition: int
    at_ms: int
    change: str


class IsrSums(NamedTuple):
    """How often one broker left and joined in-sync replicas."""

    broker: int
    shrinks: int
    expands: int
    partitions: int
    flaps: int
    """Number of partitions whose ISR it left more than once."""


class IsrHeat(NamedTuple):
    """How often one broker left in-sync replicas in one step of time."""

    broker: int
    at_ms: int
    """The beginning of the step."""
    shrinks: int


def isr_sums(changes: Iterable[CountedChange]) -> Iterator[IsrSums]:
    """The sums of each broker."""
    found: defaultdict[int, defaultdict[tuple[str, int], Counter[str]]]
    found = defaultdict(lambda: defaultdict(Counter))
    for each in changes:
        found[each.broker][each.topic, each.partition][each.change] += 1
    for broker, partitions in sorted(found.items()):
        counts = partitions.values()
        yield IsrSums(
            broker,
            sum(count[SHRINK] for count in counts),
            sum(count[EXPAND] for count in counts),
            len(partitions),
            sum(count[SHRINK] > 1 for count in counts),
        )


def isr_heat(changes: Iterable[CountedChange], step_ms: int) -> Iterator[IsrHeat]:
    """The number of shrinks of each broker in each step of ``step_ms``."""
    counts = Counter(
        (each.broker, each.at_ms // step_ms * step_ms) for each in changes if each.change == SHRINK
    )
    for (broker, at_ms), shrinks in counts.items():
        yield IsrHeat(broker, at_ms, shrinks)
