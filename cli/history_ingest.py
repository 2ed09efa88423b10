"""``zkctl history ingest``: logs into typed rows, kept as Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from .history_opening import DEFAULT_OUT
from .options import say, settings
from .render import named

_FILES: Final = named(
    "file",
    *("file", "cluster", "broker_id", "format", "records", "typed", "lines", "status", "problem"),
)


@click.command("ingest")
@click.argument("logs", nargs=-1, required=True, metavar="LOG…")
@click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_OUT,
    show_default=True,
    help="Directory of the history's Parquet tables.",
)
@click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."
)
@click.option("--memory", default="2g", show_default=True, help="Heap of Spark's driver.")
@click.option(
    "--cluster", metavar="NAME", help="The cluster of all files, where they do not tell it."
)
@click.option(
    "--broker-id", type=click.IntRange(0), help="The broker of lines that do not name one."
)
@click.option(
    "--time-zone", default="UTC", show_default=True, metavar="ZONE", help="Zone of brokers' clocks."
)
@click.option("--redact", metavar="KEY", help="Replace names by hashes made with KEY.")
def ingest(
    logs: tuple[str, ...],
    out: Path,
    master: str,
    memory: str,
    cluster: str | None,
    broker_id: int | None,
    time_zone: str,
    redact: str | None,
) -> None:
    """Read Kafka's logs, or state-changes.jsonl, into Parquet tables.

    LOG is a file or a directory; .gz and .zst are read as they are. What was read before, and has
    not changed, is not read again. Prints every file with what was found in it.
    """
    from zkcontroller.state_changes.readers.ingest import IngestOptions
    from zkcontroller.state_changes.readers.ingest import ingest as read
    from zkcontroller.state_changes.readers.session import start_spark
    from zkcontroller.state_changes.readers.store import read_sources

    say("starting Spark")
    spark = start_spark(master, memory=memory)
    say(f"reading {', '.join(logs[:3])}{' …' if len(logs) > 3 else ''}")
    options = IngestOptions(
        str(out), time_zone=time_zone, cluster=cluster, broker_id=broker_id, redact=redact
    )
    read(spark, logs, options)
    rows: list[dict[str, Any]] = [
        row.asDict() for row in read_sources(spark, out).orderBy("file").toLocalIterator()
    ]
    settings().renderer.rows(rows, _FILES)
    read_rows = sum(row["records"] or 0 for row in rows)
    typed = sum(row["typed"] or 0 for row in rows)
    damaged = sum(row["status"] != "read" for row in rows)
    say(
        f"{read_rows} records, {read_rows - typed} of unknown shape, in {len(rows)} files"
        f"{f', {damaged} of them not read in full' if damaged else ''}: {out}"
    )
