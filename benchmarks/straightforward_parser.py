"""Logs into Parquet as one would write it at first: one process, one record after the other.

``python -m benchmarks.straightforward_parser LOGS OUT.parquet`` gives the columns that
``zkctl history ingest`` gives, out of the same table of shapes: a record's logger and first words
say which expressions to try, a match fills a row, and rows are written 50,000 at a time.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers.arrow_columns import TYPES
from kafka_history.readers.exceptions import exceptional
from kafka_history.readers.selection import candidates_of
from kafka_history.shapes.catalogue import Shape, shapes
from kafka_history.shapes.template import SPEAKER

ROWS_AT_ONCE: Final = 50_000

_SCHEMA: Final = pa.schema([(column.name, TYPES[column.type]) for column in EVENT_COLUMNS])
_TYPE_OF: Final = {column.name: column.type for column in EVENT_COLUMNS}
_HEAD: Final = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3})\] ([A-Z]+) ")
_TAIL: Final = re.compile(r" \(([\w.$-]+)\)$")
_SPEAKER: Final = re.compile(SPEAKER)
_NUMBERS: Final = re.compile(r"brokerId=(\d+)|(?<![=\d])(\d+)")
_ERROR_CODE: Final = re.compile(r"error_?[cC]ode=(-?\d+)")
_REQUESTS: Final = {
    "LEADER_AND_ISR": "LeaderAndIsr",
    "UPDATE_METADATA": "UpdateMetadata",
    "STOP_REPLICA": "StopReplica",
}


class Parser:
    """Records to rows; it knows the shapes by logger and first words."""

    def __init__(self) -> None:
        loggers = {name for shape in shapes() for name in shape.loggers}
        self._table = {
            (name, entry.words): entry.shapes for name in loggers for entry in candidates_of(name)
        }
        self._patterns = {
            name: re.compile(re.escape(name).replace(r"\*", ".*"))
            for name in sorted({loggers for loggers, _ in self._table}, key=lambda n: (-len(n), n))
            if "*" in name
        }
        self._kinds: dict[str, str | None] = {}
        self._compiled: dict[str, re.Pattern[str]] = {}

    def row(self, file: str, line: int, record: str) -> dict[str, Any]:
        """The row of one record; ``broker_id`` stays empty where the line does not tell it."""
        row: dict[str, Any] = {
            "cluster": "cluster", "file": file, "line": line, "lines": record.count("\n") + 1,
            "size_bytes": len(record) + 1, "text": record,
        }  # fmt: skip
        head = _HEAD.match(record)
        if head is None:
            return row
        moment = datetime.strptime(head[1], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
        row["time_ms"] = int(moment.timestamp() * 1000)
        row["level"] = head[2]
        first, _, trace = record.partition("\n")
        tail = _TAIL.search(first)
        if tail is not None:
            message = first[head.end() : tail.start()]
        else:
            tail, trace = _TAIL.search(record), ""
            if tail is None:
                return row
            message = record[head.end() : tail.start()]
        row["logger"] = tail[1]
        for shape in self._candidates(tail[1], message):
            match = self._expression(shape).match(message)
            if match is not None:
                _fill(row, shape, match, message)
                break
        if trace:
            row.update(exceptional(trace.encode())._asdict())
        return row

    def _candidates(self, logger: str, message: str) -> tuple[Shape, ...]:
        if logger not in self._kinds:
            self._kinds[logger] = logger if (logger, "") in self._table else next(
                (name for name, p in self._patterns.items() if p.fullmatch(logger)), None
            )  # fmt: skip
            if any(known == logger for known, _ in self._table):
                self._kinds[logger] = logger
        kind = self._kinds[logger]
        if kind is None:
            return ()
        body = _SPEAKER.sub("", message[:300])
        words = "#" if body[:1].isdigit() else " ".join(body.split(" ", 2)[:2])
        for key in (words, words.split(" ")[0], ""):
            found = self._table.get((kind, key))
            if found is not None:
                return found
        return ()

    def _expression(self, shape: Shape) -> re.Pattern[str]:
        if shape.id not in self._compiled:
            self._compiled[shape.id] = re.compile(shape.expression.pattern)
        return self._compiled[shape.id]


def _fill(row: dict[str, Any], shape: Shape, match: re.Match[str], message: str) -> None:
    row.update(
        shape=shape.id, kind=shape.kind, scenario=shape.story, component=shape.component,
        text=message[:4000], **dict(shape.sets),
    )  # fmt: skip
    others: list[tuple[str, str]] = []
    for name, numbers in shape.expression.groups:
        text = "".join(match[number] or "" for number in numbers)
        if not text:
            continue
        if name in _TYPE_OF:
            row[name] = _value(name, text)
        else:
            others.append((name, text))
    if others:
        row["values"] = others
    if shape.kind.startswith("recv-"):
        code = _ERROR_CODE.search(message)
        row["error_code"] = int(code[1]) if code else None


def _value(name: str, text: str) -> Any:
    if name == "leader_recovery_state":
        return int(text not in ("RECOVERED", "0"))
    if name == "request":
        return _REQUESTS.get(text, text)
    match _TYPE_OF[name]:
        case "int" | "bigint":
            return int(text)
        case "boolean":
            return text == "true"
        case "array<int>":
            return [int(one or other) for one, other in _NUMBERS.findall(text)]
        case _:
            return text


def records_of(path: Path) -> Iterator[tuple[int, str]]:
    """The records of a file, each with the number of its first line."""
    pending: list[str] = []
    began = 1
    with path.open(encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, start=1):
            if line.startswith("[20") and pending:
                yield began, "".join(pending).rstrip("\n")
                pending.clear()
                began = number
            pending.append(line)
    if pending:
        yield began, "".join(pending).rstrip("\n")


def main() -> None:
    """Reads the logs below a folder into one Parquet file; prints records and typed ones."""
    logs, out = Path(sys.argv[1]), sys.argv[2]
    parser = Parser()
    names = [column.name for column in EVENT_COLUMNS]
    records = typed = 0
    with pq.ParquetWriter(out, _SCHEMA, compression="zstd") as writer:
        rows: list[dict[str, Any]] = []

        def flush() -> None:
            columns = [pa.array([row.get(n) for row in rows], _SCHEMA.field(n).type) for n in names]
            writer.write_table(pa.table(columns, schema=_SCHEMA))
            rows.clear()

        for path in sorted(path for path in logs.rglob("*.log*") if path.is_file()):
            for line, record in records_of(path):
                row = parser.row(str(path), line, record)
                rows.append(row)
                records += 1
                typed += "shape" in row
                if len(rows) == ROWS_AT_ONCE:
                    flush()
        flush()
    print(records, typed, len(shapes()))


if __name__ == "__main__":
    main()
