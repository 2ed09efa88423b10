"""``zkctl history ingest``: logs into typed rows, kept as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from .history_opening import (
    PATTERN,
    briefly,
    log_options,
    must_exist,
    progress,
    reading_options,
)
from .options import say, settings
from .render import named

_FILES: Final = named(
    "file",
    *("file", "cluster", "broker_id", "format", "records", "typed", "lines", "status", "problem"),
)


@click.command("ingest")
@log_options
@reading_options
@PATTERN
def ingest(
    logs: tuple[str, ...],
    out: Path,
    master: str,
    memory: str,
    cluster: str | None,
    broker_id: int | None,
    time_zone: str,
    redact: str | None,
    pattern: str | None,
) -> None:
    """Read Kafka's logs, or state-changes.jsonl, into Parquet tables.

    LOG is a file or a directory; .gz and .zst are read as they are. What was read before, and has
    not changed, is not read again. Prints every file with what was found in it.
    """
    from zkcontroller.history.readers.ingest import IngestOptions, checked
    from zkcontroller.history.readers.ingest import ingest as read
    from zkcontroller.history.readers.session import start_spark
    from zkcontroller.history.readers.store import read_sources

    must_exist(logs)
    options = IngestOptions(
        str(out),
        time_zone=time_zone,
        cluster=cluster,
        broker_id=broker_id,
        redact=redact,
        pattern=pattern,
    )
    checked(options)
    say("starting Spark")
    # Workers read the logs.
    spark = start_spark(master, memory=memory, is_brief=True)
    say(f"reading {briefly(logs)}")
    read(spark, logs, options, progress())
    rows: list[dict[str, Any]] = [
        row.asDict() for row in read_sources(spark, out).orderBy("file").toLocalIterator()
    ]
    settings().renderer.rows(rows, _FILES)
    read_rows = sum(row["records"] or 0 for row in rows)
    typed = sum(row["typed"] or 0 for row in rows)
    damaged = sum(row["status"] != "read" for row in rows)
    if typed * 2 < read_rows:
        say("most records are of unknown shape: is the logs' pattern another one? Say --pattern")
    say(
        f"{read_rows} records, {read_rows - typed} of unknown shape, in {len(rows)} files"
        f"{f', {damaged} of them not read in full' if damaged else ''}: {out}"
    )
