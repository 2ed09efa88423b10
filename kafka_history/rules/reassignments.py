"""Reassignments of partitions: the order, the time for copying, and how each one ended.

Since Kafka 2.4 the controller writes these lines for one partition, in this order::

    move            Updating assignment, Successfully updated (begun), Target replicas … caught up,
                    Leader …, Successfully updated (ended)
    cancellation    Updating assignment, Successfully updated (confirmed), Leader …,
                    Successfully updated (ended)
    other order     the same as a cancellation, but no reassignment is in progress
    no change       Leader …, Successfully updated (ended)

So a "Successfully updated" without adding and removing replicas ends a reassignment only if the
line before it is "Leader …".  "Updating assignment" is DEBUG and may be missing.

Source: Kafka 3.9 ``KafkaController.onPartitionReassignment``, ``updateCurrentReassignment``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.texts import ids, shown

OLD: Final = frozenset({"reassign-handling", "reassign-assigned"})
"""Lines of Kafka before 2.4."""
KINDS: Final = OLD | {
    "reassign-updating", "reassign-updated", "reassign-leader", "reassign-caught-up",
    "reassign-error",
}  # fmt: skip

COMPLETED, CANCELLED = "completed", "cancelled"
REORDERED, UNCHANGED = "order only", "no change"
"""The values of ``outcome``.  ``order only``: only the order of the replicas changed.
``no change``: the partition had these replicas already."""


class Reassignment(NamedTuple):
    """One reassignment of one partition."""

    topic: str
    partition: int | None
    from_ms: int
    caught_up_ms: int | None
    to_ms: int | None
    """None: it did not end before the logs end."""
    took_ms: int | None
    outcome: str | None
    """None: it did not end before the logs end."""
    old_replicas: Sequence[int] | None
    new_replicas: Sequence[int] | None
    adding: Sequence[int] | None
    removing: Sequence[int] | None
    problem: str | None
    """An error logged during the reassignment; None: there was none."""
    file: str
    line: int
    end_file: str | None
    end_line: int | None


def reassignments(events: Iterable[Event]) -> Iterator[Reassignment]:
    """Every reassignment; ``events`` must be in order and hold at least those of ``KINDS``."""
    said: defaultdict[tuple[str, int | None], list[Event]] = defaultdict(list)
    for event in events:
        if event.kind in KINDS and event.topic is not None:
            said[event.topic, event.partition].append(event)
    for (topic, partition), lines in said.items():
        steps: list[_Step] = []
        previous = None
        for event in lines:
            steps.append(_step(event, previous))
            previous = event.kind
            if steps[-1].what == "ended":
                yield from _reassignment(topic, partition, steps)
                steps = []
        yield from _reassignment(topic, partition, steps)


class _Step(NamedTuple):
    """A line about a reassignment, and the step that it shows."""

    what: str
    event: Event
    adding: Sequence[int]
    removing: Sequence[int]

    @property
    def is_settled(self) -> bool:
        return not self.adding and not self.removing


def _step(event: Event, previous: str | None) -> _Step:
    adding, removing = event.adding_replicas, event.removing_replicas
    adding = ids(event.value("target_adding")) if adding is None else adding
    removing = ids(event.value("target_removing")) if removing is None else removing
    was_moving = ids(event.value("before_adding")) or ids(event.value("before_removing"))
    match event.kind:
        case "reassign-handling":
            what = "begun"
        case "reassign-assigned":
            what = "ended"
        case "reassign-updating" | "reassign-updated" if adding or removing:
            what = "begun"
        case "reassign-updating" if was_moving:
            what = "cancelled"
        case "reassign-updated" if previous == "reassign-leader":
            what = "ended"
        case "reassign-updating" | "reassign-updated":
            what = "rewritten"
        case "reassign-leader":
            what = "switched"
        case "reassign-caught-up":
            what = "caught up"
        case _:
            what = "problem"
    return _Step(what, event, adding, removing)


def _reassignment(
    topic: str, partition: int | None, steps: Sequence[_Step]
) -> Iterator[Reassignment]:
    """The reassignment that these steps show; nothing if they do not prove one."""
    first: dict[str, Event] = {}
    for step in steps:
        first.setdefault(step.what, step.event)
    begun, end = first.get("begun"), first.get("ended")
    rewritten = next((s.event for s in steps if s.what in ("cancelled", "rewritten")), None)
    start = begun or rewritten or first.get("switched")
    # Without a beginning or an order among the steps, the reassignment began before the logs.
    # Before 2.4 the last two lines of a move look like "no change", so they prove nothing.
    is_old = any(step.event.kind in OLD for step in steps)
    is_whole = rewritten is not None or ("switched" in first and end is not None)
    is_order = not is_old and "caught up" not in first and is_whole
    if start is None or (begun is None and not is_order):
        return
    moving = [step for step in steps if not step.is_settled]
    before = (ids(step.event.value("before_replicas")) for step in steps)
    problems = (shown(step.event.text) or "" for step in steps if step.what == "problem")
    is_new = end is not None and (end.kind in OLD or steps[-1].is_settled)
    yield Reassignment(
        topic=topic,
        partition=partition,
        from_ms=start.time_ms,
        caught_up_ms=first["caught up"].time_ms if "caught up" in first else None,
        to_ms=end and end.time_ms,
        took_ms=end and end.time_ms - start.time_ms,
        outcome=end
        and _outcome(first, is_begun=begun is not None, is_rewritten=rewritten is not None),
        old_replicas=next((replicas for replicas in before if replicas), None),
        new_replicas=end.replicas if end is not None and is_new else None,
        adding=moving[-1].adding if moving else None,
        removing=moving[-1].removing if moving else None,
        problem=min(problems, default=None),
        file=start.file,
        line=start.line,
        end_file=end and end.file,
        end_line=end and end.line,
    )


def _outcome(seen: Iterable[str], *, is_begun: bool, is_rewritten: bool) -> str:
    """How it ended; a move whose assignment is rewritten without moving replicas is cancelled."""
    if "cancelled" in seen or (is_begun and is_rewritten):
        return CANCELLED
    if is_begun:
        return COMPLETED
    return REORDERED if is_rewritten else UNCHANGED
