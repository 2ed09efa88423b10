"""Logs that are there twice, whole or in part, under other names: every line counts once."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafka_history.analyses.history import History
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.report.rules_hit import rules_hit
from tests.support.event_rows import row

from .conftest import DATA
from .rows import answers, frame

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]


def lives(history: History) -> list[tuple[int, int, str]]:
    return sorted(answers(history.broker_lives, "broker", "from_ms", "ended_by"))


def test_what_a_broker_prints_beside_its_log_is_counted_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    single, double = tmp_path / "single", tmp_path / "double"
    for broker in (1, 2, 3):
        log = gzip.decompress((DATA / f"incidents-c/broker-{broker}/server.log.gz").read_bytes())
        for root in (single, double):
            folder = root / f"broker-{broker}"
            folder.mkdir(parents=True)
            (folder / "server.log").write_bytes(log)
        lines = log.splitlines(keepends=True)
        heads = [n for n, line in enumerate(lines) if line.startswith(b"[20")]
        beside = double / f"broker-{broker}"
        if broker == 1:  # the console of its last life, behind what the JVM said
            (beside / "kafkaServer.out").write_bytes(b"".join(lines[heads[len(heads) // 3] :]))
        elif broker == 2:  # the log was rotated, the console was not
            (beside / "console.log").write_bytes(log)
            half = heads[len(heads) // 2]
            (beside / "server.log.2026-11-20-17").write_bytes(b"".join(lines[:half]))
            (beside / "server.log").write_bytes(b"".join(lines[half:]))

    once, twice = (
        History(ingest(spark, [str(root)], IngestOptions(out=str(tmp_path / f"{root.name}-out"))))
        for root in (single, double)
    )

    assert lives(twice) == lives(once)
    assert twice.events.count() == once.events.count()
    copied = {
        Path(file).name: records for file, records in answers(twice.copies, "file", "records")
    }
    assert set(copied) == {"kafkaServer.out", "console.log"}
    assert answers(once.copies, "file") == []


def test_a_broker_that_says_the_same_twice_in_one_file_means_it_twice(spark: SparkSession) -> None:
    def said(file: str, at_ms: int) -> dict[str, object]:
        return {**row("net-disconnected", at_ms, 1, "Node 2 disconnected."), "file": file}

    rows = frame(
        spark,
        *(said("broker-1/server.log", 1_000) for _ in range(2)),
        *(said("broker-1/console.log", 1_000) for _ in range(2)),
        said("broker-1/console.log", 5_000),  # the log ends before
        said("broker-2/server.log", 1_000),  # in which the reader found broker 1, too
    )

    history = History(rows)

    assert history.events.count() == 3
    assert answers(sorted(history.copies), "file", "records", "of") == [
        ("broker-1/console.log", 2, "broker-1/server.log"),
        ("broker-2/server.log", 1, "broker-1/server.log"),
    ]


def test_a_state_change_in_a_log_and_in_the_export_counts_once(spark: SparkSession) -> None:
    moved: dict[str, Any] = {"topic": "orders", "partition": 0, "to_state": "OnlinePartition"}
    rows = frame(
        spark,
        row("partition-state", 1_000, 1, "Changed orders-0", file="1/state-change.log", **moved),
        row("partition-state", 1_000, 1, file="1/state-changes.jsonl", **moved),
        row("partition-state", 1_000, 1, file="1/state-changes.jsonl", **moved | {"partition": 1}),
    )

    history = History(rows)

    assert history.totals.records == 2
    assert answers(history.copies, "file", "of") == [
        ("1/state-changes.jsonl", "1/state-change.log")
    ]


def test_files_that_repeat_others_are_named() -> None:
    copied = {"file": "kafkaServer.out", "records": 12, "of": "server.log", "line": 1}
    found: dict[str, object] = {"copies": [copied]}

    class Quiet(dict[str, object]):
        def __missing__(self, key: str) -> object:
            if key == "leaderless_summary":
                return {"windows": 0, "partitions": 0, "partition_seconds": 0, "max_ms": None,
                        "open": 0, "noticed_after_ms": None}  # fmt: skip
            return {"storms": []} if key == "isr_changes" else [] if key != "unknown" else 0

    (hit,) = rules_hit(Quiet(found))

    assert (hit["id"], hit["says"]) == ("K04", "12 records of kafkaServer.out in server.log")
