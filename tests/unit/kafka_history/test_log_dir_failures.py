"""Log directories that failed, from events made by hand."""

from __future__ import annotations

from kafka_history.rules.event import Event
from kafka_history.rules.log_dir_failures import log_dir_failures
from tests.support.event_rows import START_MS, event


def stopping(at_ms: int, directory: str = "/logs") -> Event:
    return event("logdir-stopping", at_ms, 2, f"Stopping serving logs in dir {directory}")


def test_a_failure_has_the_error_before_it_and_the_partitions_that_went_with_it() -> None:
    cause = event("logdir-failure-cause", 9_000, 2, "Error", exception_message="No space left")
    events = [
        event("logdir-failure-cause", 9_000, 1, "of another broker"),
        cause,
        stopping(10_000),
        event("logdir-partitions", 10_100, 2, "Broker 2 stopped fetcher for partitions b-0,a-1 and "
              "stopped moving logs for partitions  because they are in the failed log directory "
              "/logs."),
    ]  # fmt: skip

    (failure,) = log_dir_failures(events)

    assert (failure.broker, failure.at_ms, failure.dir) == (2, START_MS + 9_000, "/logs")
    assert (failure.reason, failure.line) == ("No space left", cause.line)
    assert failure.partitions == ["a-1", "b-0"]
    assert not failure.is_last


def test_a_directory_that_fails_again_in_the_next_process_failed_twice() -> None:
    full = event("logdir-failure-cause", 19_999, 2, "Error", exception_message="No space left")
    started = event("server-life", 10_000, 2, "[KafkaServer id=2] starting")

    found = list(log_dir_failures([stopping(9_000), started, full, stopping(20_000)]))

    assert [(each.at_ms - START_MS, each.reason) for each in found] == [
        (9_000, None), (19_999, "No space left"),
    ]  # fmt: skip


def test_a_broker_halts_when_its_last_directory_has_failed() -> None:
    said = "Shutdown broker because all log dirs in /logs, /other have failed"
    events = [
        stopping(0, "/other"), stopping(30_000), event("logdir-halt", 30_001, 2, said),
        event("logdir-halt", 1, 3, said),
    ]  # fmt: skip

    found = log_dir_failures(events)

    assert {each.dir: each.is_last for each in found} == {"/other": False, "/logs": True}


def test_a_directory_that_fails_again_later_failed_twice() -> None:
    events = [stopping(0), stopping(50_000), stopping(1, "/other"), stopping(200_000)]

    found = list(log_dir_failures(events))

    assert [(each.dir, each.at_ms - START_MS) for each in found] == [
        ("/logs", 0), ("/logs", 200_000), ("/other", 1),
    ]  # fmt: skip
    assert found[0].reason is None
