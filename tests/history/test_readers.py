"""Files into rows: folding, numbering, damage, duplicates, prefixes, and our own export."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import cramjam
import pytest
from pyspark.sql import DataFrame, SparkSession

from kafka_history.readers.found_tables import read_sources
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.sources import look_at
from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.kafka_lines import STATE_CHANGE_LOGGER, kafka_line
from zkcontroller.state_changes.record import Kind, StateChange

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

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
UNKNOWN = f"{HEAD} INFO No shape is like this line (kafka.unheard.Of)\n"


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


def test_damage_is_reported_and_the_rest_is_read(spark: SparkSession, tmp_path: Path) -> None:
    logs = tmp_path / "cluster" / "broker-2"
    logs.mkdir(parents=True)
    # Torn by a kill: the next start writes directly behind it.
    (logs / "controller.log").write_text(ELECTED + ELECTED[:70] + ELECTED)
    (logs / "state-change.log").write_text(FAILED + UNKNOWN + FAILED[:-30])
    (logs / "server.log").write_bytes(b"\0\1\2\xff" * 500)
    many = _many_lines()
    packed = gzip.compress(many.encode())
    (logs / "controller.log.2026-11-20-17.gz").write_bytes(packed[: len(packed) * 3 // 4])
    wrong = bytearray(packed)
    wrong[len(wrong) * 3 // 4] ^= 0xFF
    (logs / "controller.log.2026-11-20-16.gz").write_bytes(wrong)
    (logs / "controller.log.2026-11-20-15.gz").write_bytes(packed)
    copy = gzip.compress((FAILED + UNKNOWN + FAILED[:-30]).encode())
    (logs / "state-change.log.copy.gz").write_bytes(copy)
    (logs / "state-change.log.2026-11-20-16").write_text("")
    (logs / "other.log").write_text("2026-11-20 18:08:31 INFO Another pattern\n" * 3)

    rows = ingest(spark, [str(tmp_path / "cluster")], IngestOptions(out=str(tmp_path / "out")))

    shapes = {
        (Path(row["file"]).name, row["line"], row["shape"], row["exception_frame_count"])
        for row in rows.where("NOT file LIKE '%controller.log.%'").collect()
    }
    assert shapes == {
        ("controller.log", 1, "ctl-elected", None),
        ("controller.log", 2, None, None),
        ("controller.log", 2, "ctl-elected", None),
        ("state-change.log", 1, "partition-failed", 2),
        ("state-change.log", 5, None, None),
        ("state-change.log", 6, "partition-failed", 2),
    }
    sources = {Path(row["file"]).name: row for row in read_sources(tmp_path / "out")}
    assert sources["server.log"]["problem"] == "it is binary, not a log"
    assert sources["server.log"]["status"] == "skipped"
    assert sources["other.log"]["status"] == "skipped"
    assert "is the pattern another one?" in sources["other.log"]["problem"]
    assert sources["state-change.log.copy.gz"]["problem"] == (
        f"a duplicate of {logs / 'state-change.log'}"
    )
    assert sources["state-change.log"]["status"] == "read"
    # Damaged far behind what is looked at first: the rows before it are there.
    for hour, reason in (17, "Compressed file ended"), (16, "damaged gzip, "):
        source = sources[f"controller.log.2026-11-20-{hour}.gz"]
        assert source["status"] == "damaged"
        assert reason in source["problem"]
        assert source["typed"] > 150
    whole = sources["controller.log.2026-11-20-15.gz"]
    assert (whole["status"], whole["records"], whole["problem"]) == ("read", 350, None)


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


# What each of them puts before a line of pod, service or host 0 or 1, and whether it tells them
# apart; the clock's time is the one at which the line was collected.
PREFIXES = {
    "kubectl-prefix": ("[pod/kafka-{}/kafka] ", True),
    "kubectl-prefix-timestamps": ("[pod/kafka-{}/kafka] 2026-11-20T18:08:31.404920301Z ", True),
    "kubectl-timestamps": ("2026-11-20T18:08:31.404920301Z ", False),
    "cri": ("2026-11-20T19:08:31.404920301+01:00 stdout F ", False),
    "compose": ("kafka-{}  | ", True),
    "compose-old": ("kafka_{}      | ", True),
    "compose-timestamps": ("kafka-{}  | 2026-11-20T18:08:31.404920301Z ", True),
    "journald-short": ("Nov 20 18:08:31 host-{} kafka-server-start.sh[4711]: ", True),
    "journald-short-day": ("Nov  2 18:08:31 host-{} kafka[4711]: ", True),
    "journald-short-precise": ("Nov 20 18:08:31.404920 host-{} kafka[4711]: ", True),
    "journald-short-iso": ("2026-11-20T18:08:31+0000 host-{} kafka[4711]: ", True),
    "journald-short-iso-precise": ("2026-11-20T18:08:31.404920+00:00 host-{} kafka[4711]: ", True),
}


def test_lines_behind_prefixes_are_folded_by_pod_service_or_host(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, (prefix, tells_apart) in PREFIXES.items():
        lines = [
            prefix.format(speaker) + line + "\n"
            for line in (FAILED + ELECTED).splitlines()
            for speaker in ((0, 1) if tells_apart else (0,))
        ]
        folder = tmp_path / name / "logs"
        folder.mkdir(parents=True)
        (folder / "all.log").write_text("".join(lines))

    options = IngestOptions(out=str(tmp_path / "out"), cluster="one")
    rows = ingest(spark, [str(tmp_path)], options).orderBy("file", "line").collect()

    for name, (_, tells_apart) in PREFIXES.items():
        found = [
            (row["shape"], row["lines"], row["exception_frame_count"], row["time_ms"])
            for row in rows
            if f"/{name}/" in row["file"]
        ]
        times = 2 if tells_apart else 1
        assert found == (
            [("partition-failed", 4, 2, 1795198111404)] * times
            + [("ctl-elected", 1, None, 1795198111404)] * times
        ), name


def test_zst_is_read_whatever_is_in_it_and_its_damage_is_reported(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    many = _many_lines()
    record = StateChange(
        Kind.LEADER_AND_ISR_FINISHED, "broker", 1, controller_id=1, correlation_id=9, count=3,
        elapsed_ms=12,
    )  # fmt: skip
    contents = {
        "controller.log": (FAILED + ELECTED).encode(),
        "pods.log": "".join(f"[pod/kafka-0/kafka] {s}\n" for s in FAILED.splitlines()).encode(),
        "state-changes.jsonl": json_line(record, time_ms=1795198111404, host="kafka-1"),
        "cut.log": many.encode(),
    }
    for name, content in contents.items():
        packed = bytes(cramjam.zstd.compress(content))
        whole = len(packed) * 3 // 4 if name == "cut.log" else None
        (logs / f"{name}.zst").write_bytes(packed[:whole])

    rows = ingest(spark, [str(logs)], IngestOptions(out=str(tmp_path / "out")))

    assert {
        (Path(row["file"]).name, row["line"], row["shape"], row["lines"])
        for row in rows.where("NOT file LIKE '%cut%'").collect()
    } == {
        ("controller.log.zst", 1, "partition-failed", 4),
        ("controller.log.zst", 5, "ctl-elected", 1),
        ("pods.log.zst", 1, "partition-failed", 4),
        ("state-changes.jsonl.zst", 1, "lisr-finished", 1),
    }
    for source in read_sources(tmp_path / "out"):
        is_cut = "cut" in source["file"]
        assert source["status"] == ("damaged" if is_cut else "read")
        assert is_cut == (source["problem"] is not None)
        assert not is_cut or 150 < source["typed"] < 350


def _many_lines() -> str:
    """350 records, some 750 KB: 150 of them are more than what is looked at first."""
    numbers = random.Random(7)
    return "".join(
        FAILED + "".join(f"\tat kafka.server.F{numbers.getrandbits(96):x}\n" for _ in range(40))
        for _ in range(350)
    )


def test_what_was_read_is_not_read_again(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "controller.log").write_text(ELECTED)
    options = IngestOptions(out=str(tmp_path / "out"), time_zone="Europe/Berlin")
    first = ingest(spark, [str(tmp_path / "logs")], options).collect()
    (tmp_path / "logs" / "controller.log.2026-11-20-19").write_text(ELECTED + ELECTED)

    second = ingest(spark, [str(tmp_path / "logs")], options)

    assert first[0]["time_ms"] == 1795198111404 - 3_600_000
    assert second.count() == 3


def test_a_file_that_grew_or_was_emptied_replaces_what_was_read_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    logs, options = tmp_path / "logs", IngestOptions(out=str(tmp_path / "out"))
    logs.mkdir()
    (logs / "controller.log").write_text(ELECTED)
    (logs / "server.log").write_text(UNKNOWN)
    ingest(spark, [str(logs)], options)
    with (logs / "controller.log").open("a") as file:
        file.write(FAILED + ELECTED)
    (logs / "server.log").rename(logs / "server.log.2026-11-20-18")
    (logs / "server.log").write_text("")

    rows = ingest(spark, [str(logs)], options).collect()

    assert sorted((Path(row["file"]).name, row["line"], row["shape"]) for row in rows) == [
        ("controller.log", 1, "ctl-elected"),
        ("controller.log", 2, "partition-failed"),
        ("controller.log", 6, "ctl-elected"),
        ("server.log.2026-11-20-18", 1, None),
    ]
    sources = read_sources(tmp_path / "out")
    assert sorted((Path(row["file"]).name, row["records"]) for row in sources) == [
        ("controller.log", 3),
        ("server.log", 0),
        ("server.log.2026-11-20-18", 1),
    ]


def test_redacted_rows_name_no_topic_and_still_tell_topics_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    connected = (
        f"{HEAD} INFO [RequestSendThread controllerId=1] Controller 1 connected to "
        "10.1.2.3:9092 (id: 2 rack: null) for sending state change requests "
        "(kafka.controller.RequestSendThread)\n"
    )
    (tmp_path / "state-change.log").write_text(
        FAILED + FAILED.replace("orders", "audit") + FAILED + connected
    )
    options = IngestOptions(out=str(tmp_path / "out"), redact="a secret")

    rows = ingest(spark, [str(tmp_path / "state-change.log")], options).orderBy("line").collect()

    assert not [row for row in rows for name in ("orders", "audit", "10.1.2.3") if name in str(row)]
    assert (rows[3]["shape"], rows[3]["values"]["port"]) == ("chan-connected", "9092")
    first, second, third = (row["topic"] for row in rows[:3])
    assert first == third != second


def test_a_path_that_is_not_there_is_one_sentence() -> None:
    with pytest.raises(HistoryInvalid, match=r"^no such file or folder: /nowhere$"):
        look_at(["/nowhere"])
