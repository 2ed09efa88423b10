"""Sums over all lines of a cluster, and single lines that are findings by themselves."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event

CLUSTER_SIGN: Final = "cluster "
"""Prefix of the ``sign`` of a line that names the cluster id; the id follows."""
VERSION_KIND, CLUSTER_KIND = "server-version", "server-start-steps"
SIGN_KINDS: Final = ("shutdown-unclean", "unclean-enabled", "partition-failed", CLUSTER_KIND)
_VERSION: Final = re.compile(r"Kafka version\s*:?\s*(\S+)")
_CLUSTER: Final = re.compile(r"Cluster ID =\s*:?\s*(\S+)")
SAMPLE_CHARACTERS: Final = 300


class Totals(NamedTuple):
    """Counts over all lines; ``from_ms`` and ``to_ms`` are None without any line."""

    records: int
    typed: int
    from_ms: int | None
    to_ms: int | None
    brokers: Sequence[int]
    errors: int
    warnings: int


class UnknownLines(NamedTuple):
    """The number of lines of one logger and level that match no shape, and the first of them."""

    logger: str | None
    level: str | None
    count: int  # type: ignore[assignment]  # a tuple's own is of no use here
    text: str | None
    file: str
    line: int


class LineSign(NamedTuple):
    """How often a broker logged a line that is a finding by itself, and the first such line."""

    sign: str
    broker: int | None
    count: int  # type: ignore[assignment]  # a tuple's own is of no use here
    first_ms: int
    file: str
    line: int


def totals(events: Sequence[Event]) -> Totals:
    """The totals of all events, which must be in order."""
    levels = Counter(event.level for event in events)
    return Totals(
        records=len(events),
        typed=sum(event.shape is not None for event in events),
        from_ms=events[0].time_ms if events else None,
        to_ms=events[-1].time_ms if events else None,
        brokers=sorted({event.broker_id for event in events if event.broker_id is not None}),
        errors=levels["ERROR"] + levels["FATAL"],
        warnings=levels["WARN"],
    )


def unknown_lines(events: Iterable[Event]) -> list[UnknownLines]:
    """The lines that match no shape, by logger and level, the most frequent first."""
    first: dict[tuple[str | None, str | None], Event] = {}
    counts: Counter[tuple[str | None, str | None]] = Counter()
    for event in events:
        if event.shape is None:
            key = event.logger, event.level
            counts[key] += 1
            first.setdefault(key, event)
    return [
        UnknownLines(
            *key,
            count,
            None if event.text is None else event.text[:SAMPLE_CHARACTERS],
            event.file,
            event.line,
        )
        for key, count in counts.most_common()
        for event in (first[key],)
    ]


def kafka_versions(events: Iterable[Event]) -> list[str]:
    """The versions of Kafka that brokers log, given events of ``VERSION_KIND``."""
    return sorted({name for event in events if (name := _after(event, _VERSION)) is not None})


def cluster_ids(events: Iterable[Event]) -> list[str]:
    """The cluster ids that brokers log at start, given events of ``CLUSTER_KIND``."""
    return sorted({name for event in events if (name := _after(event, _CLUSTER)) is not None})


def signs(events: Iterable[Event]) -> Iterator[LineSign]:
    """Each sign of each broker, in the order of the first; at least events of ``SIGN_KINDS``."""
    first: dict[tuple[str, int | None], Event] = {}
    counts: Counter[tuple[str, int | None]] = Counter()
    for event in events:
        if (sign := _sign(event)) is not None:
            counts[sign, event.broker_id] += 1
            first.setdefault((sign, event.broker_id), event)
    for (sign, broker), event in first.items():
        yield LineSign(sign, broker, counts[sign, broker], event.time_ms, event.file, event.line)


def _sign(event: Event) -> str | None:
    if event.kind in ("shutdown-unclean", "unclean-enabled"):
        return event.kind
    tried = "OfflinePartitionLeaderElectionStrategy(true)"
    if event.kind == "partition-failed" and tried in (event.exception_message or ""):
        return "unclean-enabled"
    cluster = _after(event, _CLUSTER) if event.kind == CLUSTER_KIND else None
    return None if cluster is None else CLUSTER_SIGN + cluster


def _after(event: Event, pattern: re.Pattern[str]) -> str | None:
    """The first group of the pattern in the event's text; None if the pattern is not found."""
    found = pattern.search(event.text or "")
    return None if found is None else found[1]
