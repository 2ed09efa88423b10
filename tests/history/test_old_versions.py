"""Real logs of Kafka 0.11.0.3 and 1.1.1: an unclean election, a deletion, and nothing besides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.history import History
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here
from kafka_history.readers.store import read_events
from kafka_history.report.assemble import assemble

from .conftest import DATA
from .test_incidents import steps, tools

pytestmark = [pytest.mark.history, pytest.mark.timeout(900)]

Findings = dict[str, Any]
SESSION_MS = 12_000
NEAR_MS = 1_000


@pytest.fixture(scope="module", params=["1.1.1", "0.11.0.3"])
def incident(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Findings]:
    name = f"incidents-{request.param}"
    out: Path = tmp_path_factory.mktemp(name)
    ingest_here([str(DATA / name)], IngestOptions(out=str(out)), 1)
    rows = read_events(spark, out)
    return name, assemble(History(rows))


def test_every_line_is_understood_and_no_invariant_broken(incident: tuple[str, Findings]) -> None:
    _, found = incident

    assert found["records"] > 2_000
    assert [row["text"] for row in found["unknown_lines"]] == []
    assert found["invariants"] == []
    assert {rule["id"] for rule in found["rules"] if rule["severity"] == "critical"} == {"P11"}


def test_the_deaths_are_found_and_no_other(incident: tuple[str, Findings]) -> None:
    name, found = incident
    killed = sorted(
        (life["to_ms"], life["broker"])
        for life in found["broker_lives"]
        if life["ended_by"] == "killed"
    )

    expected = steps(name, "kill -9 broker")

    assert [broker for _, broker in killed] == [step["broker"] for step in expected] == [2, 1]
    for (to_ms, _), step in zip(killed, expected, strict=True):
        assert abs(to_ms - step["time_ms"]) < NEAR_MS
    assert [row["ended_by"] for row in found["tenures"]] == [
        "killed", "clean_shutdown", "clean_shutdown",
    ]  # fmt: skip
    assert found["pauses"] == found["zookeeper_gaps"] == found["zombies"] == []


def test_the_unclean_elections_are_found(incident: tuple[str, Findings]) -> None:
    name, found = incident
    (back, *_) = [d for d in steps(name, "start broker") if d["broker"] == 2][1:]

    elected = [
        (row["topic"], row["partition"], row["leader"]) for row in found["unclean_elections"]
    ]

    assert sorted(elected) == [("unsafe", 0, 2), ("unsafe", 1, 2)]
    for row in found["unclean_elections"]:
        # The start is noted when the broker has been registered, which its election follows.
        assert abs(row["at_ms"] - back["time_ms"]) < 3_000
        # 100 records came before the follower died, 50 for each partition after.
        assert row["lost_records"] in (50, None)


def test_a_deleted_topic_leaves_no_window_open(incident: tuple[str, Findings]) -> None:
    name, found = incident
    (deletion,) = found["deletions"]
    (asked,) = tools(name, "TopicCommand", "--delete")

    assert deletion["topic"] == "brief"
    assert 0 < asked["time_ms"] - deletion["from_ms"] < 2_000
    assert deletion["to_ms"] is not None
    windows = [row for row in found["leaderless"] if row["topic"] == "brief"]
    # Those of the two deaths alone.
    assert sorted((row["partition"], row["cause"]) for row in windows) == [
        (0, "broker 1 died"), (1, "broker 2 died"),
    ]  # fmt: skip
    assert all(0 < row["to_ms"] - row["from_ms"] < SESSION_MS for row in windows)


def test_what_was_ordered_is_found_and_nothing_else(incident: tuple[str, Findings]) -> None:
    _, found = incident

    assert [(row["act"], row["topic"], row["partitions"]) for row in found["acts"]] == [
        ("topic created", "unsafe", None),
        ("topic created", "brief", None),
        ("topic deleted", "brief", None),
        ("preferred election", None, 1),
    ]
