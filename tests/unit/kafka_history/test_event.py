"""An event has the columns of the schema, in its order."""

from __future__ import annotations

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.rules.event import Event, in_order


def test_an_event_has_the_columns_of_the_schema() -> None:
    assert Event._fields == tuple(column.name for column in EVENT_COLUMNS)


def test_events_of_one_millisecond_come_in_the_order_of_file_and_line() -> None:
    events = [Event(time_ms=2), Event(time_ms=1, file="b"), Event(time_ms=1, file="a", line=7)]

    assert in_order(events) == [events[2], events[1], events[0]]
