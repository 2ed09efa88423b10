"""Failed state transitions, folded by fingerprint."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from kafka_history.rules.event import Event
from kafka_history.rules.texts import shown

KINDS: Final = frozenset({
    "partition-failed", "replica-failed", "partition-no-live-replica", "election-error",
    "elect-error", "lisr-error", "psm-move-error", "rsm-move-error", "ctl-event-error",
    "ctl-event-uncaught", "ctl-elect-error",
})  # fmt: skip
_STRATEGY: Final = re.compile(r"strategy (\w+(?:\(\w+\))?)", re.ASCII)
_Alike: TypeAlias = tuple[str | None, str | None, str | None, str | None, str | None, str | None]


class FailedTransition(NamedTuple):
    """Failures with the same kind, fingerprint, states and strategy."""

    kind: str | None
    fingerprint: str | None
    exception_class: str | None
    from_state: str | None
    to_state: str | None
    strategy: str | None
    """The election strategy that the exception names; None: it names none."""
    count: int  # type: ignore[assignment]  # a tuple's own is of no use here
    partitions: int
    first_ms: int
    last_ms: int
    sample: str | None
    """Exception message or text of the first failure; ``file`` and ``line`` are its place."""
    file: str
    line: int


def failed_transitions(events: Sequence[Event]) -> Iterator[FailedTransition]:
    """The failed transitions; ``events`` must be in order and hold at least those of ``KINDS``."""
    folded: defaultdict[_Alike, list[Event]] = defaultdict(list)
    for event in events:
        if event.kind in KINDS:
            folded[_alike(event)].append(event)
    for alike, failures in folded.items():
        first = failures[0]
        yield FailedTransition(
            *alike,
            count=len(failures),
            partitions=len({
                (each.topic, each.partition)
                for each in failures
                if each.topic is not None and each.partition is not None
            }),
            first_ms=first.time_ms,
            last_ms=failures[-1].time_ms,
            sample=shown(first.exception_message, first.text),
            file=first.file,
            line=first.line,
        )  # fmt: skip


def _alike(event: Event) -> _Alike:
    strategy = _STRATEGY.search(event.exception_message or "")
    return (
        event.kind,
        event.fingerprint,
        event.exception_class,
        event.from_state,
        event.to_state,
        None if strategy is None else strategy[1],
    )
