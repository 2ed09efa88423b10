"""The net: incidents made by seed; what was done is found, and nothing that was not done."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.history import History
from tests.support.event_rows import row

from .made_incidents import MadeIncident, since_start
from .rows import answers, frame

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]
ACTS = 14


@pytest.mark.parametrize("seed", [1, 2])
def test_all_that_was_done_is_found_and_nothing_else(spark: SparkSession, seed: int) -> None:
    made = MadeIncident(seed, ACTS)

    found = History(frame(spark, *made.rows).persist())

    assert sorted(
        (
            f"{topic}-{partition}", since_start(from_ms), since_start(noticed_ms),
            since_start(to_ms), leader, cause,
        )
        for topic, partition, from_ms, noticed_ms, to_ms, leader, cause in answers(
            found.leaderless,
            *("topic", "partition", "from_ms", "noticed_ms", "to_ms", "next_leader", "cause"),
        )
    ) == sorted(made.book.windows)  # fmt: skip
    assert {
        (broker, since_start(begun_ms), how): [moves, dark, shrinks]
        for broker, begun_ms, how, moves, dark, shrinks in answers(
            found.blast_radius,
            *("broker", "begun_ms", "how", "leader_moves", "leaderless", "isr_shrinks"),
        )
    } == made.book.departures
    assert sorted(
        (broker, since_start(from_ms), since_start(to_ms))
        for broker, from_ms, to_ms in answers(found.pauses, "broker", "from_ms", "to_ms")
    ) == sorted(made.book.pauses)
    assert sorted(
        (since_start(at_ms) or 0, act, topic or "")
        for at_ms, act, topic in answers(found.acts, "at_ms", "act", "topic")
    ) == sorted((at, act, topic or "") for at, act, topic in made.book.acts)
    assert answers(found.unclean_elections, "topic") == []
    assert answers(found.violations, "rule") == []
    assert answers(found.tenures, "broker", "ended_by") == [(9, "open")]
    assert answers(found.zookeeper_gaps, "from_ms") == []


def test_one_life_may_end_and_another_begin_within_a_second(spark: SparkSession) -> None:
    rows = [
        row("server-life", 0, 1, "starting"),
        row("thread-life", 8_200, 1, "the last word"),
        row("server-life", 8_600, 1, "starting"),
        row("thread-life", 8_900, 1, "a word of the next one"),
    ]

    found = answers(History(frame(spark, *rows)).broker_lives, "from_ms", "to_ms", "last_ms")

    one, other = sorted(tuple(map(since_start, each)) for each in found)
    assert one == (0, 8_200, 8_200)
    assert other == (8_600, None, 8_900)
