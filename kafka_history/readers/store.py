"""Reads the rows of a history by Spark.

A stored row has the number of its line within its piece of the file, because counting from the
beginning of the file would need a second pass.  The number of lines before each piece is known when
all pieces are written.  It is in the small table ``pieces``, and is added when rows are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from kafka_history.event_schema import EVENT_COLUMNS, columns_of, ddl
from kafka_history.readers.arrow_columns import table_of
from kafka_history.readers.found_tables import PiecePlace, newest_pieces
from kafka_history.readers.manifest import complete_ingests
from kafka_history.readers.soundness import check_ingests

_COUNTED: Final = "uri string, block bigint, line_id bigint, stream string"


def read_events(spark: SparkSession, directory: str | Path) -> DataFrame:
    """All rows of a history, in the columns of the schema; only the columns asked for are read.

    If a file was read several times, because it grew, only the rows of the last time are returned.

    Raises:
        HistoryInvalid: there is no complete ingest in the directory, or it is damaged.
    """
    folder = Path(directory)
    ingests = complete_ingests(folder)
    check_ingests(folder, ingests)
    stored = (
        spark.read.schema(f"{_COUNTED}, {ddl(_STORED)}")
        .option("basePath", str(folder / "events"))
        .parquet(*(str(folder / "events" / f"ingest={ingest}") for ingest in ingests))
    )
    pieces = spark.createDataFrame(table_of(newest_pieces(folder, ingests), columns_of(PiecePlace)))
    rows = stored.join(F.broadcast(pieces), ["ingest", "uri", "block"])
    return rows.withColumn("line", F.expr("line_id + lines_before + 1")).select(
        *(F.col(c.name).cast(c.type).alias(c.name) for c in EVENT_COLUMNS)
    )


_STORED: Final = tuple(c for c in EVENT_COLUMNS if c.name not in ("file", "line"))
