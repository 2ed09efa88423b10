"""Lines that two files contain: a broker writes to ``server.log`` and to its console.

``kafkaServer.out``, ``console.log`` and the output of ``kubectl logs`` repeat ``server.log``, whole
or in part, and rotated at other lines.  Counting both would report each event twice.  So of equal
lines of one broker and one millisecond in several files, only one is kept.

Our brokers write a state change twice: as a line of ``state-change.log`` and as a record of
``state-changes.jsonl``.  These two have different texts but equal columns.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import permutations, zip_longest
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event, in_order

_OWN_FILES: Final = re.compile(r"(server|controller|state-change|log-cleaner|kafka-[a-z]+)\.log")
"""File names of Kafka's own log4j configuration; of equal lines, the one in such a file is kept."""
STATE_CHANGE_LOGGER: Final = "state.change.logger"
CHANGE_COLUMNS: Final = ("kind", "topic", "partition", "replica", "peer", "to_state")
"""The columns that are equal in a line and a record about one state change."""

_Said: TypeAlias = tuple[object, ...]


class LoggerSpan(NamedTuple):
    """The times of the first and last line that a logger of a broker wrote to a file."""

    broker_id: int | None
    logger: str
    file: str
    from_ms: int
    to_ms: int


class CopiedLine(NamedTuple):
    """A line that is left out because another file contains it too."""

    file: str
    line: int
    of: str
    """The file whose line is kept."""


class Copies(NamedTuple):
    """A file that repeats another one."""

    file: str
    records: int
    """How many of its records are left out."""
    of: str
    """The file whose lines are kept; of several, the first by name."""
    line: int
    """The first line that is left out."""


def logger_spans(events: Iterable[Event]) -> Iterator[LoggerSpan]:
    """The span of each logger in each file, given all events in order."""
    spans: dict[tuple[int | None, str, str], tuple[int, int]] = {}
    for event in events:
        if event.logger is not None:
            key = event.broker_id, event.logger, event.file
            spans[key] = spans.get(key, (event.time_ms, 0))[0], event.time_ms
    for (broker, logger, file), (from_ms, to_ms) in spans.items():
        yield LoggerSpan(broker, logger, file, from_ms, to_ms)


def overlapping_files(spans: Iterable[LoggerSpan]) -> frozenset[str]:
    """The files that may repeat others.

    In such files, one logger of a broker wrote to two files at the same time.  Without copies, a
    logger writes to one file at a time.
    """
    by_logger: defaultdict[tuple[int | None, str], list[LoggerSpan]] = defaultdict(list)
    for span in spans:
        by_logger[span.broker_id, span.logger].append(span)
    return frozenset(
        one.file
        for files in by_logger.values()
        for one, other in permutations(files, 2)
        if one.from_ms <= other.to_ms and other.from_ms <= one.to_ms
    )


def copied_lines(events: Iterable[Event]) -> Iterator[CopiedLine]:
    """All but one of each set of equal lines.

    ``events``: at least all those in overlapping files that are equal to one in another file.
    """
    # Equal lines in one file are separate events: match the first with the first, and so on.
    by_file: defaultdict[_Said, dict[str, list[Event]]] = defaultdict(dict)
    for event in in_order(events):
        by_file[_said(event)].setdefault(event.file, []).append(event)
    for files in by_file.values():
        if len(files) == 1:
            continue
        for same in zip_longest(*files.values()):
            first, *others = sorted(filter(None, same), key=_rank)
            for event in others:
                yield CopiedLine(event.file, event.line, first.file)


def copies(lines: Iterable[CopiedLine]) -> Iterator[Copies]:
    """The numbers of lines that are left out, by file."""
    found: defaultdict[str, list[CopiedLine]] = defaultdict(list)
    for line in lines:
        found[line.file].append(line)
    for file, its in found.items():
        yield Copies(file, len(its), min(each.of for each in its), min(each.line for each in its))


def _said(event: Event) -> _Said:
    """The values that are equal in copies of one line."""
    same = event.broker_id, event.time_ms, event.level, event.logger, event.exception_message
    if event.logger == STATE_CHANGE_LOGGER and event.kind is not None:
        return *same, tuple(getattr(event, name) for name in CHANGE_COLUMNS)
    return *same, event.text


def _rank(event: Event) -> tuple[bool, str]:
    return _OWN_FILES.match(event.file.rpartition("/")[2]) is None, event.file
