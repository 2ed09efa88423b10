"""What departures changed of partitions, and which tenures they ended."""

from __future__ import annotations

from kafka_history.rules.acts import Effect
from kafka_history.rules.blast_radius import DepartureChange, changes, ended_epoch
from kafka_history.rules.departures import Departure
from kafka_history.rules.partition_states import partition_states
from kafka_history.rules.tenures import tenures
from tests.support.event_rows import START_MS, event
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def gone(at_ms: int, how: str = "killed", broker: int = 1, back_ms: int | None = None) -> Departure:
    at, back = START_MS + at_ms, None if back_ms is None else START_MS + back_ms
    return Departure(broker, at, at, how, START_MS, None, back, "some.log", 1)


def changed(*departures: Departure, done: tuple[Effect, ...] = ()) -> list[tuple[str, int, int]]:
    """What became of a partition that broker 1 led until 16 s, by what that began when."""
    states = partition_states(
        events_of(
            created(1_000, 9, 1, TP, [1, 2]),
            shrunk(16_000, 9, 1, TP, -1, 1, [2], 1, removed=1),
            online(16_100, 9, 1, TP, 2, 2, [2], 2),
        ),
        {}, {},
    )  # fmt: skip
    found: list[DepartureChange] = list(changes(list(states), [], departures, done))
    return sorted((each.what, each.broker, each.begun_ms - START_MS) for each in found)


def test_a_change_belongs_to_the_nearest_cause_before_it() -> None:
    both = [("move", 1, 10_000), ("shrink", 1, 10_000)]

    assert changed(gone(2_000), gone(10_000), gone(17_000)) == both
    assert changed(gone(10_000), gone(10_000, broker=2)) == both
    # Clocks differ, so what seems to come just before its cause may be its effect.
    assert changed(gone(16_500)) == [("move", 1, 16_500), ("shrink", 1, 16_500)]
    assert changed(gone(2_000, back_ms=9_000)) == changed() == []


def test_what_was_ordered_after_a_departure_is_no_effect_of_it() -> None:
    ordered = Effect("orders", None, START_MS + 11_000, START_MS + 20_000)

    assert changed(gone(10_000), done=(ordered,)) == []
    assert changed(gone(10_000), done=(ordered._replace(partition=7),)) != []
    assert changed(gone(12_000), done=(ordered,)) != []
    # Only clocks could make the departure the cause of what came before it.
    assert changed(gone(16_500), done=(ordered,)) == []


def test_a_departure_ended_the_tenure_that_covers_it() -> None:
    held = list(
        tenures(
            [
                event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)
                for at_ms, broker, epoch in ((0, 1, 4), (10_000, 2, 5))
            ],
            {},
        )
    )

    assert ended_epoch(gone(9_000), held) == 4
    assert ended_epoch(gone(11_000, "lost"), held) == 4
    assert ended_epoch(gone(11_000), held) is None
    assert ended_epoch(gone(9_000, broker=2), held) is None
    moved = [held[0]._replace(ended_by="controller_moved")]
    assert ended_epoch(gone(9_000), moved) is None
