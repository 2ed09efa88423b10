"""Deletions of topics, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.topic_deletions import topic_deletions
from tests.support.event_rows import START_MS, event


def test_a_deletion_goes_from_the_order_to_its_completion_and_the_next_one_is_another() -> None:
    events = [
        event("delete-starting", 0, 1, values={"topics": "a, b"}),
        event("delete-halted", 100, 1, values={"topics": "a", "reason": "replica 3 is offline"}),
        event("delete-completed", 200, 1, topic="b"),
        event("delete-retry", 300, 1, "Retrying deletion", topic="a"),
        event("delete-completed", 400, 1, topic="a"),
        event("delete-starting", 500, 1, topic="a"),
        event("delete-halted", 600, 1, topic="never ordered"),
    ]

    found = {(each.topic, each.from_ms - START_MS): each for each in topic_deletions(events)}

    assert {key: (each.took_ms, each.halts) for key, each in found.items()} == {
        ("a", 0): (400, 2), ("b", 0): (200, 0), ("a", 500): (None, 0),
    }  # fmt: skip
    assert found["a", 0].blocked_by == "Retrying deletion"
    assert found["a", 0].end_line == events[4].line
