"""A task of an ingest: reads pieces of files, writes Parquet files and counts per piece.

It runs in a worker process, started by Spark or by :mod:`.local_ingest`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from kafka_history.readers.arrow_columns import EVENTS
from kafka_history.readers.content import Content
from kafka_history.readers.envelopes import ENVELOPES
from kafka_history.readers.event_files import STORED, EventFiles
from kafka_history.readers.export_tables import ExportTyper
from kafka_history.readers.formats import (
    PATTERNED,
    STRIMZI,
    STRIMZI_PATTERN,
    envelope_name,
    is_in_utc,
    layout_of,
)
from kafka_history.readers.log_times import zone_of
from kafka_history.readers.patterns import Pattern
from kafka_history.readers.pieces import Piece, uri_of
from kafka_history.readers.record_blocks import (
    Block,
    enveloped_blocks,
    line_blocks,
    merged,
    patterned_blocks,
    record_blocks,
)
from kafka_history.readers.redaction import redacted
from kafka_history.readers.typed_tables import Typer

BATCH_BYTES: Final = 16 << 20
"""Bytes of text turned into columns at once; 4 MB took a quarter more processor time."""
_NEVER: Final = 2**62


class Found(NamedTuple):
    """What was found in one piece of a file."""

    uri: str
    block: int
    """The byte of the file at which the piece begins."""
    first_id: int
    """Number of the piece's first line, always 0."""
    end_id: int
    """Number of physical lines in the piece."""
    records: int
    typed: int
    read_bytes: int
    first_ms: int | None
    last_ms: int | None
    problem: str | None


def read_pieces(
    number: int, pieces: Sequence[Piece], events: str, time_zone: str, tell: Callable[[int], None],
    pattern: str | None = None, redact: str | None = None,
) -> Iterator[Found]:  # fmt: skip
    """Reads one task's pieces into ``events``; ``tell`` is called with the bytes read.

    ``pattern``: the layout of pieces whose format is ``patterned``.  ``redact``: the key of
    :func:`.redaction.redacted`.
    """
    local = Typer(zone_of(time_zone))
    # Records that were rewritten have their time in UTC already.
    rewritten = Typer(UTC)
    export = ExportTyper()

    def typer_of(form: str) -> AnyTyper:
        return export if form == "jsonl" else rewritten if is_in_utc(form) else local

    layouts = {
        name: Pattern(text, time_zone)
        for name, text in ((PATTERNED, pattern), (STRIMZI, STRIMZI_PATTERN))
        if text is not None
    }
    sums = _Sums(pieces)
    with EventFiles(Path(events), f"{number:05d}") as files:
        for (cluster, form), batch in _batches(pieces, layouts, sums, tell):
            rows = sums.stored(typer_of(form), batch, redact)
            files.write(rows, cluster)
    yield from sums.found()


Batch = list[tuple[int, Block]]
"""Blocks, each with the number of its piece."""


AnyTyper = Typer | ExportTyper

Layouts = Mapping[str, Pattern]
"""The layouts other than the default one, by name."""

Alike = tuple[str, str]
"""The cluster of a batch's records, and the format of their files."""


def _batches(
    pieces: Sequence[Piece], layouts: Layouts, sums: _Sums, tell: Callable[[int], None]
) -> Iterator[tuple[Alike, Batch]]:
    """Batches of blocks with the same cluster and format, some :data:`BATCH_BYTES` each.

    Each batch has a fixed cost, so small blocks are gathered.
    """
    batch: Batch = []
    held = 0
    alike = "", ""
    for number, piece in enumerate(pieces):
        before, alike = alike, (piece.cluster, piece.format)
        if batch and before != alike:
            yield before, batch
            batch, held = [], 0
        content = Content(Path(piece.file), max(piece.start - 1, 0))
        for block in _blocks(piece, layouts, content):
            sums.end_ids[number] = block.end_id
            batch.append((number, block))
            held += int(block.sizes.sum())
            if held >= BATCH_BYTES:
                yield alike, batch
                batch, held = [], 0
        sums.problems[number] = content.damage
        tell(piece.size_bytes)
    if batch:
        yield alike, batch


def _blocks(piece: Piece, layouts: Layouts, content: Content) -> Iterator[Block]:
    envelope, name = envelope_name(piece.format), layout_of(piece.format)
    # A file has a format with a layout only if that layout was given.
    layout = layouts[name] if name else None
    if envelope:
        return enveloped_blocks(content, ENVELOPES[envelope], layout)
    if layout is not None:
        return patterned_blocks(content, layout)
    if piece.format == "jsonl":
        return line_blocks(content, piece.start, piece.end)
    return record_blocks(content, piece.start, piece.end)


class _Sums:
    """Counts records, bytes and times of each piece of a task."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        count = len(pieces)
        self.end_ids = [0] * count
        self.problems: list[str | None] = [None] * count
        self._uris = pa.array([uri_of(piece.file) for piece in pieces])
        self._starts = np.array([piece.start for piece in pieces], np.int64)
        self._broker_ids = pa.array([piece.broker_id for piece in pieces], pa.int32())
        self._records = np.zeros(count, np.int64)
        self._typed = np.zeros(count, np.int64)
        self._bytes = np.zeros(count, np.int64)
        self._first_ms = np.full(count, _NEVER)
        self._last_ms = np.full(count, -_NEVER)

    def stored(self, typer: AnyTyper, batch: Batch, redact: str | None) -> pa.Table:
        """The rows of a batch in the columns of :data:`.event_files.STORED`; also counts them."""
        block = merged([block for _, block in batch])
        owners = np.repeat(
            np.array([number for number, _ in batch], np.int32),
            [len(block.records) for _, block in batch],
        )
        rows, order = typer.typed(block)
        if redact is not None:
            rows = redacted(rows, redact)
        owner = owners[order]
        self._count(rows, owner)
        np.add.at(self._bytes, owners, block.sizes)
        at = EVENTS.get_field_index("broker_id")
        given = self._broker_ids.take(pa.array(owner))
        rows = rows.set_column(at, EVENTS.field(at), pc.coalesce(rows["broker_id"], given))
        uri = pa.DictionaryArray.from_arrays(pa.array(owner), self._uris)
        return pa.table([uri, pa.array(self._starts[owner]), *rows.columns], schema=STORED)

    def _count(self, rows: pa.Table, owner: NDArray[np.int32]) -> None:
        count = len(self._records)
        is_typed = rows["shape"].is_valid().to_numpy(zero_copy_only=False)
        self._records += np.bincount(owner, minlength=count)
        self._typed += np.bincount(owner[is_typed], minlength=count)
        has_time = rows["time_ms"].is_valid().to_numpy(zero_copy_only=False)
        moments = rows["time_ms"].drop_null().to_numpy()
        np.minimum.at(self._first_ms, owner[has_time], moments)
        np.maximum.at(self._last_ms, owner[has_time], moments)

    def found(self) -> Iterator[Found]:
        """The counts of each piece."""
        columns = (self._records, self._typed, self._bytes, self._first_ms, self._last_ms)
        for number, numbers in enumerate(
            zip(*(column.tolist() for column in columns), strict=True)
        ):
            records, typed, read_bytes, first_ms, last_ms = numbers
            has_time = first_ms != _NEVER
            yield Found(
                self._uris[number].as_py(), int(self._starts[number]), 0, self.end_ids[number],
                records, typed, read_bytes, first_ms if has_time else None,
                last_ms if has_time else None, self.problems[number],
            )  # fmt: skip
