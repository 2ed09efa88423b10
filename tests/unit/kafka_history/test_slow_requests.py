"""How long LeaderAndIsr requests took, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.slow_requests import request_times
from tests.support.event_rows import event


def test_the_requests_of_a_broker_are_summed_with_the_slowest_as_evidence() -> None:
    events = [
        event("lisr-finished", ms, 1, elapsed_ms=ms, controller_id=3, count=ms)
        for ms in (10, 20, 30, 1_500)
    ]

    (found,) = request_times([*events, event("lisr-finished", 0, 2)])

    assert (found.broker, found.requests, found.slow) == (1, 4, 1)
    assert (found.p50_ms, found.p99_ms, found.max_ms) == (20, 1_500, 1_500)
    assert (found.controller, found.partitions, found.line) == (3, 1_500, events[3].line)
