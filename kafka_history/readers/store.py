"""The Parquet tables of a history: written once per ingest, read as one table.

Rows are written with the number of their line within the task that read them, because counting from
the beginning of a file would need a second pass; how many lines stand before each piece of a file
is known once all pieces are written, is a small table, and is added when rows are read.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from kafka_history.event_schema import (
    EVENT_COLUMNS,
    SOURCE_COLUMNS,
    ddl,
)
from kafka_history.readers.found_tables import UNTYPED_SHARE
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.pieces import uri_of
from kafka_history.readers.soundness import check_ingests
from kafka_history.readers.sources import DUPLICATE, Source

PIECES_SCHEMA: Final = (
    "uri string, block bigint, first_id bigint, end_id bigint, records bigint, typed bigint, "
    "read_bytes bigint, first_ms bigint, last_ms bigint, lines_before bigint, "
    "followed string, file string"
)
"""The table of pieces.  Of a file that is followed a piece was read from a copy, its ``uri``;
``followed`` stands for the file for ever, and the newest row with a ``file`` has its name."""
_COUNTED: Final = "uri string, block bigint, line_id bigint, stream string"


def write_found(found: DataFrame, sources: Sequence[Source], directory: Path, ingest: str) -> None:
    """Writes the tables of pieces and files, which make rows that were written an ingest.

    ``found``: :data:`.piece_reader.FOUND`, a row for each piece of a file.
    """
    spark = found.sparkSession
    before = Window.partitionBy("uri").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    pieces = found.withColumn(
        "lines_before",
        F.coalesce(F.sum(F.col("end_id") - F.col("first_id")).over(before), F.lit(0)),
    )
    # A file without rows stands there too: it replaces what an earlier ingest read under its name.
    files = spark.createDataFrame([(uri_of(s.file),) for s in sources], "uri string").distinct()
    folder = str(directory / "pieces" / f"ingest={ingest}")
    files.join(pieces, "uri", "left").coalesce(1).write.mode("overwrite").parquet(folder)
    _write_sources(spark, spark.read.parquet(folder), sources, directory, ingest)


def read_events(spark: SparkSession, directory: str | Path) -> DataFrame:
    """All rows of a history, in the columns of the schema; only the columns asked for are read.

    Of a file that was read several times, because it grew, those of the last time; a file that was
    followed was read once, in parts.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, or it is damaged.
    """
    folder = Path(directory)
    ingests = complete_ingests(folder)
    check_ingests(folder, ingests)
    stored = (
        spark.read.schema(_stored_schema())
        .option("basePath", str(folder / "events"))
        .parquet(*(str(folder / "events" / f"ingest={ingest}") for ingest in ingests))
    )
    pieces = (
        spark.read.schema(PIECES_SCHEMA)
        .option("basePath", str(folder / "pieces"))
        .parquet(*(str(folder / "pieces" / f"ingest={ingest}") for ingest in ingests))
        .select("ingest", "uri", "block", "first_id", "lines_before", "followed", "file")
    )
    rows = stored.join(F.broadcast(_newest_pieces(pieces)), ["ingest", "uri", "block"])
    place = {
        "file": (
            "coalesce(file, "
            "url_decode(replace(regexp_replace(uri, '^file:(//)?', ''), '+', '%2B')))"
        ),
        "line": "line_id - first_id + lines_before + 1",
    }
    return rows.select(
        *(
            F.expr(place.get(c.name, f"`{c.name}`")).cast(c.type).alias(c.name)
            for c in EVENT_COLUMNS
        )
    )


def read_sources(spark: SparkSession, directory: str | Path) -> DataFrame:
    """Every file that was looked at, in the columns of ``SOURCE_COLUMNS``."""
    folder = Path(directory)
    sources = (
        spark.read.schema(ddl(SOURCE_COLUMNS))
        .option("basePath", str(folder / "sources"))
        .parquet(*(str(folder / "sources" / f"ingest={n}") for n in complete_ingests(folder)))
    )
    return _newest(sources, "file").drop("ingest")


def with_problems(sources: DataFrame) -> DataFrame:
    """The files that were not read, or not whole, or not understood; duplicates are no problem."""
    is_duplicate = F.coalesce(F.col("problem").startswith(DUPLICATE), F.lit(False))
    return sources.where((F.col("status") != "read") & ~is_duplicate)


def _newest_pieces(pieces: DataFrame) -> DataFrame:
    """Where the rows of each file begin; of a followed one, in all its parts, with its name now."""
    named = F.when(F.col("file").isNotNull(), F.col("ingest"))
    last_name = F.max_by("file", named).over(Window.partitionBy("followed"))
    return _newest(
        pieces.withColumn("file", F.when(F.col("followed").isNotNull(), last_name)), "uri"
    )


def _newest(table: DataFrame, name: str) -> DataFrame:
    """The rows of the last ingest of each file: one that grew was read again from its beginning."""
    last = F.max("ingest").over(Window.partitionBy(name))
    return table.withColumn("last", last).where("ingest = last").drop("last")


def _stored_schema() -> str:
    rest = tuple(c for c in EVENT_COLUMNS if c.name not in ("file", "line"))
    return f"{_COUNTED}, {ddl(rest)}"


def _write_sources(
    spark: SparkSession, pieces: DataFrame, sources: Sequence[Source], directory: Path, ingest: str
) -> None:
    looked_at = spark.createDataFrame(
        [(uri_of(s.file), *s) for s in sources],
        "uri string, file string, size_bytes bigint, modified_ms bigint, content_bytes bigint, "
        "format string, broker_id int, cluster string, problem string",
    )
    found = pieces.groupBy("uri").agg(
        F.sum("records").alias("records"),
        F.sum("typed").alias("typed"),
        F.sum(F.col("end_id") - F.col("first_id")).alias("lines"),
        F.sum("read_bytes").alias("read_bytes"),
        F.min("first_ms").alias("first_ms"),
        F.max("last_ms").alias("last_ms"),
        F.min("problem").alias("found_problem"),
    )
    # Such a file was taken for a log, and hardly a word of it was understood.
    untyped = f"format IS NOT NULL AND records > 0 AND typed * {UNTYPED_SHARE} < records"
    early = "format IS NOT NULL AND coalesce(read_bytes, 0) < content_bytes - 4"
    joined = looked_at.join(F.broadcast(found), "uri", "left").withColumn(
        "problem", F.coalesce("problem", "found_problem")
    )
    columns: dict[str, Any] = {
        "status": (
            "CASE WHEN format IS NULL THEN 'skipped' WHEN problem IS NOT NULL OR "
            f"({early}) THEN 'damaged' WHEN {untyped} THEN 'untyped' ELSE 'read' END"
        ),
        "problem": (
            f"CASE WHEN problem IS NOT NULL THEN problem WHEN {early} THEN concat('only ', "
            "coalesce(read_bytes, 0), ' of ', content_bytes, ' bytes could be read') "
            f"WHEN {untyped} THEN concat('only ', typed, ' of its ', records, ' records have a "
            "known shape: is the pattern another one, or is it no log of a broker?') END"
        ),
    }
    joined.select(
        *(
            F.expr(columns.get(c.name, f"`{c.name}`")).cast(c.type).alias(c.name)
            for c in SOURCE_COLUMNS
        )
    ).coalesce(1).write.mode("overwrite").parquet(str(directory / "sources" / f"ingest={ingest}"))
