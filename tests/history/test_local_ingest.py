"""Logs that are read without a JVM: the same rows, pieces and files as by Spark."""

from __future__ import annotations

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from kafka_history.readers import local_ingest, session
from kafka_history.readers.found_tables import read_sources, write_found
from kafka_history.readers.ingest import ingest
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import ingest_here, workers_of
from kafka_history.readers.manifest import MANIFEST, read_manifest
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.store import read_events
from tests.support.cli_world import zkctl_here

from .conftest import DATA
from .rows import assert_same_rows

pytestmark = [pytest.mark.history, pytest.mark.timeout(600)]

INCIDENTS = sorted(path.name for path in DATA.glob("incidents-*"))


def unpacked(name: str) -> bytes:
    return gzip.decompress((DATA / name).read_bytes())


def stored(folder: Path) -> list[dict[str, Any]]:
    """The rows as they are stored, whichever task wrote them."""
    tables = [pq.read_table(path, partitioning=None) for path in folder.rglob("*.parquet")]
    rows = [row for table in tables for row in table.to_pylist()]
    return sorted(rows, key=repr)


def assert_same(spark: SparkSession, logs: list[str], tmp_path: Path, **how: Any) -> None:
    """Both ways store the same; two workers share the work."""
    here, there = (IngestOptions(str(tmp_path / name), **how) for name in ("here", "there"))
    ingest_here(logs, here, 2)
    rows = ingest(spark, logs, there)

    for table in ("pieces", "sources"):
        assert stored(tmp_path / "here" / table) == stored(tmp_path / "there" / table)
    assert_same_rows(read_events(spark, here.out), rows)


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """All that can be wrong with files, in one folder, with all formats that there are."""
    logs = tmp_path / "logs"
    logs.mkdir()
    broker, other = logs / "broker-1", logs / "broker-2"
    broker.mkdir()
    other.mkdir()
    state_changes = unpacked("incidents-c/broker-1/state-change.log.gz")
    packed = (DATA / "incidents-c/broker-1/server.log.gz").read_bytes()
    (broker / "server.log.gz").write_bytes(packed[: len(packed) // 2])
    (broker / "state-change.log").write_bytes(state_changes)
    (broker / "copy-of.state-change.log").write_bytes(state_changes)
    (broker / "state-change.log.1.gz").write_bytes(gzip.compress(state_changes))
    (broker / "empty.log").write_bytes(b"")
    (broker / "other-empty.log").write_bytes(b"")
    (broker / "binary.log").write_bytes(b"\x7fELF\0\0\0" * 100)
    (other / "prefixed.log").write_bytes(
        re.sub(rb"(?m)^", b"broker-2-1  | ", unpacked("incidents-c/broker-2/controller.log.gz"))
    )
    (other / "hardly.log").write_bytes(
        b"[2026-11-20 18:08:31,404] INFO Hello there (kafka.unheard.Of)\n" * 50
    )
    (other / "state-changes.jsonl").write_bytes(
        (DATA / "shape-examples.jsonl").read_bytes()[:5000]
        + b'{"version":1,"broker_id":2,"time_ms":1795198111404,"kind":"unheard-of"}\n{"half": \n'
    )
    return logs


def test_the_stored_incidents_become_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    assert len(INCIDENTS) == 5
    assert_same(spark, [str(DATA / name) for name in INCIDENTS], tmp_path)


def test_redacted_rows_are_the_same(spark: SparkSession, tmp_path: Path) -> None:
    assert_same(spark, [str(DATA / "incidents-1.1.1")], tmp_path, redact="a secret")


def test_damage_is_the_same(spark: SparkSession, damaged: Path, tmp_path: Path) -> None:
    assert_same(spark, [str(damaged)], tmp_path, time_zone="Europe/Berlin", broker_id=7)

    found = {Path(row["file"]).name: row for row in read_sources(tmp_path / "here")}
    assert {row["status"] for row in found.values()} == {"read", "damaged", "untyped", "skipped"}
    assert found["hardly.log"]["problem"].startswith("only 0 of its 50 records have a known shape")
    assert found["empty.log"]["records"] == 0


def test_pieces_of_one_file_become_the_same_lines(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafka_history.readers import pieces

    monkeypatch.setattr(pieces, "PIECE_BYTES_MIN", 50_000)
    log = tmp_path / "broker-1" / "state-change.log"
    log.parent.mkdir()
    log.write_bytes(unpacked("incidents-c/broker-1/state-change.log.gz"))

    assert_same(spark, [str(log)], tmp_path)
    assert len(stored(tmp_path / "here" / "pieces")) > 4


def test_a_file_that_grew_is_read_again_and_one_that_did_not_is_not(tmp_path: Path) -> None:
    log, other = tmp_path / "broker-1" / "server.log", tmp_path / "broker-1" / "controller.log"
    log.parent.mkdir()
    content = unpacked("incidents-c/broker-1/server.log.gz")
    other.write_bytes(unpacked("incidents-c/broker-1/controller.log.gz"))
    log.write_bytes(content[:20_000])
    out = tmp_path / "out"
    options = IngestOptions(str(out))

    ingest_here([str(log.parent)], options, 1)
    before = {row["file"]: row["records"] for row in read_sources(out)}
    ingest_here([str(log.parent)], options, 1)
    assert read_manifest(out).ingests == ("000001",)
    log.write_bytes(content)
    ingest_here([str(log.parent)], options, 1)

    assert read_manifest(out).ingests == ("000001", "000002")
    after = {row["file"]: row["records"] for row in read_sources(out)}
    assert after[str(other)] == before[str(other)]
    assert after[str(log)] > before[str(log)]


def test_an_ingest_that_failed_midway_does_not_count_and_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs, out = [str(DATA / "incidents-c" / "broker-2")], tmp_path / "out"
    run: Callable[..., Any] = local_ingest._run

    def full(*arguments: Any) -> Any:
        run(*arguments)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(local_ingest, "_run", full)
        with pytest.raises(HistoryInvalid, match="No space left on device"):
            ingest_here(logs, IngestOptions(str(out)), 1)
    assert not (out / MANIFEST).exists()
    assert list((out / "events").rglob("*.parquet"))

    ingest_here(logs, IngestOptions(str(out)), 1)
    records = sum(row["records"] for row in read_sources(out))
    assert len(stored(out / "events")) == records > 0


def test_rows_that_are_missing_are_no_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"

    def lose_a_file(*arguments: Any) -> None:
        write_found(*arguments)
        next((out / "events").rglob("*.parquet")).unlink()

    monkeypatch.setattr(local_ingest, "write_found", lose_a_file)

    with pytest.raises(HistoryInvalid, match="records were read: a file is missing"):
        ingest_here([str(DATA / "incidents-c" / "broker-2")], IngestOptions(str(out)), 1)
    assert read_manifest(out).ingests == ()


def test_only_this_machine_is_read_on_without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)

    assert workers_of("local") == 1
    assert workers_of("local[3]") == 3
    assert workers_of("local[3,2]") == 3
    assert workers_of("local[1000]") == local_ingest.WORKERS_MAX
    assert workers_of("local[*]") in range(1, local_ingest.WORKERS_MAX + 1)
    assert workers_of("local-cluster[2,1,1024]") is None
    assert workers_of("spark://host:7077") is None
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    assert workers_of("local[*]") is None


def test_the_verb_reads_logs_without_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(*_args: Any, **_options: Any) -> NoReturn:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(session, "start_spark", start)
    ingest_incident = ["history", "ingest", str(DATA / "incidents-1.1.1"), "--out", str(tmp_path)]

    result = zkctl_here("-o", "jsonl", *ingest_incident)

    assert result.exit_code == 0
    shown = [json.loads(line) for line in result.stdout.splitlines()]
    assert shown == read_sources(tmp_path)
    records = sum(row["records"] for row in shown)
    assert f"{records} records, 0 of unknown shape, in 9 files: {tmp_path}" in result.stderr


HEAD = "[2023-05-10 09:30:00,020] INFO "
STABILIZED = (
    "[GroupCoordinator 1]: Stabilized group billing generation 9 (__consumer_offsets-12) with "
    "2 members (kafka.coordinator.group.GroupCoordinator)"
)


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([HEAD + STABILIZED] * 5, "5 records, 0 of unknown shape"),
        (
            [f"{HEAD}{number} of a plugin (com.example.Plugin)" for number in range(5)],
            "most records are of unknown shape: they are kept",
        ),
        (
            [HEAD + STABILIZED, *["09:30 no head of Kafka's"] * 50],
            "few lines begin a record: is the logs' pattern another one? Say --pattern",
        ),
    ],
    ids=["a coordinator's lines", "another program's lines", "another pattern"],
)
def test_only_lines_that_begin_no_record_ask_for_another_pattern(
    tmp_path: Path, lines: list[str], said: str
) -> None:
    log = tmp_path / "server.log"
    log.write_text("\n".join([*lines, ""]))

    result = zkctl_here("history", "ingest", str(log), "--out", str(tmp_path / "out"))

    assert result.exit_code == 0
    assert said in result.stderr
    assert ("--pattern" in result.stderr) == ("--pattern" in said)


_PARENT = """
import os, time
from multiprocessing import get_context
from kafka_history.readers.local_ingest import pool_of
if __name__ == "__main__":
    with pool_of(2, get_context("spawn").Value("q", 0)) as pool:
        print(pool.submit(os.getpid).result(), flush=True)
        pool.submit(time.sleep, 600).result()
"""


def test_workers_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(_PARENT)
    parent = subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    worker = int(parent.stdout.readline())
    assert worker != parent.pid

    parent.kill()

    # The workers have the same stdout: it ends when the last of them does.
    assert parent.communicate(timeout=300)[0] == ""
