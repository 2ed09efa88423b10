"""The rows of a history as events, read in this process: no Spark, no JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

import pyarrow as pa

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.soundness import check_ingests, read_tables, stored_rows
from kafka_history.rules.event import Event, in_order

MEMORY_MAX: Final = 4 << 30
"""Bytes of memory that events may take."""
EVENT_BYTES: Final = 1_800
"""What an event takes with all that is made of it, as measured."""
_NO_CLUSTER: Final = "__HIVE_DEFAULT_PARTITION__"
_STORED: Final = tuple(
    column.name for column in EVENT_COLUMNS if column.name not in ("cluster", "file", "line")
)
_TIME: Final = _STORED.index("time_ms")


class _Piece(NamedTuple):
    """Where the rows of a piece of a file stand in it."""

    file: str
    lines_before: int
    """Before the row whose ``line_id`` is 0."""


def read_events_here(directory: Path, cluster: str | None) -> list[Event]:
    """The events of one cluster, in order: what :func:`.store.read_events` reads by Spark.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, it is damaged, or the events
        would take more memory than :data:`MEMORY_MAX`.
    """
    ingests = complete_ingests(directory)
    check_ingests(directory, ingests)
    pieces = _newest_pieces(directory, ingests)
    folder = f"cluster={_NO_CLUSTER if cluster is None else quote(cluster, safe='')}"
    records = stored_rows(directory, ingests, folder)
    if records * EVENT_BYTES > MEMORY_MAX:
        raise HistoryInvalid(
            f"{records} records would take some {records * EVENT_BYTES >> 20} MB of memory, more "
            f"than the {MEMORY_MAX >> 20} MB that one process may take: use --engine spark"
        )
    found: list[Event] = []
    for ingest in ingests:
        mine = {(uri, block): piece for (of, uri, block), piece in pieces.items() if of == ingest}
        for table in read_tables(directory / "events" / f"ingest={ingest}" / folder):
            found += _events(table, mine, cluster)
    return in_order(found)


def _events(
    table: pa.Table, pieces: Mapping[tuple[str, int], _Piece], cluster: str | None
) -> Iterator[Event]:
    places = zip(*(table[name].to_pylist() for name in ("uri", "block", "line_id")), strict=True)
    rows = zip(*(_values(table, name) for name in _STORED), strict=True)
    for (uri, block, line_id), row in zip(places, rows, strict=True):
        piece = pieces.get((uri, block))
        # What has no time has no place among what happened.
        if piece is not None and row[_TIME] is not None:
            yield Event(cluster, piece.file, line_id + piece.lines_before + 1, *row)


def _values(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table[name].to_pylist()
    if name != "values":
        return values
    return [None if pairs is None else dict(pairs) for pairs in values]


def _newest_pieces(directory: Path, ingests: tuple[str, ...]) -> dict[tuple[str, str, int], _Piece]:
    """By ingest, file and block: of each file those of the ingest that read it last.

    A file that is followed is read in parts, and has the name of its last ingest.
    """
    rows = [
        {"followed": None, "file": None, **row, "ingest": ingest}
        for ingest in ingests
        for table in read_tables(directory / "pieces" / f"ingest={ingest}")
        for row in table.to_pylist()
    ]
    last = {row["uri"]: row["ingest"] for row in rows}
    names = {row["followed"]: row["file"] for row in rows if row["file"] is not None}
    return {
        (row["ingest"], row["uri"], row["block"]): _Piece(
            _file_of(
                row["uri"], row["file"] if row["followed"] is None else names.get(row["followed"])
            ),
            row["lines_before"] - row["first_id"],
        )
        for row in rows
        if row["ingest"] == last[row["uri"]] and row["block"] is not None
    }


def _file_of(uri: str, name: str | None) -> str:
    path = uri.removeprefix("file:").removeprefix("//") if uri.startswith("file:") else uri
    return name or unquote(path)
