"""Stores one micro-batch in the Parquet tables, exactly once, as an ingest of its own.

The number of the ingest is chosen once per batch and noted before anything is written
(:data:`BATCH`); ``history.json`` names it when all of it is there.  A batch that comes again finds
its number: in ``history.json``, and nothing is left to do, or not, and all is written anew.

Many small ingests would be slow to read, so :data:`MERGED_AT` of a size are merged into one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from kafka_history.event_schema import SOURCE_COLUMNS, ddl
from kafka_history.following.spool import FileSegment
from kafka_history.readers.found_tables import UNTYPED_SHARE
from kafka_history.readers.ingest import write_sources
from kafka_history.readers.ingest_plan import IngestOptions
from kafka_history.readers.manifest import Manifest, read_manifest, write_manifest
from kafka_history.readers.pieces import uri_of
from kafka_history.readers.sources import Source
from kafka_history.readers.store import PIECES_SCHEMA

BATCH: Final = "batch.json"
MERGED_AT: Final = 16
"""So many ingests of one size become one of the next size."""
_TABLES: Final = ("events", "pieces", "sources")


class Batch(NamedTuple):
    """The content of one batch's notes."""

    last_look: int
    segments: tuple[FileSegment, ...]
    files: tuple[Row, ...]
    """What became of each file that changed, newest last."""


def batch_of(notes: DataFrame) -> Batch:
    """The batch in the lines of notes."""
    lines = notes.where("look IS NOT NULL").orderBy("look").collect()
    return Batch(
        max((line["look"] for line in lines), default=0),
        tuple(FileSegment(*line["segment"]) for line in lines if line["segment"]),
        tuple(line["file"] for line in lines if line["file"]),
    )


class _Piece(NamedTuple):
    """A row of ``pieces``; without a ``block`` it says what a file is called now."""

    uri: str | None
    block: int | None
    first_id: int | None
    end_id: int | None
    records: int
    typed: int
    read_bytes: int
    first_ms: int | None
    last_ms: int | None
    lines_before: int | None
    followed: str
    file: str | None


def _pieces(
    counted: Iterable[Row], segments: Iterable[FileSegment], files: Mapping[str, Row]
) -> list[_Piece]:
    """What was read of the segments, at its place in the files; and the names of the files."""
    pieces = [
        _Piece(None, None, None, None, 0, 0, 0, None, None, None, id_, row["path"])
        for id_, row in files.items()
    ]
    by_uri = {uri_of(segment.path): segment for segment in segments}
    lines_before = 0
    uri = None
    for row in counted:
        segment = by_uri[row["uri"]]
        if row["uri"] != uri:
            lines_before, uri = segment.lines, row["uri"]
        pieces.append(
            _Piece(
                uri, row["block"], row["first_id"], row["end_id"], row["records"], row["typed"],
                row["read_bytes"], row["first_ms"], row["last_ms"], lines_before, segment.id, None,
            )
        )  # fmt: skip
        # A large segment was read in pieces: its next piece follows this one.
        lines_before += row["end_id"] - row["first_id"]
    return pieces


class BatchWriter:
    """Writes the batches of one stream; ``folder`` keeps what it must not forget."""

    def __init__(self, spark: SparkSession, folder: Path, options: IngestOptions) -> None:
        self._spark = spark
        self._folder = folder
        self._out = Path(options.out)
        self._options = options

    def is_done(self, batch_id: int) -> bool:
        """Whether the batch stands in ``history.json``."""
        known = self._known()
        if known["batch_id"] != batch_id:
            return False
        return known["is_done"] or known["ingest"] in read_manifest(self._out).ingests

    def write(self, batch_id: int, batch: Batch) -> None:
        """Stores the batch; when this returns it is in ``history.json``."""
        manifest = read_manifest(self._out)
        known = self._known()
        if known["batch_id"] == batch_id:
            ingest = known["ingest"]
        else:
            ingest = self._next_number(manifest)
            self._note({**known, "batch_id": batch_id, "ingest": ingest, "is_done": False})
        files = {row["id"]: row for row in batch.files}
        counted = self._read(batch.segments, files, ingest)
        pieces = _pieces(counted, batch.segments, files)
        self._save(pieces, PIECES_SCHEMA, "pieces", ingest)
        self._save(self._sources(pieces, files), ddl(SOURCE_COLUMNS), "sources", ingest)
        write_manifest(self._out, Manifest((*manifest.ingests, ingest), manifest.files))
        # Before the merge: it takes the number out of history.json again.
        self._note({**self._known(), "is_done": True})
        self._merge()

    def _read(
        self, segments: Sequence[FileSegment], files: dict[str, Row], ingest: str
    ) -> list[Row]:
        """Reads the segments into ``events``, as any ingest does; the pieces that it counted."""
        if not segments:
            (self._out / "events" / f"ingest={ingest}").mkdir(parents=True, exist_ok=True)
            return []
        sources = [
            Source(
                s.path, s.size_bytes, 0, s.size_bytes, files[s.id]["kind"],
                files[s.id]["broker_id"], files[s.id]["cluster"],
            )
            for s in segments
        ]  # fmt: skip
        write_sources(self._spark, sources, self._options, ingest)
        pieces = self._spark.read.parquet(str(self._out / "pieces" / f"ingest={ingest}"))
        return pieces.where("block IS NOT NULL").orderBy("uri", "block").collect()

    def _sources(self, pieces: Sequence[_Piece], files: dict[str, Row]) -> list[tuple[Any, ...]]:
        """One row per file: what has been read of it since it was first seen."""
        sums = self._sums(files)
        for piece in pieces:
            if piece.block is None:
                continue
            before = sums.get(piece.followed, (0, 0, 0, None, None))
            known = (before[3], before[4], piece.first_ms, piece.last_ms)
            times = [moment for moment in known if moment is not None]
            sums[piece.followed] = (
                before[0] + piece.records, before[1] + piece.typed, before[2] + piece.read_bytes,
                min(times, default=None), max(times, default=None),
            )  # fmt: skip
        rows = []
        for id_, file in files.items():
            records, typed, read_bytes, first_ms, last_ms = sums.get(id_, (None,) * 5)
            status = "skipped" if file["kind"] is None else "read"
            if file["problem"] and file["kind"] is not None:
                status = "damaged"
            elif records and typed * UNTYPED_SHARE < records:
                status = "untyped"
            rows.append(
                (
                    file["path"], file["cluster"], file["broker_id"], file["kind"],
                    file["size_bytes"], file["modified_ms"], records, typed, file["lines"],
                    read_bytes, first_ms, last_ms, status, file["problem"],
                )
            )  # fmt: skip
        return rows

    def _sums(self, files: Iterable[str]) -> dict[str, tuple[Any, ...]]:
        """What earlier batches read of these files."""
        ingests = read_manifest(self._out).ingests
        if not ingests:
            return {}
        pieces = self._table("pieces", ingests)
        rows = (
            pieces.where(F.col("followed").isin(list(files)) & F.col("block").isNotNull())
            .groupBy("followed")
            .agg(
                F.sum("records"), F.sum("typed"), F.sum("read_bytes"),
                F.min("first_ms"), F.max("last_ms"),
            )
            .collect()
        )  # fmt: skip
        return {row["followed"]: tuple(row)[1:] for row in rows}

    def _save(self, rows: Sequence[tuple[Any, ...]], schema: str, table: str, ingest: str) -> None:
        folder = self._out / table / f"ingest={ingest}"
        frame = self._spark.createDataFrame(rows, schema)
        frame.coalesce(1).write.mode("overwrite").parquet(str(folder))

    def _merge(self) -> None:
        """Merges small ingests of a similar size, :data:`MERGED_AT` at a time.

        What is merged is always the newest there is: a larger number tells newer things of a file.
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
        # Whole folders per task: else each writes a file into each of them.
        (
            self._table("events", small)
            .drop("ingest")
            .repartition("cluster", "day")
            .write.mode("overwrite")
            .partitionBy("cluster", "day")
            .parquet(str(self._out / "events" / f"ingest={number}"))
        )
        for table, key in ("pieces", "followed"), ("sources", "file"):
            self._merge_table(table, key, small, number)
        kept = [i for i in manifest.ingests if i not in small]
        write_manifest(self._out, Manifest((*kept, number), manifest.files))
        sizes = {i: size for i, size in sizes.items() if i in kept} | {number: crowded + 1}
        self._note({**known, "sizes": sizes})
        return True

    def _merge_table(self, table: str, key: str, small: list[str], number: str) -> None:
        """Of what is said of a file again and again only the newest is kept."""
        rows = self._table(table, small)
        is_told_again = F.col("block").isNull() if table == "pieces" else F.lit(True)
        newest = Window.partitionBy(key, is_told_again).orderBy(F.desc("ingest"))
        kept = (
            rows.withColumn("place", F.row_number().over(newest))
            .where(~is_told_again | (F.col("place") == 1))
            .drop("place", "ingest")
        )
        folder = self._out / table / f"ingest={number}"
        kept.coalesce(1).write.mode("overwrite").parquet(str(folder))

    def _table(self, table: str, ingests: Sequence[str]) -> DataFrame:
        """Some ingests of a table as they lie there, with the column ``ingest``."""
        return self._spark.read.option("basePath", str(self._out / table)).parquet(
            *(str(self._out / table / f"ingest={ingest}") for ingest in ingests)
        )

    def _forget(self, manifest: Manifest) -> None:
        """Deletes what was merged, one batch later: who reads the tables now may still need it."""
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
            return {"batch_id": None, "ingest": "000000", "is_done": True, "sizes": {}}
        return known

    def _note(self, known: dict[str, Any]) -> None:
        new = self._folder / f"{BATCH}.new"
        new.write_text(json.dumps(known))
        new.replace(self._folder / BATCH)


def _count(sizes: dict[str, int], size: int) -> int:
    return sum(1 for other in sizes.values() if other == size)
