"""Files into rows: folding, numbering, damage, duplicates, prefixes, and our own export."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER, kafka_line
from zkcontroller.state_changes.readers.ingest import IngestOptions, ingest
from zkcontroller.state_changes.readers.problems import HistoryInvalid
from zkcontroller.state_changes.readers.sources import look_at
from zkcontroller.state_changes.readers.store import read_sources
from zkcontroller.state_changes.record import Kind, StateChange

pytestmark = pytest.mark.history

HEAD = "[2026-11-20 18:08:31,404]"
ELECTED = (
    f"{HEAD} INFO [Controller id=2] 2 successfully elected as the controller. Epoch incremented "
    "to 7 and epoch zk version is now 8 (kafka.controller.KafkaController)\n"
)
FAILED = (
    f"{HEAD} ERROR [Controller id=2 epoch=7] Controller 2 epoch 7 failed to change state for "
    "partition orders-1 from OfflinePartition to OnlinePartition (state.change.logger)\n"
    "kafka.common.StateChangeFailedException: Failed to elect leader for partition orders-1\n"
    "\tat scala.collection.Iterator.foreach(Iterator.scala:5)\n"
    "\tat kafka.controller.ZkPartitionStateMachine.$anonfun$x$7(PartitionStateMachine.scala:1)\n"
)
UNKNOWN = f"{HEAD} INFO Nobody knows this line (kafka.unheard.Of)\n"


def test_all_records_of_the_real_logs_are_typed(
    incident_a_rows: DataFrame, incident_c_rows: DataFrame
) -> None:
    both = incident_a_rows.unionByName(incident_c_rows)

    assert both.count() == 22_234
    assert both.where("shape IS NULL OR time_ms IS NULL OR broker_id IS NULL").count() == 0
    assert both.where("line IS NULL OR line < 1").count() == 0


def test_a_line_number_leads_to_the_line(incident_a_rows: DataFrame) -> None:
    rows = incident_a_rows.where("shape IN ('ctl-elected', 'partition-failed')").collect()

    assert len(rows) > 20
    for row in rows:
        with gzip.open(row["file"], "rt", encoding="utf-8") as file:
            line = file.read().split("\n")[row["line"] - 1]
        assert row["text"] in line


def test_damage_is_told_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "cluster" / "broker-2"
    logs.mkdir(parents=True)
    # Torn by a kill: the next start writes directly behind it.
    (logs / "controller.log").write_text(ELECTED + ELECTED[:70] + ELECTED)
    (logs / "state-change.log").write_text(FAILED + UNKNOWN + FAILED[:-30])
    (logs / "server.log").write_bytes(b"\0\1\2\xff" * 500)
    packed = gzip.compress((ELECTED * 2000).encode())
    (logs / "controller.log.2026-11-20-17.gz").write_bytes(packed[: len(packed) // 2])
    (logs / "copy.log").write_text(FAILED + UNKNOWN + FAILED[:-30])
    (logs / "state-change.log.2026-11-20-16").write_text("")

    rows = ingest(spark, [str(tmp_path / "cluster")], IngestOptions(out=str(tmp_path / "out")))

    shapes = {
        (Path(row["file"]).name, row["line"], row["shape"], row["exception_frame_count"])
        for row in rows.where("NOT file LIKE '%gz' AND NOT file LIKE '%copy.log'").collect()
    }
    assert shapes == {
        ("controller.log", 1, "ctl-elected", None),
        ("controller.log", 2, None, None),
        ("controller.log", 2, "ctl-elected", None),
        ("state-change.log", 1, "partition-failed", 2),
        ("state-change.log", 5, None, None),
        ("state-change.log", 6, "partition-failed", 2),
    }
    sources = {
        Path(row["file"]).name: row for row in read_sources(spark, tmp_path / "out").collect()
    }
    assert sources["server.log"]["problem"] == "it is binary, not a log"
    assert sources["server.log"]["status"] == "skipped"
    assert sources["controller.log.2026-11-20-17.gz"]["status"] == "damaged"
    assert sources["state-change.log"]["status"] == "read"


def test_the_export_and_the_text_of_one_run_give_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    records = [
        StateChange(
            Kind.PARTITION_STATE_CHANGED, "controller", 1, controller_epoch=4, topic="orders",
            partition=0, from_state="OfflinePartition", to_state="OnlinePartition", leader=2,
            leader_epoch=3, isr=(1, 2), zk_version=4, leader_recovery_state=0,
        ),
        StateChange(
            Kind.REPLICA_STATE_CHANGED, "controller", 1, controller_epoch=4, topic="orders",
            partition=0, replica=2, from_state="NewReplica", to_state="OnlineReplica",
        ),
        StateChange(
            Kind.LEADER_AND_ISR_FINISHED, "broker", 1, controller_id=1, correlation_id=9, count=3,
            elapsed_ms=12,
        ),
    ]  # fmt: skip
    text, export = tmp_path / "text", tmp_path / "export"
    text.mkdir()
    export.mkdir()
    lines = [line for record in records if (line := kafka_line(record)) is not None]
    (text / "state-change.log").write_text(
        "".join(f"{HEAD} {line.level} {line.message} ({STATE_CHANGE_LOGGER})\n" for line in lines)
    )
    (export / "state-changes.jsonl").write_bytes(
        b"".join(json_line(record, time_ms=1795198111404, host="kafka-1") for record in records)
    )

    told = [
        ingest(spark, [str(folder)], IngestOptions(out=str(tmp_path / f"{folder.name}-out")))
        .drop("cluster", "file", "text", "size_bytes").orderBy("line").collect()
        for folder in (text, export)
    ]  # fmt: skip

    assert told[0] == told[1]
    assert [row["shape"] for row in told[0]] == [
        "partition-online",
        "replica-state",
        "lisr-finished",
    ]
    assert told[0][0]["isr"] == [1, 2]


def test_lines_behind_the_prefix_of_kubectl_are_folded_by_pod(
    spark: SparkSession, tmp_path: Path
) -> None:
    pods = "".join(
        f"[pod/kafka-{pod}/kafka] {line}\n" for line in FAILED.splitlines() for pod in (0, 1)
    )
    (tmp_path / "pods.log").write_text(pods)

    rows = ingest(spark, [str(tmp_path)], IngestOptions(out=str(tmp_path / "out"))).collect()

    assert [(row["shape"], row["lines"], row["exception_frame_count"]) for row in rows] == [
        ("partition-failed", 4, 2)
    ] * 2


def test_what_was_read_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "controller.log").write_text(ELECTED)
    options = IngestOptions(out=str(tmp_path / "out"), time_zone="Europe/Berlin")
    first = ingest(spark, [str(tmp_path / "logs")], options).collect()
    (tmp_path / "logs" / "controller.log.2026-11-20-19").write_text(ELECTED + ELECTED)

    second = ingest(spark, [str(tmp_path / "logs")], options)

    assert first[0]["time_ms"] == 1795198111404 - 3_600_000
    assert second.count() == 3


def test_redacted_rows_name_no_topic_and_still_tell_topics_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "state-change.log").write_text(FAILED + FAILED.replace("orders", "audit") + FAILED)
    options = IngestOptions(out=str(tmp_path / "out"), redact="a secret")

    rows = ingest(spark, [str(tmp_path / "state-change.log")], options).orderBy("line").collect()

    assert not [row for row in rows if "orders" in str(row) or "audit" in str(row)]
    first, second, third = (row["topic"] for row in rows)
    assert first == third != second


def test_a_path_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(HistoryInvalid, match=r"^no such file or folder: /nowhere$"):
        look_at(["/nowhere"])
