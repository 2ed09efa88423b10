"""Failed transitions, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.event import Event
from kafka_history.rules.failed_transitions import failed_transitions
from tests.support.event_rows import START_MS, event


def test_failures_that_are_alike_are_one_finding_with_the_first_as_sample() -> None:
    def failed(at_ms: int, partition: int, strategy: str) -> Event:
        return event(
            "partition-failed", at_ms, 1, "failed", topic="t", partition=partition,
            fingerprint="f", from_state="OfflinePartition", to_state="OnlinePartition",
            exception_message=f"Failed to elect leader for t-{partition} under strategy {strategy}",
        )  # fmt: skip

    offline = "OfflinePartitionLeaderElectionStrategy(false)"
    events = [
        failed(0, 0, offline),
        failed(5, 1, offline),
        failed(9, 0, offline),
        failed(9, 0, "X"),
    ]

    one, other = failed_transitions(events)

    assert (one.strategy, one.count, one.partitions) == (offline, 3, 2)
    assert (one.first_ms, one.last_ms, one.line) == (START_MS, START_MS + 9, events[0].line)
    assert one.sample == f"Failed to elect leader for t-0 under strategy {offline}"
    assert (other.strategy, other.count) == ("X", 1)
