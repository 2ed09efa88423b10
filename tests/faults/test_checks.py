"""The checks on trial: each finds what it is named for, and nothing in a history that is well."""

from __future__ import annotations

import pytest

from tests.faults.checks import anomalies
from tests.faults.history import History, Outcome, Polled, Sent


def well() -> History:
    """Two partitions, one record that nobody knows of."""
    history = History()
    history.sent = [
        Sent(0, "a", Outcome.OK, 0),
        Sent(0, "b", Outcome.OK, 1),
        Sent(1, "c", Outcome.OK, 0),
        Sent(1, "unknown", Outcome.INFO),
    ]
    history.polled = [Polled("one", 0, 0, "a"), Polled("two", 1, 0, "c"), Polled("one", 0, 1, "b")]
    history.final = [
        Polled("final", 0, 0, "a"),
        Polled("final", 0, 1, "b"),
        Polled("final", 1, 0, "c"),
        Polled("final", 1, 1, "unknown"),
    ]
    return history


def names(history: History, *, is_idempotent: bool = True) -> list[str]:
    return [found.name for found in anomalies(history, is_idempotent=is_idempotent)]


def test_a_history_that_is_well_has_no_anomaly() -> None:
    assert names(well()) == []


def test_an_acknowledged_record_that_is_gone_is_a_lost_write() -> None:
    history = well()
    del history.final[1]
    assert names(history) == ["lost-write"]


def test_a_record_in_another_partition_than_was_acknowledged_is_lost_there() -> None:
    history = well()
    history.final[2] = history.final[2]._replace(partition=0, offset=2)
    assert names(history) == ["lost-write"]


def test_a_record_that_is_there_twice_is_a_duplicate_only_where_none_may_be() -> None:
    history = well()
    history.final.append(Polled("final", 0, 2, "b"))
    assert names(history) == ["duplicate"]
    assert names(history, is_idempotent=False) == []


@pytest.mark.parametrize("told", ["sent", "polled", "final"])
def test_two_records_at_one_offset_are_inconsistent_whoever_saw_them(told: str) -> None:
    history = well()
    match told:
        case "sent":
            history.sent.append(Sent(1, "unknown", Outcome.OK, 0))
        case "polled":
            history.polled.append(Polled("three", 0, 1, "other"))
        case _:
            history.final.append(Polled("another", 0, 1, "other"))
    assert names(history) == ["inconsistent-offsets"]


def test_a_consumer_that_is_taken_back_has_polled_nonmonotonically() -> None:
    history = well()
    history.polled.append(Polled("one", 0, 1, "b"))
    assert names(history) == ["nonmonotonic-poll"]
