"""``zkctl history ingest``: reads logs into typed rows, and stores them as Parquet."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from zkcontroller_cli.console.options import say, settings
from zkcontroller_cli.console.render import named
from zkcontroller_cli.histories.opening import (
    PATTERN,
    briefly,
    log_options,
    must_exist,
    progress,
    reading_options,
    spark_options,
)

if TYPE_CHECKING:
    from kafka_history.readers.ingest_plan import IngestOptions

MOST_LINES_OF_A_RECORD: Final = 20
"""The average number of lines in a record above which the logs' pattern is probably wrong.

Kafka's own longest record, the configuration that it logs at its start, has some 300 lines.
"""
_FILES: Final = named(
    "file",
    *("file", "cluster", "broker_id", "format", "records", "typed", "lines", "status", "problem"),
)


@click.command("ingest")
@log_options
@spark_options
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

    Examples:
      zkctl history ingest /var/log/kafka-1 /var/log/kafka-2 --out incident
    """
    from kafka_history.readers.found_tables import read_sources
    from kafka_history.readers.ingest_plan import IngestOptions, checked
    from kafka_history.readers.local_ingest import ingest_here, workers_of

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
    workers = workers_of(master)
    if workers is None:
        _ingest_by_spark(logs, options, master, memory)
    else:
        say(f"reading {briefly(logs)}")
        ingest_here(logs, options, workers, progress())
    rows: list[dict[str, Any]] = read_sources(out)
    settings().renderer.rows(rows, _FILES)
    read_rows = sum(row["records"] or 0 for row in rows)
    typed = sum(row["typed"] or 0 for row in rows)
    damaged = sum(row["status"] != "read" for row in rows)
    lines = sum(row["lines"] or 0 for row in rows)
    if lines > MOST_LINES_OF_A_RECORD * read_rows:
        say("few lines begin a record: is the logs' pattern another one? Say --pattern")
    elif typed * 2 < read_rows:
        say("most records are of unknown shape: they are kept, and no analysis knows them")
    say(
        f"{read_rows} records, {read_rows - typed} of unknown shape, in {len(rows)} files"
        f"{f', {damaged} of them not read in full' if damaged else ''}: {out}"
    )


def _ingest_by_spark(logs: Sequence[str], options: IngestOptions, master: str, memory: str) -> None:
    from kafka_history.readers.ingest import ingest as read
    from kafka_history.readers.session import start_spark

    say("starting Spark")
    # Workers read the logs.
    spark = start_spark(master, memory=memory, is_brief=True)
    say(f"reading {briefly(logs)}")
    read(spark, logs, options, progress())
