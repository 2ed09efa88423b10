"""Lines that stand in two files: what a broker prints goes to ``server.log`` and to its console.

``kafkaServer.out``, ``console.log`` or what ``kubectl logs`` saved repeat ``server.log``, whole or
in part, and under rotated names in other pieces.  Counting both would report every death twice.  So
of lines that are equal, of one broker and of one millisecond, but from several files, one is kept.

Our brokers write a state change twice, as a line of ``state-change.log`` and as a record of
``state-changes.jsonl``: these two have different texts, and equal columns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event

_OWN_FILES: Final = re.compile(r"(server|controller|state-change|log-cleaner|kafka-[a-z]+)\.log")
"""The names that Kafka's own configuration gives: of equal lines theirs is the evidence."""

STATE_CHANGE_LOGGER: Final = "state.change.logger"
CHANGE_COLUMNS: Final = ("kind", "topic", "partition", "replica", "peer", "to_state")
"""In which a line and a record about one state change are equal."""

_Said: TypeAlias = tuple[object, ...]


def overlapping_files(events: Iterable[Event]) -> frozenset[str]:
    """The files that may repeat others.

    They are of one broker, and some logger speaks in two of them at the same time; in logs that are
    there once, a logger has one file at a time.
    """
    spans: defaultdict[tuple[int | None, str], dict[str, tuple[int, int]]] = defaultdict(dict)
    for event in events:
        if event.logger is not None:
            files = spans[event.broker_id, event.logger]
            begun_ms, _ = files.get(event.file, (event.time_ms, 0))
            files[event.file] = begun_ms, event.time_ms
    return frozenset(
        file
        for files in spans.values()
        for (file, (from_ms, to_ms)), (_, other) in permutations(files.items(), 2)
        if from_ms <= other[1] and other[0] <= to_ms
    )


class Copies(NamedTuple):
    """A file that repeats another one."""

    file: str
    records: int
    """So many of its records are left out."""
    of: str
    """The first file that has them."""
    line: int
    """The first of them."""


def without_copies(events: Sequence[Event]) -> Iterator[Event]:
    """The events, which are in order, without those that another file has as well."""
    files = overlapping_files(events)
    kept = {id(same[0]) for same in _repeated(events, files)}
    return (event for event in events if event.file not in files or id(event) in kept)


def copies(events: Sequence[Event]) -> Iterator[Copies]:
    """What was left out of the events, which are in order, by file."""
    found: defaultdict[str, list[tuple[str, int]]] = defaultdict(list)
    for first, *others in _repeated(events, overlapping_files(events)):
        for event in others:
            found[event.file].append((first.file, event.line))
    for file, places in sorted(found.items()):
        yield Copies(
            file, len(places), min(of for of, _ in places), min(line for _, line in places)
        )


def _repeated(events: Iterable[Event], files: frozenset[str]) -> Iterator[list[Event]]:
    """Each line of these files with its copies, the best evidence first."""
    # A file may say the same twice in a millisecond, and means it twice.
    times: defaultdict[tuple[_Said, str], int] = defaultdict(int)
    same: defaultdict[tuple[_Said, int], list[Event]] = defaultdict(list)
    for event in events:
        if event.file in files:
            said = _said(event)
            times[said, event.file] += 1
            same[said, times[said, event.file]].append(event)
    return (sorted(each, key=_rank) for each in same.values())


def _said(event: Event) -> _Said:
    """Lines that are equal in this are the same line."""
    same = event.broker_id, event.time_ms, event.level, event.logger, event.exception_message
    if event.logger == STATE_CHANGE_LOGGER and event.kind is not None:
        return *same, tuple(getattr(event, name) for name in CHANGE_COLUMNS)
    return *same, event.text


def _rank(event: Event) -> tuple[bool, str]:
    return _OWN_FILES.match(event.file.rpartition("/")[2]) is None, event.file
