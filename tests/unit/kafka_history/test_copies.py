"""Lines that stand in several files count once."""

from __future__ import annotations

from kafka_history.rules.copies import Copies, logger_spans, overlapping_files
from kafka_history.rules.event import Event, in_order
from kafka_history.rules.history import EventHistory
from tests.support.event_rows import event


def said(file: str, at_ms: int, text: str = "Node 2 disconnected.") -> Event:
    return event("net-disconnected", at_ms, 1, text)._replace(file=file)


def test_of_equal_lines_the_one_in_kafkas_own_file_is_kept() -> None:
    events = in_order([
        said("broker-1/console.log", 1_000),
        said("broker-1/server.log", 1_000),
        said("broker-1/console.log", 2_000, "only here"),
        said("broker-1/server.log", 3_000, "and only there"),
        said("broker-1/console.log", 4_000, "the log ends before"),
    ])  # fmt: skip

    kept = [(each.file[9:], each.text) for each in EventHistory(events).events]

    assert kept == [
        ("server.log", "Node 2 disconnected."), ("console.log", "only here"),
        ("server.log", "and only there"), ("console.log", "the log ends before"),
    ]  # fmt: skip
    assert EventHistory(events).copies == [
        Copies("broker-1/console.log", 1, "broker-1/server.log", events[0].line)
    ]


def test_a_file_that_says_the_same_twice_in_a_millisecond_means_it_twice() -> None:
    files = ["broker-1/server.log"] * 2 + ["broker-1/console.log"] * 3
    events = in_order(said(file, 1_000) for file in files)

    assert [each.file for each in EventHistory(events).events] == [
        "broker-1/console.log", "broker-1/server.log", "broker-1/server.log",
    ]  # fmt: skip


def test_a_log_that_was_rotated_overlaps_with_nothing() -> None:
    events = [said("server.log.1", 1_000), said("server.log.1", 2_000), said("server.log", 3_000)]

    assert overlapping_files(logger_spans(events)) == frozenset()
    assert list(EventHistory(events).events) == events


def test_the_line_and_the_record_of_one_state_change_are_one() -> None:
    def failed(file: str, partition: int, text: str) -> Event:
        return event("partition-failed", 1_000, 1, text, topic="orders", partition=partition,
                     exception_message="no leader")._replace(file=file)  # fmt: skip

    events = in_order([
        *(failed("state-changes.jsonl", partition, "{}") for partition in (0, 1)),
        *(failed("state-change.log", partition, "failed to change") for partition in (0, 1)),
        failed("state-changes.jsonl", 2, "{}"),
    ])  # fmt: skip

    kept = sorted((each.partition, each.file) for each in EventHistory(events).events)

    assert kept == [
        (0, "state-change.log"), (1, "state-change.log"), (2, "state-changes.jsonl"),
    ]  # fmt: skip
