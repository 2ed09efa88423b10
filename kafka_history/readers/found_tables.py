"""The tables of pieces and files, written and read without Spark.

They hold what :func:`.store.write_found` makes of the same pieces.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import attrgetter
from pathlib import Path
from shutil import rmtree
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from kafka_history.event_schema import SOURCE_COLUMNS
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.piece_reader import Found
from kafka_history.readers.pieces import uri_of
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.soundness import read_tables
from kafka_history.readers.sources import DUPLICATE, Source

UNTYPED_SHARE: Final = 10
"""A file of whose records fewer than one in so many has a known shape is not understood."""
_LAST_BYTES: Final = 4
"""So many bytes at the end of a file need not become records: line ends, a mark of byte order."""
_TYPES: Final = {"string": pa.string(), "int": pa.int32(), "bigint": pa.int64()}
_SOURCES: Final = pa.schema([(c.name, _TYPES[c.type]) for c in SOURCE_COLUMNS])
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


def write_found_here(
    found: Iterable[Found], sources: Sequence[Source], directory: Path, ingest: str
) -> None:
    """Writes the tables of pieces and files, which make rows that were written an ingest."""
    # A file without rows stands there too: it replaces what an earlier ingest read under its name.
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
    _write(pa.Table.from_pylist(rows, schema=_PIECES), directory, "pieces", ingest)
    told = [_source_row(source, by_uri[uri_of(source.file)]) for source in sources]
    _write(pa.Table.from_pylist(told, schema=_SOURCES), directory, "sources", ingest)


def read_sources_here(directory: Path) -> list[dict[str, Any]]:
    """Every file that was looked at, in the columns of ``SOURCE_COLUMNS``, by its name.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, or a table is damaged.
    """
    newest: dict[str, tuple[str, list[dict[str, Any]]]] = {}
    for ingest in complete_ingests(directory):
        for table in read_tables(directory / "sources" / f"ingest={ingest}"):
            for row in table.select(_SOURCES.names).to_pylist():
                known = newest.get(row["file"])
                if known is None or known[0] != ingest:
                    known = newest[row["file"]] = (ingest, [])
                known[1].append(row)
    return [row for _, (_, rows) in sorted(newest.items()) for row in rows]


def is_wanting(source: dict[str, Any]) -> bool:
    """Whether the file was not read, or not whole, or not understood; a duplicate is no problem."""
    is_duplicate = (source["problem"] or "").startswith(DUPLICATE)
    return bool(source["status"] != "read" and not is_duplicate)


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
        # Such a file was taken for a log, and hardly a word of it was understood.
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


def _write(table: pa.Table, directory: Path, name: str, ingest: str) -> None:
    folder = directory / name / f"ingest={ingest}"
    rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    target = folder / "part-00000.zstd.parquet"
    try:
        pq.write_table(table, target, compression="zstd")
    except OSError as error:
        raise HistoryInvalid(f"cannot write {target}: {error}") from None
