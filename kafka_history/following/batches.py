"""Stores the records of one look in the Parquet tables, exactly once, as an ingest of its own.

The ingest number of a batch is chosen once and written to :data:`BATCH` before anything else.  When
all tables are written, ``history.json`` lists the number.  After a crash the same batch comes
again.  If ``history.json`` lists its number, nothing is done; if not, all is written again.

Many small ingests would be slow to read, so :data:`MERGED_AT` of one size are merged into one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple

import pyarrow.parquet as pq

from kafka_history.following.positions import Position
from kafka_history.following.spool import Batch, FileSegment
from kafka_history.readers.event_files import STORED
from kafka_history.readers.found_tables import (
    FOLLOWED_PIECES,
    SOURCES,
    UNTYPED_SHARE,
    write_rows,
)
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.local_ingest import read_into, workers_of
from kafka_history.readers.manifest import Manifest, read_manifest, write_manifest
from kafka_history.readers.piece_reader import Found
from kafka_history.readers.pieces import uri_of
from kafka_history.readers.soundness import read_tables
from kafka_history.readers.sources import Source

BATCH: Final = "batch.json"
MERGED_AT: Final = 16
"""This many ingests of one size are merged into one of the next size."""
_TABLES: Final = ("events", "pieces", "sources")


class StoredBatch(NamedTuple):
    """The ingest that holds a stored batch."""

    ingest: str
    renamed: Mapping[str, str]
    """The new paths of renamed files, by their old paths."""


class _Read(NamedTuple):
    """The sums of what all batches have read of a file."""

    path: str
    records: int = 0
    typed: int = 0
    read_bytes: int = 0
    first_ms: int | None = None
    last_ms: int | None = None


class BatchWriter:
    """Writes the batches of one directory; ``folder`` holds its state, :data:`BATCH`."""

    def __init__(self, folder: Path, options: IngestOptions) -> None:
        self._folder = folder
        self._out = Path(options.out)
        self._options = options
        self._read: dict[str, _Read] = {}
        for row in self._rows("pieces", read_manifest(self._out).ingests):
            self._count(row)

    def is_done(self, look: int) -> bool:
        """Whether the batch of a look was stored completely."""
        known = self._known()
        if known["look"] is None or look > known["look"]:
            return False
        is_older = look < known["look"]
        return is_older or known["is_done"] or known["ingest"] in read_manifest(self._out).ingests

    def write(self, batch: Batch) -> StoredBatch:
        """Stores the batch; when this returns it is in ``history.json``."""
        manifest = read_manifest(self._out)
        known = self._known()
        if known["look"] == batch.look:
            ingest: str = known["ingest"]
        else:
            ingest = self._next_number(manifest)
            self._note({**known, "look": batch.look, "ingest": ingest, "is_done": False})
        files = {file.id: file for file in batch.files}
        pieces = list(_pieces(self._found(batch.segments, files, ingest), batch.segments, files))
        before = {id_: read.path for id_, read in self._read.items()}
        for piece in pieces:
            self._count(piece)
        write_rows(pieces, FOLLOWED_PIECES, self._out, "pieces", ingest)
        write_rows(map(self._source, files.values()), SOURCES, self._out, "sources", ingest)
        write_manifest(self._out, Manifest((*manifest.ingests, ingest), manifest.files))
        # Note this before the merge, which removes the number from history.json again.
        self._note({**self._known(), "is_done": True})
        self._merge()
        return StoredBatch(
            ingest,
            {
                before[id_]: file.path
                for id_, file in files.items()
                if before.get(id_, file.path) != file.path
            },
        )

    def _found(
        self, segments: Sequence[FileSegment], files: Mapping[str, Position], ingest: str
    ) -> list[Found]:
        """Reads the segments into ``events``, as any ingest does."""
        events = self._out / "events" / f"ingest={ingest}"
        # Remove what an interrupted batch of this number has left.
        rmtree(events, ignore_errors=True)
        events.mkdir(parents=True)
        sources = [
            Source(
                s.path, s.size_bytes, 0, s.size_bytes, files[s.id].kind, files[s.id].broker_id,
                files[s.id].cluster,
            )
            for s in segments
        ]  # fmt: skip
        return read_into(events, sources, self._options, workers_of("local[*]") or 1)

    def _source(self, file: Position) -> dict[str, Any]:
        """The row of ``sources`` for a file, with sums over all batches."""
        read = self._read.get(file.id, _Read(file.path))
        status = "skipped" if file.kind is None else "read"
        if file.problem and file.kind is not None:
            status = "damaged"
        elif read.records and read.typed * UNTYPED_SHARE < read.records:
            status = "untyped"
        return {
            **read._asdict(),
            **file._asdict(),
            "file": file.path,
            "format": file.kind,
            "status": status,
        }

    def _count(self, piece: Mapping[str, Any]) -> None:
        known = self._read.get(piece["followed"], _Read(""))
        if piece["block"] is None:
            self._read[piece["followed"]] = known._replace(path=piece["file"])
            return
        first = [ms for ms in (known.first_ms, piece["first_ms"]) if ms is not None]
        last = [ms for ms in (known.last_ms, piece["last_ms"]) if ms is not None]
        self._read[piece["followed"]] = _Read(
            known.path,
            known.records + piece["records"],
            known.typed + piece["typed"],
            known.read_bytes + piece["read_bytes"],
            min(first, default=None),
            max(last, default=None),
        )

    def _merge(self) -> None:
        """Merges small ingests of a similar size, :data:`MERGED_AT` at a time.

        Merged ingests are always the newest ones, because in the tables the row of the highest
        ingest number is the current one of a file.
        """
        self._forget(read_manifest(self._out))
        while self._merge_once():
            pass

    def _merge_once(self) -> bool:
        known, manifest = self._known(), read_manifest(self._out)
        sizes: dict[str, int] = {i: known["sizes"].get(i, 0) for i in manifest.ingests}
        crowded = next(
            (n for n in sorted(set(sizes.values())) if _count(sizes, n) >= MERGED_AT), None
        )
        if crowded is None:
            return False
        small = [i for i, size in sizes.items() if size == crowded]
        number = self._next_number(manifest)
        self._merge_events(small, number)
        pieces = list(self._rows("pieces", small))
        # Each look writes a row with the name of a changed file: keep only the newest one.
        named = {row["followed"]: row for row in pieces if row["block"] is None}
        read = [row for row in pieces if row["block"] is not None]
        write_rows([*named.values(), *read], FOLLOWED_PIECES, self._out, "pieces", number)
        sources = {row["file"]: row for row in self._rows("sources", small)}
        write_rows(sources.values(), SOURCES, self._out, "sources", number)
        kept = [i for i in manifest.ingests if i not in small]
        write_manifest(self._out, Manifest((*kept, number), manifest.files))
        sizes = {i: size for i, size in sizes.items() if i in kept} | {number: crowded + 1}
        self._note({**known, "sizes": sizes})
        return True

    def _merge_events(self, small: Iterable[str], number: str) -> None:
        """Writes one file for each cluster and day, with all rows of these ingests."""
        target = self._out / "events" / f"ingest={number}"
        rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        folders: dict[Path, list[Path]] = {}
        for ingest in small:
            source = self._out / "events" / f"ingest={ingest}"
            for folder in sorted(source.glob("cluster=*/day=*")):
                folders.setdefault(target / folder.relative_to(source), []).append(folder)
        for merged, parts in folders.items():
            merged.mkdir(parents=True)
            path = merged / "part-00000.zstd.parquet"
            with pq.ParquetWriter(path, STORED, compression="zstd") as writer:
                for part in parts:
                    for table in read_tables(part):
                        writer.write_table(table.cast(STORED))

    def _rows(self, table: str, ingests: Iterable[str]) -> Iterator[dict[str, Any]]:
        for ingest in ingests:
            for rows in read_tables(self._out / table / f"ingest={ingest}"):
                yield from rows.to_pylist()

    def _forget(self, manifest: Manifest) -> None:
        """Deletes merged ingests, one batch later, because readers may still have them open."""
        ingest = self._known()["ingest"]
        for table in _TABLES:
            for folder in (self._out / table).glob("ingest=*"):
                number = folder.name.removeprefix("ingest=")
                if number not in manifest.ingests and number != ingest:
                    rmtree(folder, ignore_errors=True)

    def _next_number(self, manifest: Manifest) -> str:
        last = max((int(i) for i in (*manifest.ingests, self._known()["ingest"])), default=0)
        return f"{last + 1:06d}"

    def _known(self) -> dict[str, Any]:
        try:
            known: dict[str, Any] = json.loads((self._folder / BATCH).read_text())
        except FileNotFoundError:
            return {"look": None, "ingest": "000000", "is_done": True, "sizes": {}}
        return known

    def _note(self, known: dict[str, Any]) -> None:
        new = self._folder / f"{BATCH}.new"
        new.write_text(json.dumps(known))
        new.replace(self._folder / BATCH)


def _pieces(
    found: Iterable[Found], segments: Iterable[FileSegment], files: Mapping[str, Position]
) -> Iterator[dict[str, Any]]:
    """Rows of ``pieces``: one with the name of each file, and one for each piece of a segment."""
    for id_, file in files.items():
        yield {"block": None, "followed": id_, "file": file.path}
    by_uri = {uri_of(segment.path): segment for segment in segments}
    before: dict[str, int] = {}
    for piece in sorted(found, key=lambda each: (each.uri, each.block)):
        segment = by_uri[piece.uri]
        # A large segment is read in several pieces: count on from the piece before.
        lines = before.get(piece.uri, segment.lines)
        before[piece.uri] = lines + piece.end_id - piece.first_id
        yield {**piece._asdict(), "lines_before": lines, "followed": segment.id, "file": None}


def _count(sizes: Mapping[str, int], size: int) -> int:
    return sum(1 for other in sizes.values() if other == size)
