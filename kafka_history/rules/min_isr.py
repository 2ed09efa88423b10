"""Partitions with fewer in-sync replicas than ``min.insync.replicas``: writes with acks=all fail.

The logs contain a topic's ``min.insync.replicas`` when the topic was created, when its
configuration changed, when a log of it was created, or when a broker refused a write.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.partition_states import State, incarnations

APPLIED, DELETED = "config-applied", "delete-completed"
"""Lines that replace a topic's setting; without a value in them, the broker's default holds."""
CHANGE_KINDS: Final = (APPLIED, "config-updated", DELETED)
SETTING_KINDS: Final = ("admin-create-topic", "log-created", *CHANGE_KINDS)
REFUSAL_KIND: Final = "replica-manager-error"
COLUMNS: Final = ("file", "time_ms", "kind", "topic", "values", "text", "exception_message")
"""The columns of an event that this module needs."""
_SETTING: Final = re.compile(r"min\.insync\.replicas(?: ->|=) ?(\d{1,9})(?!\d)")
_REFUSED: Final = re.compile(
    r"current ISR \w*\(?[\d, ]*\)? is insufficient to satisfy the min\.isr requirement of "
    r"(\d{1,9}) for partition (.+)-(\d{1,9})(?!\d)"
)
_PATH: Final = re.compile(r"^topics/(.+)$")
_EVER: Final = 2**62


class IsrNeed(NamedTuple):
    """A line that shows how many in-sync replicas a topic needs."""

    topic: str
    min_isr: int | None
    """None: the brokers' default holds, which these lines do not contain."""
    at_ms: int
    refused: int | None
    """The partition that refused a write; None: the line contains a setting."""
    is_change: bool
    """True: the setting holds from this line on; False: it may have held before, too."""


class UnderMinIsr(NamedTuple):
    """A time in which a partition had a leader, but too few replicas in sync."""

    topic: str
    partition: int
    from_ms: int
    to_ms: int | None
    """None: until the end of the logs."""
    isr: Sequence[int] | None
    min_isr: int
    refused: int
    """Number of lines about refused writes."""
    file: str | None
    line: int | None


def needs(events: Iterable[Event]) -> Iterator[IsrNeed]:
    """The needs of topics, given events of ``SETTING_KINDS`` and ``REFUSAL_KIND``."""
    for event in events:
        if event.kind == REFUSAL_KIND:
            refused = _REFUSED.search(f"{event.text or ''} {event.exception_message or ''}")
            if refused is not None:
                min_isr, topic, partition = refused.groups()
                yield IsrNeed(topic, int(min_isr), event.time_ms, int(partition), False)
            continue
        setting, about = _SETTING.search(event.text or ""), _topic(event)
        if about is not None and (setting is not None or event.kind in (APPLIED, DELETED)):
            min_isr_now = None if setting is None else int(setting[1])
            is_change = event.kind in CHANGE_KINDS
            yield IsrNeed(about, min_isr_now, event.time_ms, None, is_change)


def by_topic(found: Iterable[IsrNeed]) -> dict[str, list[IsrNeed]]:
    """The needs of each topic, sorted by time."""
    topics: defaultdict[str, list[IsrNeed]] = defaultdict(list)
    for need in sorted(found, key=lambda each: (each.at_ms, each.min_isr or 0)):
        topics[need.topic].append(need)
    return dict(topics)


def under_min_isr(
    states: Iterable[State], needed: Mapping[str, Sequence[IsrNeed]]
) -> Iterator[UnderMinIsr]:
    """The times in which partitions had too few replicas in sync; ``needed``: :func:`by_topic`."""
    for (topic, partition, _), its in incarnations(states):
        needs = needed.get(topic, ())
        refused = [need.at_ms for need in needs if need.refused == partition]
        ends = [*(state.time_ms for state in its[1:]), _EVER]
        steps = [
            step
            for state, end_ms in zip(its, ends, strict=True)
            for step in _steps(state, end_ms, needs)
        ]
        for is_under, run in groupby(steps, key=_is_under):
            window = list(run)
            if not is_under:
                continue
            first, last = window[0].state, window[-1]
            from_ms = min(step.from_ms for step in window)
            end_ms = max(step.end_ms for step in window)
            assert last.min_isr is not None
            yield UnderMinIsr(
                topic=topic,
                partition=partition,
                from_ms=from_ms,
                to_ms=end_ms if end_ms < _EVER else None,
                isr=last.state.isr,
                min_isr=last.min_isr,
                refused=sum(from_ms <= at_ms <= end_ms for at_ms in refused),
                file=first.file,
                line=first.line,
            )


class _Step(NamedTuple):
    """The time of a state, or a part of it, with one ``min.insync.replicas`` (None: unknown)."""

    state: State
    from_ms: int
    end_ms: int
    min_isr: int | None


def _topic(event: Event) -> str | None:
    values = event.values or {}
    if event.topic is not None:
        return event.topic
    if path := _PATH.search(values.get("path") or ""):
        return path[1]
    is_topic = values.get("entity_type") == "topics"
    return values.get("entity") if is_topic else values.get("topic")


def _steps(state: State, end_ms: int, needs: Sequence[IsrNeed]) -> Iterator[_Step]:
    """The state, divided where the setting changed while it lasted."""
    changed = {n.at_ms for n in needs if n.is_change and state.time_ms < n.at_ms < end_ms}
    for from_ms, to_ms in pairwise([state.time_ms, *sorted(changed), end_ms]):
        yield _Step(state, from_ms, to_ms, _min_isr(needs, from_ms, to_ms))


def _min_isr(needs: Sequence[IsrNeed], from_ms: int, to_ms: int) -> int | None:
    """``min.insync.replicas`` in this time, by the latest line; None if it is not known.

    Before the first line the value of that line is used, unless the line logs a change.
    """
    known = [n for n in needs if n.at_ms <= from_ms or (n.at_ms < to_ms and not n.is_change)]
    proven = known[-1:] or [need for need in needs[:1] if not need.is_change]
    return proven[0].min_isr if proven else None


def _is_under(step: _Step) -> bool:
    state = step.state
    if step.min_isr is None or state.isr is None:
        return False
    is_led = not state.is_deleted and state.leader is not None and state.leader >= 0
    return is_led and len(state.isr) < step.min_isr
