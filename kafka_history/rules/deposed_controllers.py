"""Deposed controllers that continued after their successor's election, and refused requests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kafka_history.rules.event import Event
from kafka_history.rules.tenures import GRACE_MS, Tenure, is_controllers

REFUSED_BY_BROKER: Final = frozenset({
    "lisr-stale-controller", "um-stale-controller", "stop-stale-controller",
})  # fmt: skip
REFUSED_BY_ZOOKEEPER: Final = frozenset({
    "ctl-moved-processing", "psm-moved", "rsm-moved", "ctl-already-moved", "election-aborted",
})  # fmt: skip
ANSWERS: Final = frozenset({"recv-response", "recv-lisr-error", "recv-um-error", "recv-error"})
STALE: Final = "STALE_CONTROLLER_EPOCH"
STALE_CODE: Final = 11


class Zombie(NamedTuple):
    """A controller that worked, or resigned, after its successor's election."""

    broker: int
    controller_epoch: int
    from_ms: int
    """When the successor was elected."""
    to_ms: int
    """When the deposed controller resigned or wrote its last line as controller."""
    overlap_ms: int
    successor: int
    deeds: int
    """How many lines it still wrote as controller."""
    file: str | None
    """File and line of the first of them; without any, of the end of its tenure."""
    line: int | None


class Refusal(NamedTuple):
    """Refused requests or writes of a deposed controller, of one kind and epoch."""

    kind: str
    refused_by: str
    """``broker`` or ``zookeeper``."""
    controller: int | None
    controller_epoch: int | None
    latest_epoch: int | None
    count: int  # type: ignore[assignment]  # a tuple's own is of no use here
    first_ms: int
    last_ms: int
    file: str
    line: int


def is_work(event: Event) -> bool:
    """Whether a controller wrote this line as its own act; a received response is none."""
    return is_controllers(event) and event.kind not in (None, "recv-response")


def zombies(events: Sequence[Event], held: Sequence[Tenure]) -> Iterator[Zombie]:
    """Every zombie; ``events``, in order: at least those after a tenure that :func:`is_work`."""
    works: defaultdict[tuple[int | None, int | None], list[Event]] = defaultdict(list)
    for event in events:
        if is_work(event):
            works[event.broker_id, event.controller_epoch].append(event)
    for tenure in held:
        later = [each for each in held if each.controller_epoch > tenure.controller_epoch]
        following = min(later, key=lambda each: (each.controller_epoch, each.from_ms), default=None)
        if tenure.to_ms is None or following is None or following.broker is None:
            continue
        if tenure.broker is None or tenure.broker == following.broker:
            continue
        # Lines under the old epoch after the tenure ended; a restarted broker gets a new epoch.
        done = [
            event
            for event in works[tenure.broker, tenure.controller_epoch]
            if event.time_ms > tenure.to_ms + GRACE_MS
        ]
        signs = [tenure.resigned_ms, *(event.time_ms for event in done[-1:])]
        to_ms = max((each for each in signs if each is not None), default=tenure.to_ms)
        if to_ms > following.from_ms + GRACE_MS:
            yield Zombie(
                broker=tenure.broker,
                controller_epoch=tenure.controller_epoch,
                from_ms=following.from_ms,
                to_ms=to_ms,
                overlap_ms=to_ms - following.from_ms,
                successor=following.broker,
                deeds=len(done),
                file=done[0].file if done else tenure.end_file,
                line=done[0].line if done else tenure.end_line,
            )


def refusals(events: Sequence[Event]) -> Iterator[Refusal]:
    """The refused requests and writes of each controller; ``events`` must be in order.

    Error code 11 for single partitions under a top-level 0 means a repeated request; it does not
    count here.
    """
    found: defaultdict[tuple[str, str, int | None, int | None], list[Event]] = defaultdict(list)
    for event in events:
        kind, epoch = event.kind, event.controller_epoch
        if kind in REFUSED_BY_BROKER:
            found[kind, "broker", event.controller_id, epoch].append(event)
        elif kind in REFUSED_BY_ZOOKEEPER:
            found[kind, "zookeeper", event.broker_id, epoch].append(event)
        elif kind in ANSWERS and (event.error_code == STALE_CODE or event.error == STALE):
            found[kind, "broker", event.broker_id, epoch].append(event)
    for (kind, refused_by, controller, epoch), lines in found.items():
        latest = [each.latest_controller_epoch for each in lines]
        yield Refusal(
            kind=kind,
            refused_by=refused_by,
            controller=controller,
            controller_epoch=epoch,
            latest_epoch=max((each for each in latest if each is not None), default=None),
            count=len(lines),
            first_ms=lines[0].time_ms,
            last_ms=lines[-1].time_ms,
            file=lines[0].file,
            line=lines[0].line,
        )
