"""Compares how often things happened in two windows of time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.dead_leaders import Window
from kafka_history.rules.departures import DIRECTORY, Departure
from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State
from kafka_history.rules.tenures import Tenure

Both: TypeAlias = tuple[tuple[int, int], tuple[int, int]]
"""Two windows, each with its start (inclusive) and end (exclusive) in ms."""
_BAD: Final = frozenset({"WARN", "ERROR", "FATAL"})


class Counted(NamedTuple):
    """How often something happened in each of two windows."""

    metric: str
    first: int
    second: int


class CountedLines(NamedTuple):
    """How many lines of one level, kind and exception class are in each of two windows."""

    level: str | None
    kind: str | None
    exception_class: str | None
    is_known: bool
    first: int
    second: int


class WindowChange(NamedTuple):
    """How often something happened in two windows; ``change`` is the second minus the first."""

    metric: str
    first: int
    second: int
    change: int


def counted_lines(events: Iterable[Event], both: Both) -> Iterator[CountedLines]:
    """Counts the lines within the windows, by level, kind and exception class."""
    sums: defaultdict[tuple[str | None, str | None, str | None, bool], list[int]]
    sums = defaultdict(lambda: [0, 0])
    for event in events:
        alike = event.level, event.kind, event.exception_class, event.shape is not None
        for at, (from_ms, to_ms) in enumerate(both):
            if from_ms <= event.time_ms < to_ms:
                sums[alike][at] += 1
    for alike, (first, second) in sums.items():
        yield CountedLines(*alike, first, second)


def counted_changes(
    states: Iterable[State], windows: Iterable[Window], both: Both
) -> Iterator[Counted]:
    """Counts what happened to partitions: leader changes, ISR changes, windows without a leader."""
    happened: list[tuple[str, int, int]] = []
    for state in states:
        if not state.is_deleted and state.previous_leader is not None:
            before, now, at_ms = state.previous_isr, state.isr, state.time_ms
            is_moved = state.leader is not None and state.leader != state.previous_leader
            happened.append(("leader changes", at_ms, int(is_moved)))
            if before is not None and now is not None:
                happened.append(("ISR shrinks", at_ms, len({*before} - {*now})))
                happened.append(("ISR expansions", at_ms, len({*now} - {*before})))
    for window in windows:
        happened.append(("leaderless windows", window.from_ms, 1))
        if window.to_ms is not None:
            lasted_ms = window.to_ms - window.from_ms
            happened.append(("leaderless milliseconds", window.from_ms, lasted_ms))
    return _counted(happened, both)


def summed(counts: Sequence[Counted]) -> Iterator[Counted]:
    """The sum of one metric over partitions."""
    yield Counted(
        counts[0].metric, sum(each.first for each in counts), sum(each.second for each in counts)
    )


def differences(
    changes: Iterable[Counted],
    lines: Iterable[CountedLines],
    held: Iterable[Tenure],
    gone: Iterable[Departure],
    both: Both,
) -> list[WindowChange]:
    """The counts in both windows, the greatest change first; counts of 0 in both are left out.

    ``changes``: from :func:`summed`; ``lines``: from :func:`counted_lines`.
    """
    happened = [("controller elections", each.from_ms, 1) for each in held]
    happened += [("brokers gone", each.at_ms, 1) for each in gone if each.how != DIRECTORY]
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for metric, first, second in (*changes, *_counted(happened, both), *_named(lines)):
        sums[metric][0] += first
        sums[metric][1] += second
    found = [
        WindowChange(metric, first, second, second - first)
        for metric, (first, second) in sums.items()
        if first or second
    ]
    return sorted(found, key=lambda each: (-abs(each.change), each.metric))


def _named(lines: Iterable[CountedLines]) -> Iterator[Counted]:
    for line in lines:
        yield Counted("records", line.first, line.second)
        if not line.is_known:
            yield Counted("unknown records", line.first, line.second)
        if line.level in _BAD:
            thrown = f" {line.exception_class}" if line.exception_class is not None else ""
            metric = f"{line.level} {line.kind or '(unknown line)'}{thrown}"
            yield Counted(metric, line.first, line.second)


def _counted(happened: Iterable[tuple[str, int, int]], both: Both) -> Iterator[Counted]:
    """The sum of each metric in each window; ``happened``: metric, time in ms and amount."""
    sums: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
    for metric, at_ms, amount in happened:
        for at, (from_ms, to_ms) in enumerate(both):
            if from_ms <= at_ms < to_ms:
                sums[metric][at] += amount
    return (Counted(metric, first, second) for metric, (first, second) in sums.items())
