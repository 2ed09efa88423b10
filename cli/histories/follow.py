"""``zkctl history follow``: reads logs as they grow, and shows findings as they appear."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from zkcontroller_cli.console.errors import ExitCode
from zkcontroller_cli.console.options import say, settings
from zkcontroller_cli.console.render import named
from zkcontroller_cli.histories.opening import briefly, log_options, must_exist, reading_options

if TYPE_CHECKING:
    from kafka_history.following.tailer import Problem


@click.command("follow")
@log_options
@click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    default=1.0,
    show_default=True,
    metavar="SECONDS",
    help="Pause between two looks at the files.",
)
@click.option("--once", is_flag=True, help="Take what came since the last time, and end.")
@click.option("--store-only", is_flag=True, help="Store the rows, and seek no findings.")
@click.option(
    "--window",
    "window_hours",
    type=click.IntRange(1),
    default=24,
    show_default=True,
    metavar="HOURS",
    help="Seek findings in the last hours of the logs.",
)
@reading_options
def follow(
    logs: tuple[str, ...],
    out: Path,
    every_s: float,
    once: bool,
    store_only: bool,
    window_hours: int,
    cluster: str | None,
    broker_id: int | None,
    time_zone: str,
    redact: str | None,
) -> int:
    """Follow logs as they grow: a row for each tenure, window without a leader and rule hit.

    LOG is a file or a directory; files that appear in it are followed too. Everything is read from
    its beginning, once, and goes on where it was when follow is called again with the same --out.
    Ends with Ctrl-C, or when --timeout is over.

    Examples:
      zkctl history follow /var/log/kafka --out incident
      zkctl history follow /var/log/kafka --out incident --once -o jsonl
    """
    from kafka_history.following.announcements import KEYS
    from kafka_history.following.follower import FollowOptions
    from kafka_history.following.follower import follow as follow_logs
    from kafka_history.readers.ingest_plan import IngestOptions

    given = settings()
    must_exist(logs)
    read = IngestOptions(
        str(out), time_zone=time_zone, cluster=cluster, broker_id=broker_id, redact=redact
    )
    options = FollowOptions(
        read,
        every_s,
        window_hours,
        is_once=once,
        is_telling=not store_only,
        timeout_s=given.timeout_s,
    )
    stream = given.renderer.stream(named("id", *KEYS, keys=KEYS))

    def show(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            stream.write(row)

    def complain(problem: Problem) -> None:
        say(f"{problem.path}: {problem.problem}")

    say(f"following {briefly(logs)} into {out}")
    try:
        follow_logs(logs, options, show, complain)
    finally:
        stream.close()
    return ExitCode.OK
