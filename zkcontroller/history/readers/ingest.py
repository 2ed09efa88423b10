"""Ingest: reads log files and writes the Parquet tables of a history.

Spark hands out the work and holds the tables together; the text itself goes through Python
(:mod:`.piece_reader`), file to Parquet, and not through the JVM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import NamedTuple

from pyspark import Accumulator
from pyspark.sql import DataFrame, SparkSession

from zkcontroller.history.readers.log_times import zone_of
from zkcontroller.history.readers.patterns import DEFAULT_PATTERN, Pattern
from zkcontroller.history.readers.piece_reader import FOUND, Found, read_pieces
from zkcontroller.history.readers.pieces import Piece, tasks_of
from zkcontroller.history.readers.problems import HistoryInvalid
from zkcontroller.history.readers.progress import telling
from zkcontroller.history.readers.sources import Source, look_at
from zkcontroller.history.readers.store import (
    FOLLOWING,
    Manifest,
    read_events,
    read_manifest,
    write_found,
    write_manifest,
)


class IngestOptions(NamedTuple):
    """How logs are to be read."""

    out: str
    """Directory of the Parquet tables."""
    time_zone: str = "UTC"
    """Zone of the brokers' clocks, such as ``Europe/Berlin``."""
    cluster: str | None = None
    """Name of the cluster all files belong to, where the files do not tell or tell wrong."""
    broker_id: int | None = None
    """Broker of all lines that do not name one."""
    redact: str | None = None
    """A secret: names become hashes made with it, see :mod:`.redaction`."""
    pattern: str | None = None
    """log4j's conversion pattern of files that are not in the default layout."""


def checked(options: IngestOptions) -> Pattern | None:
    """The layout that the options name; None if it is the default one.

    Raises:
        HistoryInvalid: an option is not usable.
    """
    zone_of(options.time_zone)
    if options.pattern is None or options.pattern == DEFAULT_PATTERN:
        return None
    if options.redact is not None:
        raise HistoryInvalid("logs of another pattern cannot be redacted: --pattern or --redact")
    return Pattern(options.pattern, options.time_zone)


Tell = Callable[[int, int], None]
"""Called now and then with the number of bytes read, and of all bytes."""


def ingest(
    spark: SparkSession, paths: Sequence[str], options: IngestOptions, tell: Tell | None = None
) -> DataFrame:
    """Reads the logs below the paths into ``options.out``; the rows of all that is there now.

    Files that were read before, with the same size and time, are left out.

    Raises:
        HistoryInvalid: a path, option or the directory is not usable.
    """
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    if (out / FOLLOWING).exists():
        raise HistoryInvalid(f"{out} is followed: only zkctl history follow adds to it")
    pattern = checked(options)  # refused now rather than by each worker
    manifest = read_manifest(out)
    looked_at = look_at(
        paths, cluster=options.cluster, broker_id=options.broker_id, pattern=pattern
    )
    sources = [s for s in looked_at if manifest.files.get(s.file) != (s.size_bytes, s.modified_ms)]
    if not manifest.ingests and not any(s.format for s in sources):
        problems = "; ".join(f"{s.file}: {s.problem}" for s in sources[:3])
        raise HistoryInvalid(f"no file can be read: {problems}")
    if any(s.format for s in sources):
        number = f"{len(manifest.ingests) + 1:06d}"
        write_sources(spark, sources, options, number, tell)
        # What was skipped may be read the next time, with another pattern.
        files = {s.file: (s.size_bytes, s.modified_ms) for s in sources if s.format}
        write_manifest(out, Manifest((*manifest.ingests, number), {**manifest.files, **files}))
    return read_events(spark, out)


def write_sources(
    spark: SparkSession, sources: Sequence[Source], options: IngestOptions, number: str,
    tell: Tell | None = None,
) -> None:  # fmt: skip
    """Writes the files as the ingest ``number``, which counts once the manifest names it.

    What an ingest of that number that died has left is replaced.
    """
    out = Path(options.out)
    events = out / "events" / f"ingest={number}"
    rmtree(events, ignore_errors=True)
    total = sum(source.size_bytes for source in sources if source.format)
    read = spark.sparkContext.accumulator(0)
    found = found_in(spark, sources, events, options, read)
    with telling(tell, lambda: int(read.value), total):
        write_found(found, sources, out, number)


def found_in(
    spark: SparkSession, sources: Sequence[Source], events: Path, options: IngestOptions,
    read: Accumulator[int],
) -> DataFrame:  # fmt: skip
    """What is found in the files; its callers get the rows written into ``events``."""
    context = spark.sparkContext
    tasks = list(enumerate(tasks_of(sources, context.defaultParallelism)))
    work = partial(_run, events=str(events), options=options, read=read)
    found = context.parallelize(tasks, len(tasks)).flatMap(work)
    return spark.createDataFrame(found, FOUND, verifySchema=False)


def _run(
    task: tuple[int, list[Piece]], events: str, options: IngestOptions, read: Accumulator[int]
) -> Iterator[Found]:
    return read_pieces(*task, events, options.time_zone, read.add, options.pattern, options.redact)
