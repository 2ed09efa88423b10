"""What departures changed of partitions, and which tenures they ended."""

from __future__ import annotations

from kafka_history.rules.acts import Effect
from kafka_history.rules.blast_radius import DepartureChange, changes, ended_epochs
from kafka_history.rules.departures import Departure
from kafka_history.rules.partition_states import partition_states
from kafka_history.rules.tenures import tenures
from tests.support.event_rows import START_MS, event
from tests.support.partition_rows import created, events_of, online, shrunk

TP = ("orders", 0)


def gone(at_ms: int, how: str = "killed", broker: int = 1, back_ms: int | None = None) -> Departure:
    at, back = START_MS + at_ms, None if back_ms is None else START_MS + back_ms
    since = START_MS if how == "killed" else None
    return Departure(broker, at, at, how, since, None, back, "some.log", 1)


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


def ended(*lost: Departure, how: str | None = None) -> list[int | None]:
    """The epoch that each of them ended, where broker 1 was controller to 10 s, then broker 2."""
    elected = [
        event("ctl-elected", at_ms, broker, controller_id=broker, controller_epoch=epoch)
        for at_ms, broker, epoch in ((0, 1, 4), (10_000, 2, 5))
    ]
    held = list(tenures(elected, {}))
    if how is not None:
        held[0] = held[0]._replace(ended_by=how)
    found = ended_epochs(lost, held)
    return [found.get(each) for each in lost]


def test_a_departure_ended_the_tenure_that_covers_it() -> None:
    assert ended(gone(9_000)) == [4]
    assert ended(gone(11_000, "lost")) == [4]
    assert ended(gone(11_000)) == ended(gone(9_000, broker=2)) == [None]
    assert ended(gone(9_000), how="controller_moved") == [None]


def test_of_two_departures_the_one_nearest_to_the_end_of_a_tenure_ended_it() -> None:
    assert ended(gone(10_010, "session_expired"), gone(11_500, "session_expired")) == [4, None]
    assert ended(gone(2_000, "log_dir_failed"), gone(9_000)) == [None, 4]


def test_a_session_that_the_next_process_lost_did_not_end_the_tenure_of_the_one_before() -> None:
    assert ended(gone(6_000), gone(11_000, "session_expired")) == [4, None]
    assert ended(gone(6_000, broker=2), gone(11_000, "session_expired")) == [None, 4]
