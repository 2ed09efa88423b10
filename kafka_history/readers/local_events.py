"""Reads the rows of a history as events in this process, without Spark or a JVM."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import compress, repeat
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pyarrow as pa

from kafka_history.event_schema import EVENT_COLUMNS
from kafka_history.readers.found_tables import PiecePlace, newest_pieces
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.problems import HistoryInvalid
from kafka_history.readers.soundness import check_ingests, read_tables, stored_rows
from kafka_history.rules.event import Event, in_order

MEMORY_MAX: Final = 4 << 30
"""Bytes of memory that events may use."""
EVENT_BYTES: Final = 1_800
"""Bytes of memory for an event and the findings made from it, as measured."""
_NO_CLUSTER: Final = "__HIVE_DEFAULT_PARTITION__"
_STORED: Final = tuple(
    column.name for column in EVENT_COLUMNS if column.name not in ("cluster", "file", "line")
)
_TIME: Final = _STORED.index("time_ms")


def read_events_here(directory: Path, cluster: str | None) -> list[Event]:
    """The events of one cluster, in order; :func:`.store.read_events` reads the same by Spark.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, it is damaged, or the events
        would take more memory than :data:`MEMORY_MAX`.
    """
    ingests = complete_ingests(directory)
    check_ingests(directory, ingests)
    pieces = newest_pieces(directory, ingests)
    records = stored_rows(directory, ingests, _folder(cluster))
    if records * EVENT_BYTES > MEMORY_MAX:
        raise HistoryInvalid(
            f"{records} records would take some {records * EVENT_BYTES >> 20} MB of memory, more "
            f"than the {MEMORY_MAX >> 20} MB that one process may take: use --engine spark"
        )
    return in_order(
        event for ingest in ingests for event in events_of(directory, ingest, cluster, pieces)
    )


def events_of(
    directory: Path,
    ingest: str,
    cluster: str | None,
    pieces: Sequence[PiecePlace],
    since_ms: int = 0,
) -> Iterator[Event]:
    """The events of one cluster that an ingest has stored, in no order.

    ``since_ms``: days that ended before are left out.
    """
    mine = {(piece.uri, piece.block): piece for piece in pieces if piece.ingest == ingest}
    first = f"day={datetime.fromtimestamp(since_ms / 1_000, UTC):%Y-%m-%d}"
    # Rows without a time are in day=unknown, which sorts last; _events drops them.
    for day in (directory / "events" / f"ingest={ingest}" / _folder(cluster)).glob("day=*"):
        if day.name >= first:
            for table in read_tables(day):
                yield from _events(table, mine, cluster)


def _folder(cluster: str | None) -> str:
    return f"cluster={_NO_CLUSTER if cluster is None else quote(cluster, safe=' ')}"


def _events(
    table: pa.Table, pieces: Mapping[tuple[str, int], PiecePlace], cluster: str | None
) -> Iterator[Event]:
    uris, blocks, line_ids = (table[name].to_pylist() for name in ("uri", "block", "line_id"))
    found = [pieces.get(place) for place in zip(uris, blocks, strict=True)]
    files = [None if piece is None else piece.file for piece in found]
    lines = [
        None if piece is None else line_id + piece.lines_before + 1
        for line_id, piece in zip(line_ids, found, strict=True)
    ]
    columns = [_values(table, name) for name in _STORED]
    # A row without a time is no event, because it cannot be put in order.
    are_events = [
        piece is not None and time_ms is not None
        for piece, time_ms in zip(found, columns[_TIME], strict=True)
    ]
    rows = zip(repeat(cluster, len(found)), files, lines, *columns, strict=True)
    return map(Event._make, compress(rows, are_events))


def _values(table: pa.Table, name: str) -> list[Any]:
    values: list[Any] = table[name].to_pylist()
    if name != "values":
        return values
    return [None if pairs is None else dict(pairs) for pairs in values]
