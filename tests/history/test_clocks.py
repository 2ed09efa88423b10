"""Clocks that differ: found from requests and their answers."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from kafka_history.analyses.clocks import DOUBTFUL_MS, clock_skew, clocks

pytestmark = pytest.mark.history

AHEAD_MS = 5_000


@pytest.fixture(scope="module")
def with_a_fast_clock(incident_a_rows: DataFrame) -> DataFrame:
    """The incident as if broker 2's clock had been five seconds ahead."""
    ahead = F.when(F.col("broker_id") == 2, AHEAD_MS).otherwise(0)
    return incident_a_rows.withColumn("time_ms", F.col("time_ms") + ahead)


def test_brokers_of_one_host_have_one_clock(incident_a_rows: DataFrame) -> None:
    found = clock_skew(incident_a_rows).collect()

    assert len(found) >= 6
    assert all(row["is_consistent"] for row in found)
    assert all(row["low_ms"] <= 0 <= row["high_ms"] for row in found)


def test_a_fast_clock_is_found_from_requests_and_answers(with_a_fast_clock: DataFrame) -> None:
    found = clock_skew(with_a_fast_clock).where("controller_id != broker_id").collect()

    told = [row for row in found if row["broker_id"] == 2]
    assert told
    assert all(row["low_ms"] <= AHEAD_MS <= row["high_ms"] for row in told)
    back = [row for row in found if row["controller_id"] == 2]
    assert all(row["low_ms"] <= -AHEAD_MS <= row["high_ms"] for row in back)


def test_a_fast_clock_breaks_a_rule_and_clocks_that_agree_do_not(
    incident_a_rows: DataFrame, with_a_fast_clock: DataFrame
) -> None:
    apart = clocks(with_a_fast_clock).where("is_doubtful").collect()

    assert {(row["broker"], row["controller"]) for row in apart} == {(2, 1), (2, 3), (1, 2), (3, 2)}
    assert all(abs(abs(row["skew_ms"]) - AHEAD_MS) < DOUBTFUL_MS for row in apart)
    assert clocks(incident_a_rows).where("is_doubtful").count() == 0
