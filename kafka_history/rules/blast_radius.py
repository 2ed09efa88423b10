"""Groups partition changes by the broker departure that caused them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from kafka_history.rules.acts import Effect
from kafka_history.rules.dead_leaders import EVER, RETURN_MS, Window
from kafka_history.rules.departures import Departure
from kafka_history.rules.partition_states import State, incarnations
from kafka_history.rules.tenures import MOVED, Tenure

SKEW_MS: Final = 1_000
"""A change may be stamped this much before its cause, because the brokers' clocks differ."""
LATE_MS: Final = 600_000
"""Changes later than this after a departure do not count as its effects."""
MOVE, SHRINK, DARK = "move", "shrink", "dark"


class DepartureChange(NamedTuple):
    """What a broker's departure changed: a leader, an ISR, or a time without a leader."""

    broker: int
    """The broker that departed."""
    begun_ms: int
    """When the departure began; 0 until :func:`changes` has found it."""
    what: str
    topic: str
    partition: int
    change_ms: int
    lasted_ms: int = 0


def changes(
    states: Sequence[State],
    windows: Iterable[Window],
    gone: Sequence[Departure],
    done: Iterable[Effect],
) -> Iterator[DepartureChange]:
    """The changes of one partition that departures caused.

    A change is assigned to the nearest departure of the broker that lost its leadership or its
    place in the ISR.  A change that a later act (``done``) explains is left out.
    """
    orders = [order for order in done if states and order.topic == states[0].topic]
    for change in dict.fromkeys(_losses(states)):
        causes = [
            each for each in gone if each.broker == change.broker and _can_cause(each, change)
        ]
        if causes:
            begun_ms = max(causes, key=lambda each: _nearness(each, change)).begun_ms
            if not any(_explains(order, change, begun_ms) for order in orders):
                yield change._replace(begun_ms=begun_ms)
    for each in windows:
        if each.cause_broker is not None and each.cause_ms is not None:
            lasted_ms = 0 if each.to_ms is None else each.to_ms - each.from_ms
            yield DepartureChange(
                each.cause_broker, each.cause_ms, DARK, each.topic, each.partition, each.from_ms,
                lasted_ms,
            )  # fmt: skip


def ended_epochs(gone: Iterable[Departure], held: Sequence[Tenure]) -> dict[Departure, int]:
    """The controller epoch that each departure ended; at most one departure for each tenure."""
    covered: defaultdict[Tenure, list[Departure]] = defaultdict(list)
    for lost in gone:
        if (tenure := _covered_tenure(lost, held)) is not None:
            covered[tenure].append(lost)
    found: dict[Departure, int] = {}
    for tenure, its in covered.items():
        # A later process of the broker did not hold this tenure.
        last_ms = min((each.at_ms for each in its if each.since_ms is not None), default=EVER)
        nearest = min(
            (each for each in its if each.at_ms <= last_ms),
            key=lambda each: abs((tenure.to_ms or 0) - each.begun_ms),
        )
        found[nearest] = tenure.controller_epoch
    return found


def _covered_tenure(lost: Departure, held: Iterable[Tenure]) -> Tenure | None:
    """The broker's latest tenure that had an end and covers its departure; None: none does."""
    # The successor of a dead controller is elected just before it notices the missing broker.
    early_ms = RETURN_MS if lost.how in {"lost", "session_expired"} else 0
    noticed_ms = lost.at_ms if lost.until_ms is None else lost.until_ms
    return max(
        (
            tenure
            for tenure in held
            # A broker that had lost the controllership before it left ended no tenure.
            if tenure.broker == lost.broker
            and tenure.ended_by != MOVED
            and tenure.to_ms is not None
            and tenure.from_ms <= max(lost.at_ms, noticed_ms)
            and tenure.to_ms >= lost.begun_ms - early_ms
        ),
        key=attrgetter("controller_epoch"),
        default=None,
    )


def _losses(states: Iterable[State]) -> Iterator[DepartureChange]:
    """Moved leaders and shrunk ISRs; ``broker`` is the old leader or the replica that left."""
    for (topic, partition, _), its in incarnations(states):
        led_by = None
        for state in its:
            if state.is_deleted:
                continue
            at_ms, leader = state.time_ms, state.leader
            # Skip states without a leader: they may lie between the old leader and the new one.
            if leader is not None and leader >= 0:
                if led_by is not None and leader != led_by:
                    yield DepartureChange(led_by, 0, MOVE, topic, partition, at_ms)
                led_by = leader
            if state.previous_isr is not None and state.isr is not None:
                for broker in state.previous_isr:
                    if broker not in state.isr:
                        yield DepartureChange(broker, 0, SHRINK, topic, partition, at_ms)


def _can_cause(lost: Departure, change: DepartureChange) -> bool:
    back_ms = EVER if lost.back_ms is None else lost.back_ms + RETURN_MS
    return lost.begun_ms - SKEW_MS <= change.change_ms <= min(lost.begun_ms + LATE_MS, back_ms)


def _nearness(lost: Departure, change: DepartureChange) -> tuple[bool, int]:
    """Sort key, greatest for the nearest cause; causes stamped after the change come last."""
    return lost.begun_ms <= change.change_ms, -abs(change.change_ms - lost.begun_ms)


def _explains(order: Effect, change: DepartureChange, begun_ms: int) -> bool:
    """Whether the order, rather than the departure, caused the change.

    The order must cover the change, and have come after the departure unless the departure is
    stamped after the change.
    """
    return (
        order.partition in {None, change.partition}
        and order.from_ms <= change.change_ms <= order.to_ms
        and (order.from_ms > begun_ms or change.change_ms < begun_ms)
    )
