"""Log directories that failed: when, where, why, and which partitions went offline with them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.texts import names, shown

CAUSE: Final = "logdir-failure-cause"
HALT: Final = "logdir-halt"
LIFE: Final = "server-life"
FAILURES: Final = frozenset({"logdir-stopping", HALT, "logdir-partitions"})
KINDS: Final = FAILURES | {CAUSE, LIFE}
APART_MS: Final = 60_000
"""Lines of one process about a directory further apart than this are about two failures."""
NEAR_MS: Final = 10_000
"""The error that made a directory fail is logged within this time of the failure."""
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
    """The message of the error that made it fail; None: not known."""
    partitions: list[str]
    is_last: bool
    """Whether the broker halted, because no directory was left."""
    file: str
    line: int


def log_dir_failures(events: Iterable[Event]) -> Iterator[FailedLogDir]:
    """Every failure; ``events`` must be in order and hold at least those of ``KINDS``."""
    starts: Counter[int] = Counter()
    lives: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events:
        broker = event.broker_id
        if broker is not None and event.kind in KINDS:
            starts[broker] += event.kind == LIFE and event.ends_with("starting")
            lives[broker, starts[broker]].append(event)
    for (broker, _), life in lives.items():
        failures: defaultdict[str, list[list[Event]]] = defaultdict(list)
        for event in life:
            named = _DIRECTORY.search(event.text or "") if event.kind in FAILURES else None
            if named is not None:
                of_dir = failures[named[1]]
                if not of_dir or event.time_ms - of_dir[-1][-1].time_ms > APART_MS:
                    of_dir.append([])
                of_dir[-1].append(event)
        for directory, of_dir in failures.items():
            for lines in of_dir:
                yield _failure(broker, directory, lines, life)


def _failure(
    broker: int, directory: str, lines: Sequence[Event], life: Iterable[Event]
) -> FailedLogDir:
    at_ms = lines[0].time_ms
    halts = (event.time_ms - lines[-1].time_ms for event in life if event.kind == HALT)
    near = [
        (cause.time_ms, _reason(cause) or "", cause.file, cause.line)
        for cause in life
        if cause.kind == CAUSE and abs(cause.time_ms - at_ms) <= NEAR_MS
    ]
    cause_ms, reason, file, line = min(near, default=(at_ms, None, lines[0].file, lines[0].line))
    partitions = {name for event in lines for name in _partitions(event)}
    return FailedLogDir(
        broker=broker,
        at_ms=min(at_ms, cause_ms),
        dir=directory,
        reason=reason,
        partitions=sorted(partitions),
        is_last=any(0 <= later_ms <= NEAR_MS for later_ms in halts),
        file=file,
        line=line,
    )


def _reason(cause: Event) -> str | None:
    """The message of the exception, or the line's text if there is none."""
    message = cause.exception_message
    return shown(cause.text) if message is None else message


def _partitions(event: Event) -> list[str]:
    listed = _PARTITIONS.search(event.text or "") if event.kind == "logdir-partitions" else None
    return [] if listed is None else names(listed[1])
