"""What ``zkctl history``'s answering verbs are asked of: a history that was ingested, or logs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from .errors import BadUsage, Refused
from .options import say

if TYPE_CHECKING:
    from zkcontroller.state_changes.analyses.history import History

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

DEFAULT_OUT: Final = Path("zkctl-history")
MANIFEST: Final = "history.json"


class Asked(NamedTuple):
    """Where the answers come from, as the command line says it."""

    logs: tuple[str, ...]
    out: Path
    master: str
    memory: str
    cluster: str | None
    time_zone: str


def history_options(command: CommandT) -> CommandT:
    """Give a verb its logs and the options that say how they are read; it takes ``asked``."""
    options = (
        click.argument("logs", nargs=-1, metavar="[LOG…]"),
        click.option(
            "--out",
            type=click.Path(path_type=Path, file_okay=False),
            default=DEFAULT_OUT,
            show_default=True,
            help="Directory of the history's Parquet tables.",
        ),
        click.option(
            "--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."
        ),
        click.option("--memory", default="2g", show_default=True, help="Heap of Spark's driver."),
        click.option(
            "--cluster", metavar="NAME", help="Which cluster, if the logs are of several."
        ),
        click.option(
            "--time-zone",
            default="UTC",
            show_default=True,
            metavar="ZONE",
            help="Zone of the brokers' clocks, for logs that are read now.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(arguments: dict[str, Any]) -> Asked:
    """Takes the shared options out of a verb's arguments."""
    return Asked(**{name: arguments.pop(name) for name in Asked._fields})


def directory_of(asked: Asked) -> Path:
    """Where the history's tables are: ``--out``, or the one LOG if it is such a directory."""
    is_history = len(asked.logs) == 1 and (Path(asked.logs[0]) / MANIFEST).is_file()
    return Path(asked.logs[0]) if is_history else asked.out


def open_history(asked: Asked) -> History:
    """The history asked for; logs that are not in it yet are read first.

    One LOG that is itself a directory of Parquet tables is that history.

    Raises:
        BadUsage: there are no logs and no history, or the logs are of several clusters.
        Refused: the history has no record of that cluster.
    """
    from zkcontroller.state_changes.readers.ingest import IngestOptions, ingest
    from zkcontroller.state_changes.readers.session import start_spark
    from zkcontroller.state_changes.readers.store import read_events, read_manifest

    logs, out = asked.logs, directory_of(asked)
    if out != asked.out:
        logs = ()
    if not logs and not (out / MANIFEST).is_file():
        raise BadUsage(f"which logs? Name files or directories; {out} holds no history yet")
    say("starting Spark")
    spark = start_spark(asked.master, memory=asked.memory)
    if logs:
        say(f"reading {', '.join(logs[:3])}{' …' if len(logs) > 3 else ''}")
        ingest(spark, logs, IngestOptions(out=str(out), time_zone=asked.time_zone))
    events = read_events(spark, out)
    from zkcontroller.state_changes.analyses.history import ANSWERS_VERSION, History

    cluster = _chosen(events, asked.cluster)
    ingests = read_manifest(out).ingests
    # Another ingest, another cluster or another version of the analyses: other answers.
    folder = re.sub(r"[^\w.-]", "_", f"v{ANSWERS_VERSION}-{ingests[-1]}-{len(ingests)}-{cluster}")
    mine = (
        events.where("cluster IS NULL")
        if cluster is None
        else events.where(events["cluster"] == cluster)
    )
    return History(mine, out / "answers" / folder)


def _chosen(events: Any, wanted: str | None) -> str | None:
    found = [row["cluster"] for row in events.select("cluster").distinct().take(20)]
    names = sorted(name for name in found if name is not None)
    if wanted is not None:
        if wanted not in names:
            raise Refused(f"no record of cluster {wanted}; there are {', '.join(names) or 'none'}")
        return wanted
    if len(found) > 1:
        raise BadUsage(
            f"the logs are of {len(found)} clusters ({', '.join(map(str, found))}): "
            "choose one with --cluster"
        )
    return found[0] if found else None


def moment_ms(text: str) -> int:
    """``2026-11-20 18:09:32.376`` (UTC unless it names an offset), ``2026-11-20T18:09:32Z`` or ms.

    Raises:
        BadUsage: it is no time.
    """
    from datetime import UTC, datetime

    if text.isdigit():
        return int(text)
    try:
        parsed = datetime.fromisoformat(text.strip().replace(",", "."))
    except ValueError:
        raise BadUsage(f"{text!r} is no time such as 2026-11-20T18:09:32.376Z") from None
    aware = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return round(aware.timestamp() * 1000)


def window_ms(text: str) -> tuple[int, int]:
    """``FROM/TO`` as two moments.

    Raises:
        BadUsage: it is no such thing, or it ends before it begins.
    """
    first, slash, last = text.partition("/")
    if not slash:
        raise BadUsage(f"{text!r} is no window: FROM/TO, both such as 2026-11-20T18:09:32Z")
    window = moment_ms(first), moment_ms(last)
    if window[0] >= window[1]:
        raise BadUsage(f"window {text} ends before it begins")
    return window
