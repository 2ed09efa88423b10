"""The checks on trial: each finds what it is named for, and nothing in a history that is well."""

from __future__ import annotations

import pytest

from tests.faults.checks import (
    anomalies,
    differing_partitions,
    disputed_offsets,
    lost_records,
)
from tests.faults.history import History, Outcome, Polled, Sent


def well() -> History:
    """Two partitions, one record of unknown fate, one that was refused."""
    history = History()
    history.sent = [
        Sent(0, "a", Outcome.OK, 0),
        Sent(0, "b", Outcome.OK, 1),
        Sent(1, "c", Outcome.OK, 0),
        Sent(1, "unknown", Outcome.INFO),
        Sent(1, "refused", Outcome.FAIL),
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
def test_two_records_at_one_offset_are_inconsistent_for_every_reader(told: str) -> None:
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


def test_the_final_reading_too_goes_forward() -> None:
    history = well()
    history.final.append(Polled("final", 0, 0, "a"))
    assert names(history) == ["nonmonotonic-poll"]


def test_a_consumer_that_is_not_given_a_record_between_two_has_skipped_it() -> None:
    history = well()
    history.final.append(Polled("final", 0, 2, "d"))
    history.polled[2] = Polled("one", 0, 2, "d")
    assert names(history) == ["poll-skip"]


def test_an_offset_without_a_record_is_not_skipped() -> None:
    history = well()
    history.polled.append(Polled("one", 0, 7, "far"))
    history.final.append(Polled("final", 0, 7, "far"))
    assert names(history) == []


@pytest.mark.parametrize("told", ["polled", "final"])
def test_a_refused_record_that_a_consumer_reads_is_an_aborted_read(told: str) -> None:
    history = well()
    reads = history.polled if told == "polled" else history.final
    reads.append(Polled("final" if told == "final" else "two", 1, 2, "refused"))
    assert "G1a" in names(history)


def test_lost_records_are_listed_one_by_one() -> None:
    history = well()
    lost = [sent for sent in history.acknowledged if sent.partition == 0]
    history.final = [read for read in history.final if read.partition == 1]
    assert lost_records(history) == lost


def test_an_offset_that_was_written_anew_is_disputed_by_who_read_it_before() -> None:
    history = well()
    history.final[1] = Polled("final", 0, 1, "anew")
    assert disputed_offsets(history) == {(0, 1): {"b", "anew"}}
    assert sorted(names(history)) == ["inconsistent-offsets", "lost-write"]


def test_one_byte_makes_replicas_differ() -> None:
    assert differing_partitions([[b"ab", b"c"], [b"ab", b"c"], [b"ab", b"c"]]) == []
    assert differing_partitions([[b"ab", b"c"], [b"ab", b"c"], [b"ab", b""]]) == [1]
    assert differing_partitions([[b"ab", b"c"], [b"aB", b"c"], [b"ab", b"d"]]) == [0, 1]
