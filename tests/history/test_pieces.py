"""Files in pieces, records into columns: what the workers of an ingest do, without Spark."""

from __future__ import annotations

import gzip
import json
import re
import threading
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers import progress
from kafka_history.readers.content import Content
from kafka_history.readers.log_times import times_ms, zone_of
from kafka_history.readers.manifest import Manifest, clusters_in, write_manifest
from kafka_history.readers.piece_reader import Found, read_pieces
from kafka_history.readers.pieces import PIECE_BYTES, Piece, tasks_of
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.record_blocks import (
    RECORD_CAPACITY,
    Block,
    merged,
    record_blocks,
)
from kafka_history.readers.sources import Source
from kafka_history.readers.typed_tables import Typer

DATA = Path(__file__).parent / "data"
HEAD = "[2026-11-20 18:08:31,404]"
TYPES = {column.name: column.type for column in EVENT_COLUMNS}
EXAMPLES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (DATA / "shape-examples.jsonl").read_text(encoding="utf-8").splitlines()
]


def piece(path: Path, start: int = 0, end: int | None = None) -> Piece:
    return Piece(str(path), "log4j", "cluster", None, start, end, path.stat().st_size)


def blocks(path: Path, start: int = 0, end: int | None = None, step_bytes: int = 1 << 20) -> Block:
    content = Content(path, max(start - 1, 0), step_bytes)
    found = list(record_blocks(content, start, end))
    nothing = np.array([], np.int64)
    return merged(found) if found else Block([], nothing, nothing, nothing, None, 0)


def rows(path: Path) -> list[dict[str, Any]]:
    table, _ = Typer(zone_of("UTC")).typed(blocks(path))
    found: list[dict[str, Any]] = table.sort_by("line_id").to_pylist()
    return found


def said(row: dict[str, Any], field: str) -> str:
    """A field of a typed row as it stood in the line."""
    value = row[field] if field in TYPES else dict(row["values"])[field]
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def test_every_shape_is_recognised_and_its_fields_become_columns(tmp_path: Path) -> None:
    log = tmp_path / "all.log"
    log.write_text(
        "".join(f"{HEAD} INFO {e['line']} ({e['logger']})\n" for e in EXAMPLES), encoding="utf-8"
    )

    found = rows(log)

    assert [row["shape"] for row in found] == [example["shape"] for example in EXAMPLES]
    for row, example in zip(found, EXAMPLES, strict=True):
        assert row["text"] == example["line"][:4_000]
        for field, text in example["fields"].items():
            assert said(row, field) == stored(field, text), (example["shape"], field)


def stored(field: str, text: str) -> str:
    """What a field is read as; what does not fit its column is null."""
    match TYPES.get(field):
        case "array<int>":
            return ",".join(re.findall(r"brokerId=(\d+)", text) or re.findall(r"\d+", text))
        case "int" | "bigint" if field != "leader_recovery_state":
            return text if re.fullmatch(r"-?\d+", text) else "None"
        case "boolean":
            return text if text in ("true", "false") else "None"
        case _:
            pass
    if field == "leader_recovery_state":
        return "0" if text in ("RECOVERED", "0") else "1"
    return {"LEADER_AND_ISR": "LeaderAndIsr", "UPDATE_METADATA": "UpdateMetadata",
            "STOP_REPLICA": "StopReplica"}.get(text, text)  # fmt: skip


def test_a_file_in_pieces_holds_the_same_records_as_the_whole(tmp_path: Path) -> None:
    packed = DATA / "incidents-c" / "broker-1" / "server.log.gz"
    log = tmp_path / "server.log"
    log.write_bytes(gzip.decompress(packed.read_bytes()))
    size = log.stat().st_size
    whole = blocks(log)

    for step, step_bytes in ((size // 7, 1 << 16), (size // 3, 5_000), (50_021, 1 << 20)):
        bounds = [*range(0, size, step), None]
        parts = [blocks(log, begin or 0, end, step_bytes) for begin, end in pairwise(bounds)]
        assert [record for part in parts for record in part.records] == whole.records
        assert sum(int(sum(part.sizes)) for part in parts) == size
        lines_before = 0
        line_ids: list[int] = []
        for part in parts:
            line_ids += [lines_before + int(number) for number in part.line_ids]
            lines_before += part.end_id
        assert line_ids == whole.line_ids.tolist()


def test_a_line_of_many_megabytes_is_cut_and_its_neighbours_are_whole(tmp_path: Path) -> None:
    elected = (
        f"{HEAD} INFO [Controller id=2] 2 successfully elected as the controller. Epoch incremented"
        " to 7 and epoch zk version is now 8 (kafka.controller.KafkaController)\n"
    )
    log = tmp_path / "controller.log"
    with log.open("w") as file:
        file.write(elected)
        file.write(f"{HEAD} DEBUG [ReplicaStateMachine controllerId=2] Started replica state ")
        file.write("machine with initial state -> Map(")
        for _ in range(40):
            file.write("[Topic=a,Partition=0,Replica=1] -> OnlineReplica, " * 20_000)
        file.write(") (kafka.controller.ZkReplicaStateMachine)\n")
        file.write(elected)

    found = rows(log)

    assert [(row["shape"], row["line_id"]) for row in found] == [
        ("ctl-elected", 0),
        ("rsm-started", 1),
        ("ctl-elected", 2),
    ]
    assert found[1]["size_bytes"] > 3 * RECORD_CAPACITY
    assert len(dict(found[1]["values"])["states"]) < RECORD_CAPACITY
    assert "bytes are left out here" in dict(found[1]["values"])["states"]


def test_a_file_that_holds_one_endless_line_is_one_record(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    with log.open("w") as file:
        file.write(f"{HEAD} INFO begins ")
        for _ in range(30):
            file.write("x" * 1_000_000)

    found = rows(log)

    assert [(row["shape"], row["level"], len(row["text"])) for row in found] == [
        (None, "INFO", 64_000)
    ]


def test_bytes_that_are_no_text_cost_one_character(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_bytes(
        f"{HEAD} INFO Creating topic caf\u00e9 (some.Logger)\n".encode()
        + f"{HEAD} INFO Creating topic ".encode()
        + b"caf\xe9 (some.Logger)\r\n"
    )

    # What is not understood is kept as it stands in the file, its date included.
    assert [row["text"] for row in rows(log)] == [
        f"{HEAD} INFO Creating topic caf\u00e9 (some.Logger)",
        f"{HEAD} INFO Creating topic caf\ufffd (some.Logger)",
    ]


def test_what_is_no_record_is_kept_from_its_first_character(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"Java HotSpot warning\n{HEAD} INFO Unheard of\n[20 of them, and no date\n")

    assert [row["text"] for row in rows(log)] == [
        "Java HotSpot warning",
        f"{HEAD} INFO Unheard of",
        "[20 of them, and no date",
    ]


def test_rows_of_two_days_stand_in_two_folders(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(
        "[2026-11-20 23:59:59,999] INFO Nobody knows (a.B)\n"
        "[2026-11-21 00:00:00,000] INFO Nobody knows (a.B)\n"
        "[2026-02-31 00:00:00,000] INFO no such day (a.B)\n"
    )

    (found,) = read_pieces(3, [piece(log)], str(tmp_path / "events"), "UTC", lambda _: None)

    assert found == Found(
        f"file:{log}", 0, 0, 3, 3, 0, log.stat().st_size, 1795219199999, 1795219200000, None
    )
    assert sorted(str(path.parent.name) for path in (tmp_path / "events").rglob("*.parquet")) == [
        "day=2026-11-20",
        "day=2026-11-21",
        "day=unknown",
    ]


def test_a_task_that_is_tried_again_leaves_the_same_files(tmp_path: Path) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{HEAD} INFO No shape is like this (a.B)\n")
    events = tmp_path / "events"

    for _ in range(2):
        list(read_pieces(3, [piece(log)], str(events), "UTC", lambda _: None))

    assert len([path for path in events.rglob("*") if path.is_file()]) == 1


def test_local_times_become_utc_and_the_double_hour_is_the_first_of_the_two() -> None:
    records = [
        b"26-07-01 12:00:00,001] ", b"26-12-01 12:00:00,001] ", b"26-10-25 02:30:00,000] ",
        b"26-03-29 02:30:00,000] ", b"26-13-01 00:00:00,000] ", b"no time",
    ]  # fmt: skip

    moments, is_head = times_ms(records, zone_of("Europe/Berlin"))

    assert [str(pa.scalar(int(moment), pa.timestamp("ms")).as_py()) for moment in moments[:4]] == [
        "2026-07-01 10:00:00.001000",
        "2026-12-01 11:00:00.001000",
        "2026-10-25 00:30:00",
        "2026-03-29 01:30:00",
    ]
    assert is_head.tolist() == [True] * 5 + [False]


@pytest.mark.parametrize("name", ["Europe/Nowhere", "../etc/passwd", ""])
def test_a_zone_that_does_not_exist_is_refused(name: str) -> None:
    with pytest.raises(HistoryInvalid, match="no time zone"):
        zone_of(name)


def test_large_files_are_cut_small_ones_are_gathered_and_what_is_packed_stays_whole() -> None:
    def source(name: str, size_bytes: int, form: str = "log4j") -> Source:
        return Source(name, size_bytes, 0, size_bytes, form, 1, "c")

    tasks = tasks_of(
        [
            source("large.log", 2_000 << 20),
            source("packed.log.gz", 200 << 20),
            source("pods.log", 100 << 20, "prefixed"),
            *(source(f"small-{n}.log", 100_000) for n in range(10_000)),
        ],
        cores=2,
    )

    pieces = [piece for task in tasks for piece in task]
    large = sorted((p.start, p.end) for p in pieces if p.file == "large.log")
    assert [end for _, end in large][:-1] == [start for start, _ in large][1:]
    assert (large[0][0], large[-1][1]) == (0, None)
    assert len(large) == 32
    assert [p.file for p in tasks[0]] == ["packed.log.gz"]
    assert sum(p.file == "pods.log" for p in pieces) == 1
    assert len(tasks) < 60
    gathered = [task for task in tasks if len(task) > 1]
    assert all(sum(p.size_bytes for p in task) <= PIECE_BYTES for task in gathered)


def test_progress_is_reported_while_it_changes_and_not_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "INTERVAL_S", 0.001)
    told: list[tuple[int, int]] = []
    done = [0]
    has_heard = threading.Event()

    def tell(now: int, total: int) -> None:
        told.append((now, total))
        has_heard.set()

    with progress.telling(tell, lambda: done[0], 300):
        for now in (100, 200):
            done[0] = now
            assert has_heard.wait(30)
            has_heard.clear()

    assert told == [(100, 300), (200, 300)]
    assert not [thread for thread in threading.enumerate() if thread.name == "history-progress"]


def test_which_clusters_there_are_is_reported_by_folders_of_complete_ingests(
    tmp_path: Path,
) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"{HEAD} INFO No shape is like this (a.B)\n")
    for ingest, cluster in (("000001", "a/b=c d"), ("000002", "other"), ("000003", "died")):
        named = piece(log)._replace(cluster=cluster)
        events = str(tmp_path / "out" / "events" / f"ingest={ingest}")
        list(read_pieces(0, [named], events, "UTC", lambda _: None))
    write_manifest(tmp_path / "out", Manifest(("000001", "000002"), {}))

    assert clusters_in(tmp_path / "out") == ["a/b=c d", "other"]
