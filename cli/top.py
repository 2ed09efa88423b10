"""``zkctl top``: shows the state of the cluster, and its changes."""

from __future__ import annotations

import os
import sys
from typing import Final

import click

from zkcontroller_cli.console.errors import BadUsage, CannotConnect, Refused
from zkcontroller_cli.console.options import Settings, settings, shared_options
from zkcontroller_cli.console.render import named

_ONCE: Final = named("controller_id")


@shared_options
@click.command("top")
@click.option("--once", is_flag=True, help="Print one reading and end: no screen.")
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.2),
    default=2.0,
    show_default=True,
    metavar="SECONDS",
    help="From the end of a reading to the next.",
)
@click.option(
    "--metrics",
    "metrics_urls",
    multiple=True,
    metavar="URL",
    help="Where a broker serves its metrics: the controller's event queue is read there.",
)
def command(once: bool, interval_s: float, metrics_urls: tuple[str, ...]) -> None:
    """The cluster on one screen: controller, brokers, partitions, moves, groups, changes.

    Reads only: ZooKeeper, and what brokers alone can tell. With ZooKeeper or brokers alone it shows
    what those know.

    Examples:
      zkctl top
      zkctl top --interval 5 --metrics http://broker-1:9404/metrics
      zkctl top --once -o json
    """
    given = settings()
    urls = (*metrics_urls, *metrics_urls_of(given))
    if once:
        _print_once(given, urls)
        return
    if given.output is not None:
        raise BadUsage(f"-o {given.output} needs --once: the screen has no other format")
    _show(given, urls, interval_s)


def metrics_urls_of(given: Settings) -> list[str]:
    """The URLs of the local brokers' metrics; empty if the settings name another cluster."""
    file = given.cluster_file
    named_here = given.find_zookeeper()
    if file is None or named_here is None or named_here.text != file.zookeeper_connect:
        return []
    return [each.metrics.url for each in file.brokers if each.metrics.port is not None]


def _show(given: Settings, urls: tuple[str, ...], interval_s: float) -> None:
    if not (sys.stdin.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb":
        raise BadUsage("the screen needs a terminal: --once prints one reading")
    from zkcontroller_cli.screen.reader import Reader

    reader = Reader(given, urls)
    try:
        from zkcontroller_cli.screen.screen import run_screen
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] != "textual":
            raise
        raise Refused(
            "the screen needs textual: pip install 'zkcontroller[top]'; --once works without it"
        ) from None
    # If a shell exports these, textual would not notice a change of the terminal's size.
    for fixed_size in ("COLUMNS", "LINES"):
        os.environ.pop(fixed_size, None)
    run_screen(reader, interval_s)


def _print_once(given: Settings, urls: tuple[str, ...]) -> None:
    from zkcontroller_cli.screen.model import Monitor
    from zkcontroller_cli.screen.reader import Reader
    from zkcontroller_cli.screen.rows import census, record

    monitor = Monitor()
    with Reader(given, urls) as reader:
        reading = reader.read()
    if reading.source is None:
        raise CannotConnect("; ".join(reading.problems))
    monitor.take(reading)
    given.renderer.record(record(monitor, census(reading)), _ONCE)
