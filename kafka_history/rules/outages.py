"""Sums over windows without a leader, and over the changes of each partition."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from typing import NamedTuple

from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.partition_states import State


class Outage(NamedTuple):
    """The fields of a :class:`.dead_leaders.Window` that sums need; there may be very many."""

    topic: str
    partition: int
    from_ms: int
    noticed_ms: int | None
    to_ms: int | None


class OutageSums(NamedTuple):
    """Sums over windows without a leader; fields of time are None without any window."""

    windows: int
    open: int
    partitions: int
    p50_ms: int | None
    p99_ms: int | None
    max_ms: int | None
    partition_seconds: float | None
    noticed_after_ms: int | None
    """The longest time until the controller noticed a window; None: it noticed none."""


class PartitionSums(NamedTuple):
    """How often a partition changed, and how long it had no leader, open windows included."""

    topic: str
    partition: int
    changes: int
    leader_changes: int
    leaderless_ms: int


def outage_sums(outages: Sequence[Outage], end_ms: int) -> OutageSums:
    """The sums over the windows; an open window counts until ``end_ms``."""
    spans = sorted(max(span_ms(each, end_ms), 0) for each in outages)
    late = [each.noticed_ms - each.from_ms for each in outages if each.noticed_ms is not None]

    def percentile(share: float) -> int | None:
        return spans[max(ceil(share * len(spans)) - 1, 0)] if spans else None

    return OutageSums(
        windows=len(spans),
        open=sum(each.to_ms is None for each in outages),
        partitions=len({(each.topic, each.partition) for each in outages}),
        p50_ms=percentile(0.5),
        p99_ms=percentile(0.99),
        max_ms=max(spans, default=None),
        partition_seconds=sum(spans) / 1000 if spans else None,
        noticed_after_ms=max(late, default=None),
    )


def partition_sums(
    states: Sequence[State], windows: Iterable[Window], end_ms: int
) -> Iterator[PartitionSums]:
    """The partition's time without a leader, summed; yields nothing if it has no known state."""
    if states:
        yield PartitionSums(
            states[0].topic,
            states[0].partition,
            len(states),
            sum(_is_led_by_another(each) for each in states),
            sum(span_ms(each, end_ms) for each in windows),
        )


def span_ms(window: Outage | Window, end_ms: int) -> int:
    """The duration of a window in ms; an open window counts until ``end_ms``."""
    return (end_ms if window.to_ms is None else window.to_ms) - window.from_ms


def _is_led_by_another(state: State) -> bool:
    leader, before = state.leader, state.previous_leader
    return leader is not None and before is not None and leader != before
