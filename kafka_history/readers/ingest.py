"""Ingest by Spark: reads log files and writes the Parquet tables of a history.

Spark distributes the tasks.  Python workers turn text into Parquet (:mod:`.piece_reader`); no text
passes through the JVM.  This is for several machines; on one machine :mod:`.local_ingest` writes
the same tables without a JVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree

from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from kafka_history.readers.found_tables import write_found
from kafka_history.readers.ingest_plan import IngestOptions, Tell, complete, plan
from kafka_history.readers.piece_reader import Found, read_pieces
from kafka_history.readers.pieces import Piece, tasks_of
from kafka_history.readers.progress import telling
from kafka_history.readers.sources import Source
from kafka_history.readers.store import read_events


def ingest(
    spark: SparkSession, paths: Sequence[str], options: IngestOptions, tell: Tell | None = None
) -> DataFrame:
    """Reads the logs below the paths into ``options.out``, and returns all rows of that history.

    Files that were read before, with the same size and time, are left out.

    Raises:
        HistoryInvalid: a path, option or the directory is not usable.
    """
    planned = plan(paths, options)
    out = Path(options.out)
    if planned.number is not None:
        write_sources(spark, planned.sources, options, planned.number, tell)
        complete(planned, out)
    return read_events(spark, out)


def write_sources(
    spark: SparkSession, sources: Sequence[Source], options: IngestOptions, number: str,
    tell: Tell | None = None,
) -> None:  # fmt: skip
    """Writes the files as ingest ``number``, which readers ignore until the manifest lists it.

    What an interrupted ingest of this number has left is replaced.
    """
    out = Path(options.out)
    events = out / "events" / f"ingest={number}"
    rmtree(events, ignore_errors=True)
    total = sum(source.size_bytes for source in sources if source.format)
    read = spark.sparkContext.accumulator(0)
    context = spark.sparkContext
    tasks = list(enumerate(tasks_of(sources, context.defaultParallelism)))
    work = partial(_run, events=str(events), options=options, read=read)
    with telling(tell, lambda: int(read.value), total):
        found = context.parallelize(tasks, len(tasks)).flatMap(work).collect()
    write_found(found, sources, out, number)


def _run(
    task: tuple[int, list[Piece]], events: str, options: IngestOptions, read: Accumulator[int]
) -> Iterator[Found]:
    return read_pieces(*task, events, options.time_zone, read.add, options.pattern, options.redact)
