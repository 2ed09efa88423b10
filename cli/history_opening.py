"""Opens the history for the answering verbs of ``zkctl history``: stored tables, or logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from .errors import BadUsage, Refused
from .options import say

if TYPE_CHECKING:
    from zkcontroller.history.analyses.history import History

CommandT = TypeVar("CommandT", bound=Callable[..., Any])

DEFAULT_OUT: Final = Path("zkctl-history")
MANIFEST: Final = "history.json"


class Asked(NamedTuple):
    """The source of the answers, as given on the command line."""

    logs: tuple[str, ...]
    out: Path
    master: str
    memory: str
    cluster: str | None
    time_zone: str
    pattern: str | None


_OUT: Final = click.option(
    "--out",
    type=click.Path(path_type=Path, file_okay=False),
    default=DEFAULT_OUT,
    show_default=True,
    help="Directory of the history's Parquet tables.",
)
_MASTER: Final = click.option(
    "--master", default="local[*]", show_default=True, metavar="URL", help="Spark master."
)
_MEMORY: Final = click.option(
    "--memory", default="2g", show_default=True, help="Heap of Spark's driver."
)


def _time_zone(text: str) -> Callable[[CommandT], CommandT]:
    return click.option("--time-zone", default="UTC", show_default=True, metavar="ZONE", help=text)


PATTERN: Final = click.option(
    "--pattern",
    metavar="LOG4J",
    help="Conversion pattern of logs in another layout than Kafka's, such as '%d %-5p %c - %m%n'.",
)


def history_options(command: CommandT) -> CommandT:
    """Give a verb its logs and the options that say how they are read; it takes ``asked``."""
    return _with(
        command,
        click.argument("logs", nargs=-1, metavar="[LOG…]"),
        _OUT,
        _MASTER,
        _MEMORY,
        click.option(
            "--cluster", metavar="NAME", help="Which cluster, if the logs are of several."
        ),
        _time_zone("Zone of the brokers' clocks, for logs that are read now."),
        PATTERN,
    )


def log_options(command: CommandT) -> CommandT:
    """Give a verb that stores logs these, and the directory of the tables."""
    return _with(command, click.argument("logs", nargs=-1, required=True, metavar="LOG…"), _OUT)


def reading_options(command: CommandT) -> CommandT:
    """Give a verb that stores logs the options that say how they are read."""
    return _with(
        command,
        _MASTER,
        _MEMORY,
        click.option(
            "--cluster", metavar="NAME", help="The cluster of all files, where they do not tell it."
        ),
        click.option(
            "--broker-id", type=click.IntRange(0), help="The broker of lines that do not name one."
        ),
        _time_zone("Zone of brokers' clocks."),
        click.option("--redact", metavar="KEY", help="Replace names by hashes made with KEY."),
    )


def _with(command: CommandT, *options: Callable[[CommandT], CommandT]) -> CommandT:
    for option in reversed(options):
        command = option(command)
    return command


def asked_of(arguments: dict[str, Any]) -> Asked:
    """Takes the shared options out of a verb's arguments."""
    return Asked(**{name: arguments.pop(name) for name in Asked._fields})


def must_exist(logs: Sequence[str]) -> None:
    """Refuses a path that is not there, before Spark takes its seconds to start."""
    for log in logs:
        if not Path(log).exists():
            raise Refused(f"no such file or folder: {log}")


def briefly(logs: Sequence[str]) -> str:
    """The first few of the logs, for a line on the screen."""
    return f"{', '.join(logs[:3])}{' …' if len(logs) > 3 else ''}"


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
    from zkcontroller.history.readers.ingest import IngestOptions, checked, ingest
    from zkcontroller.history.readers.session import start_spark
    from zkcontroller.history.readers.store import clusters_in, read_events, read_manifest

    logs, out = asked.logs, directory_of(asked)
    if out != asked.out:
        logs = ()
    if not logs and not (out / MANIFEST).is_file():
        raise BadUsage(f"which logs? Name files or directories; {out} holds no history yet")
    must_exist(logs)
    # What can be refused is refused before Spark takes its seconds to start.
    options = IngestOptions(out=str(out), time_zone=asked.time_zone, pattern=asked.pattern)
    checked(options)
    if not logs:
        _chosen(clusters_in(out), asked.cluster)
    say("starting Spark")
    spark = start_spark(asked.master, memory=asked.memory)
    if logs:
        say(f"reading {briefly(logs)}")
        ingest(spark, logs, options, progress())
    events = read_events(spark, out)
    from zkcontroller.history.analyses.history import History
    from zkcontroller.history.analyses.kept import answers_folder

    cluster = _chosen(clusters_in(out), asked.cluster)
    mine = (
        events.where("cluster IS NULL")
        if cluster is None
        else events.where(events["cluster"] == cluster)
    )
    return History(mine, answers_folder(out, read_manifest(out).ingests, cluster))


def kept_answers(asked: Asked) -> Path | None:
    """Where the answers are that questions before have kept; None if logs must be read first.

    Raises:
        BadUsage: the history is of several clusters.
        Refused: it has no record of that cluster.
    """
    from zkcontroller.history.analyses.kept import answers_folder
    from zkcontroller.history.readers.store import clusters_in, read_manifest

    out = directory_of(asked)
    if not (out / MANIFEST).is_file() or (asked.logs and out == asked.out):
        return None
    cluster = _chosen(clusters_in(out), asked.cluster)
    return answers_folder(out, read_manifest(out).ingests, cluster)


def progress() -> Callable[[int, int], None]:
    """Reports how far reading has come, and remembers when it started."""
    began = monotonic()

    def tell(done: int, total: int) -> None:
        speed = done / (monotonic() - began)
        left = f", some {(total - done) / speed:.0f} s left" if done < total else ""
        say(f"read {done >> 20} of {total >> 20} MB, {speed / 2**20:.0f} MB/s{left}")

    return tell


def _chosen(found: Sequence[str | None], wanted: str | None) -> str | None:
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
