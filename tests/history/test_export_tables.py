"""Lines of our export into typed rows, and rows without names: in a worker, without Spark."""

from __future__ import annotations

import gzip
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_history.readers.content import Content
from kafka_history.readers.envelopes import ENVELOPES
from kafka_history.readers.export_tables import ExportTyper
from kafka_history.readers.log_times import zone_of
from kafka_history.readers.piece_reader import Found, read_pieces
from kafka_history.readers.pieces import PIECE_BYTES, Piece, tasks_of
from kafka_history.readers.record_blocks import (
    RECORD_CAPACITY,
    Block,
    enveloped_blocks,
    line_blocks,
    merged,
    record_blocks,
)
from kafka_history.readers.redaction import redacted
from kafka_history.readers.sources import Source
from kafka_history.readers.typed_tables import Typer
from zkcontroller.state_changes.export import json_line
from zkcontroller.state_changes.record import Kind, Reason, StateChange

DATA = Path(__file__).parent / "data"
TIME_MS = 1795198111404
FINISHED = StateChange(
    Kind.LEADER_AND_ISR_FINISHED, "broker", 1, controller_id=1, correlation_id=9, count=3,
    elapsed_ms=12,
)  # fmt: skip
FAILED = StateChange(
    Kind.PARTITION_STATE_FAILED, "controller", 2, controller_epoch=7, topic="orders", partition=1,
    from_state="OfflinePartition", to_state="OnlinePartition",
    cause="kafka.common.StateChangeFailedException: Failed to elect leader for orders-1\nmore",
)  # fmt: skip


def line_of(record: StateChange) -> bytes:
    return json_line(record, time_ms=TIME_MS, host="kafka-1")


def block_of(*lines: bytes) -> Block:
    ones = np.ones(len(lines), np.int64)
    return Block(list(lines), np.arange(len(lines)), ones, ones, None, len(lines))


def rows_of(*lines: bytes) -> list[dict[str, Any]]:
    table, order = ExportTyper().typed(block_of(*lines))
    assert order.tolist() == list(range(len(lines)))
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def lines_of(path: Path, start: int = 0, end: int | None = None, step: int = 1 << 20) -> Block:
    found = list(line_blocks(Content(path, max(start - 1, 0), step), start, end))
    nothing = np.array([], np.int64)
    return merged(found) if found else Block([], nothing, nothing, nothing, None, 0)


def test_a_record_names_its_kind_and_the_row_has_the_shape_of_its_line() -> None:
    roles = {
        Kind.TRANSITION_STARTED: "lisr-follower-step",
        Kind.TRANSITION_COMPLETED: "lisr-follower-step",
        Kind.FETCHERS_STOPPED: "stopped-fetchers-follower",
        Kind.TRANSITION_SKIPPED: "skipped-follower-state",
    }

    for kind, shape in roles.items():
        (row,) = rows_of(line_of(FINISHED._replace(kind=kind, role="follower")))
        assert (row["shape"], row["role"]) == (shape, "follower")
    (row,) = rows_of(
        line_of(
            FINISHED._replace(
                kind=Kind.TRANSITION_SKIPPED, role="leader", reason=Reason.STORAGE_ERROR
            )
        )
    )
    assert row["shape"] == "leader-disk-error"


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_record_has_a_shape(kind: Kind) -> None:
    (row,) = rows_of(line_of(FINISHED._replace(kind=kind, role="leader")))

    assert row["shape"]
    assert (row["kind"], row["level"]) != (None, None)


def test_a_record_with_a_cause_fills_the_columns_of_an_exception() -> None:
    (row,) = rows_of(line_of(FAILED))

    assert (row["shape"], row["level"], row["topic"]) == ("partition-failed", "ERROR", "orders")
    assert row["exception_class"] == "kafka.common.StateChangeFailedException"
    assert row["exception_message"] == "Failed to elect leader for orders-1"


def test_a_response_gives_its_error_code_and_stays_as_a_value() -> None:
    response = "StopReplicaResponseData(errorCode=-1, partitionErrors=[])"

    (row,) = rows_of(line_of(FINISHED._replace(kind=Kind.RESPONSE_RECEIVED, response=response)))

    assert (row["error_code"], row["values"]) == (-1, [("response", response)])


@pytest.mark.parametrize(
    "line",
    [
        b"", b"no json", line_of(FINISHED)[:50], b"5", b"null", b'["kind"]', b"[" * 200_000,
        b'{"kind":["leader_and_isr_finished"]}', b'{"kind":"unheard_of"}', b"\xff\xfe",
        b'{"kind":"leader_and_isr_finished' + b"x" * 9_000,
    ],
    ids=lambda line: repr(line[:24]),
)  # fmt: skip
def test_a_line_that_is_no_record_stays_without_a_shape(line: bytes) -> None:
    (row,) = rows_of(line)

    assert row["shape"] is row["kind"] is row["level"] is row["time_ms"] is None
    assert row["text"] == line.decode(errors="replace")[:4_000]


def test_a_record_that_a_torn_line_begins_with_is_read() -> None:
    whole = line_of(FINISHED).rstrip()

    rows = rows_of(whole + line_of(FAILED)[:40], whole.replace(b'"broker"', b'"caf\xe9"'))

    assert [row["shape"] for row in rows] == ["lisr-finished", "lisr-finished"]
    assert [row["component"] for row in rows] == ["broker", "caf\ufffd"]


def test_a_value_of_another_type_is_null_and_its_neighbours_are_there() -> None:
    wrong = (
        b'{"kind":"leader_and_isr_finished","time_ms":"soon","broker_id":99999999999,"topic":5,'
        b'"isr":["a"],"is_new":1,"count":[1],"elapsed_ms":1e300,"response":7,"cause":{},'
        b'"correlation_id":9}'
    )

    row, neighbour = rows_of(wrong, line_of(FINISHED))

    assert (row["shape"], row["correlation_id"]) == ("lisr-finished", 9)
    for name in ("time_ms", "broker_id", "topic", "isr", "is_new", "count", "elapsed_ms"):
        assert row[name] is None, name
    assert (neighbour["time_ms"], neighbour["count"]) == (TIME_MS, 3)


def test_an_export_in_pieces_holds_the_same_lines_as_the_whole(tmp_path: Path) -> None:
    path = tmp_path / "state-changes.jsonl"
    lines = [line_of(FINISHED._replace(count=10**n)) for n in range(9)] * 50
    path.write_bytes(b"\n".join([*lines, b"", b"\r"]))
    size = path.stat().st_size
    whole = lines_of(path)

    assert whole.records == [part for line in lines for part in (line[:-1], b"")] + [b"", b""]
    for piece, step in ((size // 7, 1 << 16), (size // 3, 500), (511, 1 << 20)):
        bounds = [*range(0, size, piece), None]
        parts = [lines_of(path, begin or 0, end, step) for begin, end in pairwise(bounds)]
        assert [line for part in parts for line in part.records] == whole.records
        assert sum(int(sum(part.sizes)) for part in parts) == int(sum(whole.sizes)) == size + 1


def test_an_endless_line_takes_bounded_memory_and_its_neighbours_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "state-changes.jsonl"
    with path.open("wb") as file:
        file.write(line_of(FINISHED) + b'{"kind":"')
        for _ in range(30):
            file.write(b"x" * 1_000_000)
        file.write(b'"}\n' + line_of(FAILED))

    block = lines_of(path)

    assert len(block.records[1]) <= 2 * RECORD_CAPACITY
    assert int(sum(block.sizes)) == path.stat().st_size
    shapes = [row["shape"] for row in rows_of(*block.records)]
    assert shapes == ["lisr-finished", None, "partition-failed"]


def test_a_large_export_is_read_in_pieces() -> None:
    export = Source("state-changes.jsonl", 300 << 20, 0, 300 << 20, "jsonl", 1, "c")

    pieces = [piece for task in tasks_of([export], cores=2) for piece in task]

    assert len(pieces) > 4
    assert all(piece.size_bytes <= PIECE_BYTES for piece in pieces)


def test_a_damaged_export_gives_what_stands_before_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "state-changes.jsonl.gz"
    numbered = [line_of(FINISHED._replace(elapsed_ms=n**4)) for n in range(20_000)]
    packed = gzip.compress(b"".join(numbered))
    path.write_bytes(packed[: len(packed) * 3 // 4])
    piece = Piece(str(path), "jsonl", "cluster", 1, 0, None, path.stat().st_size)

    found: list[Found] = list(
        read_pieces(0, [piece], str(tmp_path / "events"), "UTC", lambda _: None)
    )

    assert 10_000 < found[0].typed < 20_000
    assert "damaged gzip, " in (found[0].problem or "")


def redacted_rows(path: Path, key: str) -> list[dict[str, Any]]:
    block = merged(list(record_blocks(Content(path), 0, None)))
    rows: list[dict[str, Any]] = redacted(Typer(zone_of("UTC")).typed(block).table, key).to_pylist()
    return rows


def test_no_name_of_a_real_log_is_left_and_what_is_no_name_stays() -> None:
    path = DATA / "incidents-a" / "broker-1" / "server.log.gz"
    block = merged(list(record_blocks(Content(path), 0, None)))
    plain: list[dict[str, Any]] = Typer(zone_of("UTC")).typed(block).table.to_pylist()
    topics = {row["topic"] for row in plain if row["topic"]}

    rows = redacted_rows(path, "a secret")

    assert topics
    assert not [row for row in rows for name in topics if name in str(row)]
    kept = ("line_id", "time_ms", "level", "shape", "broker_id", "leader", "isr", "offset")
    assert [[row[name] for name in kept] for row in rows] == [
        [row[name] for name in kept] for row in plain
    ]
    names = {(one["topic"], other["topic"]) for one, other in zip(plain, rows, strict=True)}
    assert len(names) == len({name for name, _ in names}) == len({name for _, name in names})


def test_a_name_has_the_hash_that_it_has_always_had_under_the_key() -> None:
    (row,) = redacted(ExportTyper().typed(block_of(line_of(FAILED))).table, "key").to_pylist()

    assert row["topic"] == "r-d0effa240e80"
    assert re.fullmatch("r-[0-9a-f]{12}", row["exception_message"])
    assert row["fingerprint"] == "kafka.common.StateChangeFailedException"
    assert row["text"] is row["topic_id"] is row["error"] is None


def test_pods_and_hosts_of_prefixes_are_hashed_and_still_distinguished(tmp_path: Path) -> None:
    path = tmp_path / "pods.log"
    line = "[2026-11-20 18:08:31,404] INFO No shape is like this (a.B)\n"
    path.write_text("".join(f"[pod/kafka-{n}/kafka] {line}" for n in (0, 1, 0)))
    block = merged(list(enveloped_blocks(Content(path), ENVELOPES["prefixed"])))

    rows = redacted(Typer(zone_of("UTC")).typed(block).table, "key").to_pylist()

    first, second, third = (row["stream"] for row in sorted(rows, key=lambda r: r["line_id"]))
    assert first == third != second
    assert not [row for row in rows if "kafka-" in str(row)]


def test_values_are_hashed_unless_they_are_numbers_or_words_of_kafkas(tmp_path: Path) -> None:
    head = "[2026-11-20 18:08:31,404] INFO [RequestSendThread controllerId=1]"
    path = tmp_path / "controller.log"
    path.write_text(
        f"{head} Controller 1 connected to 10.1.2.3:9092 (id: 2 rack: null) for sending state "
        "change requests (kafka.controller.RequestSendThread)\n"
    )

    (row,) = redacted_rows(path, "key")

    values = dict(row["values"])
    assert (values["port"], values["rack"]) == ("9092", "null")
    assert re.fullmatch("r-[0-9a-f]{12}", values["host"])
