"""Log directories that failed: when, where, why, and which partitions went offline with them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.texts import names, shown

CAUSE: Final = "logdir-failure-cause"
FAILURES: Final = frozenset({"logdir-stopping", "logdir-halt", "logdir-partitions"})
APART_MS: Final = 60_000
"""Lines about a directory further apart than this are about two failures."""
NEAR_MS: Final = 10_000
"""The error that made a directory fail is this near to the failure."""
_DIRECTORY: Final = re.compile(
    r"(?:in dir|log dir(?:ectory)?|because dir) (\S*?[^\s.])\.?(?:\s|$)", re.ASCII
)
_PARTITIONS: Final = re.compile(
    r"partitions (\S+?) (?:and|because|are offline)", re.ASCII | re.IGNORECASE
)


class FailedLogDir(NamedTuple):
    """A failure of one directory."""

    broker: int
    at_ms: int
    dir: str
    reason: str | None
    """The error's own words; None: not known."""
    partitions: list[str]
    file: str
    line: int


def log_dir_failures(events: Sequence[Event]) -> Iterator[FailedLogDir]:
    """Every failure; ``events``, in order: at least those of ``FAILURES`` and ``CAUSE``."""
    failures: defaultdict[tuple[int, str], list[list[Event]]] = defaultdict(list)
    for event in events:
        named = _DIRECTORY.search(event.text or "") if event.kind in FAILURES else None
        if named is None or event.broker_id is None:
            continue
        of_dir = failures[event.broker_id, named[1]]
        if not of_dir or event.time_ms - of_dir[-1][-1].time_ms > APART_MS:
            of_dir.append([])
        of_dir[-1].append(event)
    causes = [event for event in events if event.kind == CAUSE]
    for (broker, directory), of_dir in failures.items():
        for lines in of_dir:
            yield _failure(broker, directory, lines, causes)


def _failure(
    broker: int, directory: str, lines: Sequence[Event], causes: Sequence[Event]
) -> FailedLogDir:
    at_ms = lines[0].time_ms
    near = [
        (cause.time_ms, _reason(cause) or "", cause.file, cause.line)
        for cause in causes
        if cause.broker_id == broker and abs(cause.time_ms - at_ms) <= NEAR_MS
    ]
    cause_ms, reason, file, line = min(near, default=(at_ms, None, lines[0].file, lines[0].line))
    partitions = {name for event in lines for name in _partitions(event)}
    return FailedLogDir(
        broker, min(at_ms, cause_ms), directory, reason, sorted(partitions), file, line
    )


def _reason(cause: Event) -> str | None:
    """The error's own words."""
    message = cause.exception_message
    return shown(cause.text) if message is None else message


def _partitions(event: Event) -> list[str]:
    listed = _PARTITIONS.search(event.text or "") if event.kind == "logdir-partitions" else None
    return [] if listed is None else names(listed[1])
