"""Lines that stand in two files: what a broker prints goes to ``server.log`` and to its console.

``kafkaServer.out``, ``console.log`` or what ``kubectl logs`` saved repeat ``server.log``, whole or
in part, and under rotated names in other pieces.  Counting both would report every death twice.  So
of lines that are equal, of one broker and of one millisecond, but from several files, one is kept.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations
from typing import Final, TypeAlias

from kafka_history.rules.event import Event

_OWN_FILES: Final = re.compile(r"(server|controller|state-change|log-cleaner|kafka-[a-z]+)\.log")
"""The names that Kafka's own configuration gives: of equal lines theirs is the evidence."""

_Said: TypeAlias = tuple[int | None, int, str | None, str | None, str | None, str | None]


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


def without_copies(events: Sequence[Event]) -> Iterator[Event]:
    """The events, which are in order, without those that another file has as well."""
    files = overlapping_files(events)
    # A file may say the same twice in a millisecond, and means it twice.
    times: defaultdict[tuple[_Said, str], int] = defaultdict(int)
    kept: dict[tuple[_Said, int], Event] = {}
    for event in events:
        if event.file in files:
            said = _said(event)
            times[said, event.file] += 1
            key = said, times[said, event.file]
            kept[key] = min(event, kept.get(key, event), key=_rank)
    chosen = {id(event) for event in kept.values()}
    return (event for event in events if event.file not in files or id(event) in chosen)


def _said(event: Event) -> _Said:
    """Lines that are equal in this are the same line."""
    return (
        event.broker_id,
        event.time_ms,
        event.level,
        event.logger,
        event.text,
        event.exception_message,
    )


def _rank(event: Event) -> tuple[bool, str]:
    return _OWN_FILES.match(event.file.rpartition("/")[2]) is None, event.file
