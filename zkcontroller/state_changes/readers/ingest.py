"""Ingest: log files in, the Parquet tables of a history out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 (its name everywhere)

from zkcontroller.state_changes.readers.export_rows import export_rows
from zkcontroller.state_changes.readers.log_rows import log_rows
from zkcontroller.state_changes.readers.problems import HistoryInvalid
from zkcontroller.state_changes.readers.records import default_records, prefixed_records
from zkcontroller.state_changes.readers.redaction import redacted
from zkcontroller.state_changes.readers.sources import Source, look_at
from zkcontroller.state_changes.readers.store import (
    Manifest,
    read_events,
    read_manifest,
    uri_of,
    write_ingest,
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


def ingest(spark: SparkSession, paths: Sequence[str], options: IngestOptions) -> DataFrame:
    """Reads the logs below the paths into ``options.out``; the rows of all that is there now.

    Files that were read before, with the same size and time, are left out.

    Raises:
        HistoryInvalid: a path, option or the directory is not usable.
    """
    out = Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    manifest = read_manifest(out)
    looked_at = look_at(spark, paths, cluster=options.cluster, broker_id=options.broker_id)
    sources = [s for s in looked_at if manifest.files.get(s.file) != (s.size_bytes, s.modified_ms)]
    if not manifest.ingests and not any(s.format for s in sources):
        problems = "; ".join(f"{s.file}: {s.problem}" for s in sources[:3])
        raise HistoryInvalid(f"no file can be read: {problems}")
    if any(s.format for s in sources):
        number = f"{len(manifest.ingests) + 1:06d}"
        write_ingest(rows_of(spark, sources, options), sources, out, number)
        files = {s.file: (s.size_bytes, s.modified_ms) for s in sources}
        write_manifest(out, Manifest((*manifest.ingests, number), {**manifest.files, **files}))
    return read_events(spark, out)


def rows_of(spark: SparkSession, sources: Sequence[Source], options: IngestOptions) -> DataFrame:
    """The rows of the files, with ``uri``, ``block`` and ``line_id`` for ``file`` and ``line``."""
    read = {"log4j": default_records, "prefixed": prefixed_records}
    files = {kind: [s.file for s in sources if s.format == kind] for kind in (*read, "jsonl")}
    tables = [
        log_rows(reader(spark, files[kind]), options.time_zone)
        for kind, reader in read.items()
        if files[kind]
    ]
    if files["jsonl"]:
        tables.append(export_rows(spark, files["jsonl"]))
    known = spark.createDataFrame(
        [(uri_of(s.file), s.cluster, s.broker_id) for s in sources],
        "uri string, cluster string, source_broker_id int",
    )
    rows = reduce(DataFrame.unionByName, tables)
    attributed = (
        rows.join(F.broadcast(known), "uri", "left")
        .withColumn("broker_id", F.coalesce("broker_id", "source_broker_id"))
        .drop("source_broker_id")
    )
    return attributed if options.redact is None else redacted(attributed, options.redact)
