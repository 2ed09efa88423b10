"""The tables of pieces and files, written and read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_history.event_schema import SOURCE_COLUMNS
from kafka_history.readers.formats import NO_BROKER
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.piece_reader import Found
from kafka_history.readers.pieces import uri_of
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.soundness import read_tables
from kafka_history.readers.sources import DUPLICATE, Source

UNTYPED_SHARE: Final = 10
"""A file is not understood if fewer than one of this many records has a known shape."""
_LAST_BYTES: Final = 4
"""Bytes of a file that need not become records: line ends, a byte order mark."""
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
SOURCES: Final = pa.schema([(c.name, _TYPES[c.type]) for c in SOURCE_COLUMNS])
_PIECES: Final = pa.schema(
    [
        ("uri", pa.string()),
        *((name, pa.int64()) for name in (
            "block", "first_id", "end_id", "records", "typed", "read_bytes", "first_ms", "last_ms",
        )),
        ("problem", pa.string()),
        ("lines_before", pa.int64()),
    ]
)  # fmt: skip
FOLLOWED_PIECES: Final = _PIECES.append(pa.field("followed", pa.string())).append(
    pa.field("file", pa.string())
)


class PiecePlace(NamedTuple):
    """The place of a piece in its file, to compute the line numbers of its rows."""

    ingest: str
    uri: str
    block: int
    file: str
    lines_before: int
    """Number of lines in the file before the row whose ``line_id`` is 0."""


def write_found(
    found: Iterable[Found], sources: Sequence[Source], directory: Path, ingest: str
) -> None:
    """Writes the tables ``pieces`` and ``sources`` of an ingest whose rows are written."""
    # A file without rows gets a row, too: it replaces what an earlier ingest read of this file.
    by_uri: dict[str, list[Found]] = {uri_of(source.file): [] for source in sources}
    for piece in found:
        by_uri[piece.uri].append(piece)
    rows: list[dict[str, Any]] = []
    for uri, pieces in by_uri.items():
        pieces.sort(key=attrgetter("block"))
        before = 0
        for piece in pieces:
            rows.append({**piece._asdict(), "lines_before": before})
            before += piece.end_id - piece.first_id
        if not pieces:
            rows.append({"uri": uri})
    write_rows(rows, _PIECES, directory, "pieces", ingest)
    described = [_source_row(source, by_uri[uri_of(source.file)]) for source in sources]
    write_rows(described, SOURCES, directory, "sources", ingest)


def newest_pieces(directory: Path, ingests: Sequence[str]) -> list[PiecePlace]:
    """The pieces of each file, of the ingest that read it last.

    A followed file is read from segments: ``uri`` is that of a segment, ``followed`` the permanent
    id of the file.  The newest row with a ``file`` has the file's current path.
    """
    rows = [
        {"followed": None, "file": None, **row, "ingest": ingest}
        for ingest in ingests
        for table in read_tables(directory / "pieces" / f"ingest={ingest}")
        for row in table.to_pylist()
    ]
    last = {row["uri"]: row["ingest"] for row in rows}
    names = {row["followed"]: row["file"] for row in rows if row["file"] is not None}
    return [
        PiecePlace(
            row["ingest"],
            row["uri"],
            row["block"],
            # A file that is not followed has its own path in the URI.
            names.get(row["followed"]) or _file_of(row["uri"]),
            row["lines_before"] - row["first_id"],
        )
        for row in rows
        if row["ingest"] == last[row["uri"]] and row["block"] is not None
    ]


def _file_of(uri: str) -> str:
    return unquote(uri.removeprefix("file:").removeprefix("//")) if uri[:5] == "file:" else uri


def wanting(directory: Path) -> list[dict[str, Any]]:
    """The files that were not read, were read in part, or were not understood."""
    columns = ("file", "status", "records", "problem")
    sources = read_sources(directory)
    return [{name: row[name] for name in columns} for row in sources if is_wanting(row)]


def read_sources(directory: Path) -> list[dict[str, Any]]:
    """Every file that was looked at, with the columns ``SOURCE_COLUMNS``, sorted by path.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, or a table is damaged.
    """
    newest: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for ingest in complete_ingests(directory):
        for table in read_tables(directory / "sources" / f"ingest={ingest}"):
            for row in table.select(SOURCES.names).to_pylist():
                known = newest.get(row["file"])
                if known is None or known[0] != ingest:
                    known = newest[row["file"]] = (ingest, [])
                known[1].append(row)
    return [row for _, (_, rows) in sorted(newest.items()) for row in rows]


def is_wanting(source: dict[str, Any]) -> bool:
    """Whether the file was not, or not fully, read or understood.

    A duplicate lacks nothing, nor does a log that is not a broker's.
    """
    lacks_nothing = (source["problem"] or "").startswith((DUPLICATE, NO_BROKER))
    return bool(source["status"] != "read" and not lacks_nothing)


def _source_row(source: Source, pieces: Sequence[Found]) -> dict[str, Any]:
    read_bytes = sum(piece.read_bytes for piece in pieces)
    records = sum(piece.records for piece in pieces)
    typed = sum(piece.typed for piece in pieces)
    problem = source.problem or min((p.problem for p in pieces if p.problem), default=None)
    status = "read"
    if source.format is None:
        status = "skipped"
    elif problem is not None:
        status = "damaged"
    elif read_bytes < source.content_bytes - _LAST_BYTES:
        status = "damaged"
        problem = f"only {read_bytes} of {source.content_bytes} bytes could be read"
    elif records and typed * UNTYPED_SHARE < records:
        # Its lines look like a log, but hardly any record has a known shape.
        status = "untyped"
        problem = (
            f"only {typed} of its {records} records have a known shape: is the pattern another "
            "one, or is it no log of a broker?"
        )
    first = [piece.first_ms for piece in pieces if piece.first_ms is not None]
    last = [piece.last_ms for piece in pieces if piece.last_ms is not None]
    sums = {
        "records": records,
        "typed": typed,
        "lines": sum(piece.end_id - piece.first_id for piece in pieces),
        "read_bytes": read_bytes,
    }
    return {
        **source._asdict(),
        **(sums if pieces else {}),
        "first_ms": min(first, default=None),
        "last_ms": max(last, default=None),
        "status": status,
        "problem": problem,
    }


def write_rows(
    rows: Iterable[dict[str, Any]], schema: pa.Schema, directory: Path, name: str, ingest: str
) -> None:
    """Writes a table of an ingest; values of a row that the schema lacks are ignored."""
    folder = directory / name / f"ingest={ingest}"
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target = folder / "part-00000.zstd.parquet"
    try:
        pq.write_table(pa.Table.from_pylist(list(rows), schema=schema), target, compression="zstd")
    except OSError as error:
        raise HistoryInvalid(f"cannot write {target}: {error}") from None
